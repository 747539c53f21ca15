"""What is minimised: the energy of a batch of codes.

Rows are samples. For a batch `Y` (n x d) with codes `Z` (n x l), decoder `D` and encoder `E`::

    sum_i 1/d ||y_i - D(z_i)||^2                        reconstruction
    + beta  * n / 250 * sum_j [(T - std_j(Z))_+]^2      variance hinge, over the batch
    + gamma * sum_i 1/l ||z_i - E(y_i)||^2              proximity to the encoder's prediction
    + lam   * sum_i ||z_i||_1, or ||z_i||_0             penalty: l1 norm, or number of non-zeros

The hinge is one sum per batch, whereas everything else is a sum over rows. Its weight is therefore
proportional to the number of rows, so that it acts equally on each row in a batch of any size. The
paper uses batches of 250 rows.
"""

from ._problem import HINGE_ROWS, EnergySettings, Problem
from ._spread import SharedSpread
from ._terms import l0, l1, mean_squared_error, variance_hinge

__all__ = [
    "HINGE_ROWS",
    "EnergySettings",
    "Problem",
    "SharedSpread",
    "l0",
    "l1",
    "mean_squared_error",
    "variance_hinge",
]
