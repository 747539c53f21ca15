"""VDL with its default settings: nothing is tuned except what `fit` finds by itself.

As for the rivals, the strength of exact codes is then found on validation rows, so that all are
compared at equal zeros even where these differ from the training rows. The encoder's codes are as
they are.
"""

import copy
from time import perf_counter

from skvdl import VDL as Estimator

from .measures import zeros
from .methods import Fitted, find_strength


class VDL:
    """One fit per level; codes by `transform` as it is by default, and by the encoder."""

    entries = ("vdl", "vdl-encoder")

    def __init__(self, data, seed):
        self.data = data
        self.seed = seed

    def solve(self, level):
        model = Estimator(
            n_components=self.data.n_components, target_sparsity=level, random_state=self.seed
        )
        start = perf_counter()
        model.fit(self.data.train)
        seconds = perf_counter() - start
        by_encoder = copy.deepcopy(model).set_params(transform_method="encoder")
        as_fitted = {m: zeros(m.transform(self.data.val)) for m in (model, by_encoder)}
        exact = copy.deepcopy(model)
        lam = find_strength(
            lambda lam: exact.set_params(lam=lam).transform(self.data.val),
            level,
            model.lam_ / 10,
            model.lam_ * 10,
        )
        model.set_params(lam=lam)
        return {
            entry: Fitted(
                encode=estimator.transform,
                decode=estimator.inverse_transform,
                fit_seconds=seconds,
                settings={
                    "lam_": float(estimator.lam_),
                    "lam": estimator.lam,
                    "val_zeros_as_fitted": round(as_fitted[estimator], 4),
                    "transform_method": estimator.transform_method,
                    "epochs": int(estimator.n_iter_),
                },
                atoms=estimator.components_,
            ).validate(self.data.val)
            for entry, estimator in zip(self.entries, (model, by_encoder), strict=True)
        }
