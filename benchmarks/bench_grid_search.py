"""Many fits at once: `GridSearchCV(n_jobs=2)` against `n_jobs=1`.

python -m benchmarks.bench_grid_search
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from skvdl import VarianceDictionaryLearning

from .common import print_table, save, time_side_by_side


def main():
    X = load_digits().data.astype(np.float32)
    X = (X - X.mean()) / X.std()
    grid = {"lam": [0.001, 0.005, 0.02], "beta": [1.0, 10.0]}

    def search(n_jobs):
        model = VarianceDictionaryLearning(64, max_iter=60, random_state=0)
        return lambda: GridSearchCV(model, grid, cv=3, n_jobs=n_jobs, refit=False).fit(X)

    # the first, untimed round also starts the worker processes
    seconds = time_side_by_side({"n_jobs=1": search(1), "n_jobs=2": search(2)}, repeats=3)
    ratio = seconds["n_jobs=2"] / seconds["n_jobs=1"]
    print_table(("digits, 18 fits", "s"), [*seconds.items(), ("ratio", ratio)])
    save("bench_grid_search", seconds=seconds, ratio=ratio)


if __name__ == "__main__":
    main()
