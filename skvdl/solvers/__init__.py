"""How codes are found: solvers with `solve(problem, init) -> Result`, and one place that chooses.

| solver | for | stops by |
|---|---|---|
| `Fista` | any problem, with a step that is given | relative change |
| `RestartingFista` | quadratic data terms | relative change |
| `BacktrackingFista` | any other data term | gradient mapping |
| `CountingFista` | quadratic data terms with the l0 penalty | relative change |
| `ActiveSetLasso` | the same by row, with numba and on a CPU | duality gap |
| `ExactLasso` | the same by row, otherwise | duality gap |

`refit` takes the bias of the penalty out of codes.
"""

from ._active_set import ActiveSetLasso
from ._backtracking import BacktrackingFista
from ._choice import SolverSettings, choose_solver, codes_by_row
from ._counting import CountingFista
from ._exact import ExactLasso, relative_gaps
from ._fista import Fista, RestartingFista
from ._refit import refit
from ._solver import Result, Solver

__all__ = [
    "ActiveSetLasso",
    "BacktrackingFista",
    "CountingFista",
    "ExactLasso",
    "Fista",
    "RestartingFista",
    "Result",
    "Solver",
    "SolverSettings",
    "choose_solver",
    "codes_by_row",
    "refit",
    "relative_gaps",
]
