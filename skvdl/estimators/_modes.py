"""Independence of the modes that a caller has switched torch to."""

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
    """

    @wraps(method)
    def in_plain_torch(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as modes:
            modes.enter_context(torch.inference_mode(False))
            for kind in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(kind):
                    modes.enter_context(torch.autocast(kind, enabled=False))
            return method(*args, **kwargs)

    return in_plain_torch
