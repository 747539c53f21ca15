"""From data to codes after training, chunk by chunk."""

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning

from .._caller import caller_level
from ..energy import EnergySettings
from ..models import LISTA, Decoder, Units
from ..solvers import SolverSettings, codes_by_row, refit


class Coder:
    """Compute codes of chunks of data, and remember how many rows did not converge.

    Parameters
    ----------
    decoder : Decoder
        Decoder.
    encoder : LISTA or None
        Encoder; the solver starts at its prediction.
    units : Units
        What is taken out of the data first.
    energy_settings : EnergySettings
        What codes minimise.
    solver_settings : SolverSettings
        How it is minimised.
    debias : bool
        Whether amplitudes are refitted on the support of the codes.
    predict : bool
        Whether the encoder's prediction is enough for rows without missing entries.
    look_for_nan : bool
        Whether entries may be missing, marked by NaN.
    """

    def __init__(
        self,
        decoder: Decoder,
        encoder: LISTA | None,
        units: Units,
        energy_settings: EnergySettings,
        solver_settings: SolverSettings,
        *,
        debias: bool,
        predict: bool,
        look_for_nan: bool,
    ) -> None:
        self.decoder = decoder
        self.encoder = encoder
        self.units = units
        self.energy_settings = energy_settings
        self.solver_settings = solver_settings
        self.debias = debias
        self.predict = predict
        self.look_for_nan = look_for_nan
        self.n_rows = 0
        self.n_missed = 0

    @torch.no_grad()
    def __call__(self, Y: torch.Tensor) -> torch.Tensor:
        """Codes of some rows, given in the units of the data."""
        return finite(self._codes(self.units.apply(Y)), self._divergence_message(Y))

    def _codes(self, Y: torch.Tensor) -> torch.Tensor:
        if not self.look_for_nan:
            return self._complete(Y)
        missing = Y.isnan()
        gaps = missing.any(dim=1)
        if not gaps.any():
            return self._complete(Y)
        Z = Y.new_empty(len(Y), self.decoder.n_components)
        if not gaps.all():
            Z[~gaps] = self._complete(Y[~gaps])
        seen = missing[gaps].logical_not().to(Y.dtype)
        Z[gaps] = self._solve(Y[gaps].nan_to_num(nan=0.0), seen)
        return Z

    def _complete(self, Y: torch.Tensor) -> torch.Tensor:
        if self.predict and self.encoder is not None:
            return self._refit(Y, self.encoder(Y), None)
        return self._solve(Y, None)

    def _solve(self, Y: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        init = None if self.encoder is None else self.encoder(Y)
        settings = self.energy_settings, self.solver_settings
        found = codes_by_row(self.decoder, Y, *settings, seen=seen, init=init)
        self.n_rows += len(Y)
        self.n_missed += int(found.converged.logical_not().sum())
        return self._refit(Y, found.codes, seen)

    def _refit(self, Y: torch.Tensor, Z: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        if not self.debias:
            return Z
        # the refit needs only the support, and would make codes that diverged look right
        Z = finite(Z, self._divergence_message(Y))
        return refit(self.decoder, Y, Z, positive=self.energy_settings.positive, seen=seen)

    def _divergence_message(self, Y: torch.Tensor) -> str:
        step_size = self.solver_settings.step_size
        if isinstance(step_size, str):
            return f"Codes are not finite: the data or the weights are too large for {Y.dtype}."
        return f"Codes are not finite with step_size={step_size}; use step_size='auto'."

    def warn(self) -> None:
        """Warn once of all rows that did not converge, at the user's line of code."""
        if self.n_missed:
            warnings.warn(
                f"The codes of {self.n_missed} of {self.n_rows} rows are not within "
                f"transform_tol={self.solver_settings.tol} after transform_max_iter="
                f"{self.solver_settings.max_iter} iterations; raise either.",
                ConvergenceWarning,
                stacklevel=caller_level(),
            )


def finite(values: torch.Tensor, message: str) -> torch.Tensor:
    """Return values if all of them are finite, and raise FloatingPointError otherwise."""
    # a norm takes no memory
    if not torch.linalg.vector_norm(values, torch.inf).isfinite():
        raise FloatingPointError(message)
    return values
