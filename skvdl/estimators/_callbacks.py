"""Callbacks of scikit-learn, which has them since 1.9; before, all of this does nothing."""

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for the one of scikit-learn, without its `set_callbacks`."""


__all__ = ["CallbackSupportMixin", "FitCallbacks"]


class FitCallbacks:
    """Tell the callbacks of an estimator about a fit, whose tasks are its epochs.

    Parameters
    ----------
    estimator : estimator
        The estimator. It is changed, so that scikit-learn can clean up after `fit`.
    X : array-like
        Data of the fit, as given.
    y : array-like or None
        Targets, as given. Without any, callbacks are given the data, which are what the estimator
        learns to reconstruct.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self._of_fit = {"estimator": estimator, "X": X, "y": X if y is None else y}
        self._root: Any = None
        self._epoch: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._root = estimator._init_callback_context(max_subtasks=None)

    def begin(self, n_epochs: int) -> None:
        """Say that training begins, with so many epochs at most."""
        if self._root is not None:
            self._root.max_subtasks = self._left = n_epochs
            self._root.call_on_fit_task_begin(**self._of_fit)
            self._begin_epoch()

    def after_epoch(self, attributes: Callable[[], dict[str, Any]]) -> bool:
        """Say that an epoch has ended.

        Parameters
        ----------
        attributes : callable
            Returns the fitted attributes as if training ended here; called only if they are used.

        Returns
        -------
        bool
            Whether a callback wants training to stop.
        """
        if self._epoch is None:
            return False
        stop = self._epoch.call_on_fit_task_end(
            **self._of_fit, reconstruction_attributes=attributes
        )
        self._epoch = None
        if not stop:
            self._begin_epoch()
        return bool(stop)

    def end(self) -> None:
        """Say that the estimator is fitted."""
        if self._epoch is not None:
            # the estimator has stopped before this epoch
            self._epoch.call_on_fit_task_end(estimator=self._of_fit["estimator"])
        if self._root is not None:
            self._root.call_on_fit_task_end(**self._of_fit, reconstruction_attributes={})

    def _begin_epoch(self) -> None:
        if self._left:
            self._left -= 1
            self._epoch = self._root.subcontext(task_name="epoch")
            self._epoch.call_on_fit_task_begin(**self._of_fit)
