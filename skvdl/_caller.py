"""Where the code of the user is, for warnings."""

import sys

__all__ = ["caller_level"]


def caller_level() -> int:
    """Return the stack level of the user's code, for a warning by the calling function."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    # scikit-learn wraps transform, and calls it in pipelines and searches
    return module.partition(".")[0] in ("skvdl", "sklearn")
