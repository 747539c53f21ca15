"""Independence of the modes that a caller has switched torch to, and errors that users know."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def plain_torch(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method compute as usual inside of `torch.inference_mode` and `torch.autocast`.

    Nothing can be learnt in inference mode, and autocast would change the precision of the data.
    Where torch has no memory left, the method raises a `MemoryError`.
    """

    @wraps(method)
    def in_plain_torch(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as modes:
            modes.enter_context(torch.inference_mode(False))
            for kind in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(kind):
                    modes.enter_context(torch.autocast(kind, enabled=False))
            try:
                return method(*args, **kwargs)
            except RuntimeError as error:
                if not _is_lack_of_memory(error):
                    raise
                raise MemoryError(
                    "There is not enough memory. Use fewer components (n_components), smaller "
                    f"batches (batch_size) or fewer rows at once. torch says: {error}"
                ) from error

    return in_plain_torch


def _is_lack_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not allocate; on a CPU only the text says so."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(
        text in str(error) for text in ("can't allocate memory", "not enough memory")
    )
