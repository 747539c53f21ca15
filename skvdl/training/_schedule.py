"""How long and how fast to learn, and in which batches."""

import math
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how fast to learn.

    Attributes
    ----------
    batch_size : int
        Rows per batch.
    max_iter : int
        Maximum number of epochs.
    learning_rate : {"cosine", "constant"} or int
        Whether the rates decay to zero over the epochs; a number of epochs halves the decoder's
        rate each time they have passed.
    learning_rate_init : float
        Rate of the decoder.
    encoder_learning_rate_init : float
        Rate of the encoder.
    unit_norm : bool
        Whether the columns of the decoder's matrices are scaled to norm 1 after every step.
    weight_decay : float
        Weight decay of the decoder's matrices.
    bias_decay : (float, float)
        Weight decay of the decoder's biases and of the encoder's.
    judge_every : int
        Number of epochs after which the validation energy is computed again.
    n_iter_no_change : int or None
        Number of epochs without an improvement of the validation energy after which training
        stops; with None it never does.
    tol : float
        Relative improvement of the validation energy that counts.
    revive_dead : bool
        Whether unused components are reset after each epoch.
    look_for_nan : bool
        Whether entries of the data may be missing, marked by NaN.
    online : bool
        Whether the decoder, which must be linear, is updated without a rate.
    target_sparsity : float or None
        Share of zeros for which the weight of the penalty is found; None leaves it as it is.
    """

    batch_size: int
    max_iter: int
    learning_rate: str | int
    learning_rate_init: float
    encoder_learning_rate_init: float
    unit_norm: bool
    weight_decay: float
    bias_decay: tuple[float, float]
    judge_every: int
    n_iter_no_change: int | None
    tol: float
    revive_dead: bool
    look_for_nan: bool
    online: bool = False
    target_sparsity: float | None = None

    def rates(self, n_epochs: float) -> tuple[float, float]:
        """Rates of decoder and encoder after a number of epochs, which need not be whole."""
        rates = self.learning_rate_init, self.encoder_learning_rate_init
        if not isinstance(self.learning_rate, str):
            return rates[0] * 0.5 ** (n_epochs // self.learning_rate), rates[1]
        if self.learning_rate == "constant":
            return rates
        factor = 0.5 * (1.0 + math.cos(math.pi * (n_epochs / self.max_iter)))
        return rates[0] * factor, rates[1] * factor


def batch_slices(n_rows: int, batch_size: int) -> list[slice]:
    """Cut rows into batches of nearly equal size, as close to what is asked for as that allows.

    A remainder is spread over the batches rather than left as a small last batch, whose standard
    deviations would be poor estimates. A batch of one row occurs only if there is only one row.
    """
    n_batches = max(1, min(round(n_rows / batch_size), n_rows // 2))
    edges = [n_rows * i // n_batches for i in range(n_batches + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
