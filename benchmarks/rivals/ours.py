"""VDL with its default settings: nothing is tuned except what `fit` finds by itself."""

import copy
from time import perf_counter

from skvdl import VDL as Estimator

from .methods import Fitted


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
        return {
            entry: Fitted(
                encode=estimator.transform,
                decode=estimator.inverse_transform,
                fit_seconds=seconds,
                settings={
                    "lam": float(estimator.lam_),
                    "transform_method": estimator.transform_method,
                    "epochs": int(estimator.n_iter_),
                },
                atoms=estimator.components_,
            ).validate(self.data.val)
            for entry, estimator in zip(self.entries, (model, by_encoder), strict=True)
        }
