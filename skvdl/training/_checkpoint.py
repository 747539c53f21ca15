"""The file in which a fit keeps its state, so that it can go on after a crash."""

import contextlib
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._store import read_tree, write_tree

# Seconds after which the state is written within an epoch too.
_SECONDS = 60.0
# Share of the time that writing may take; after an epoch of milliseconds nothing is written.
_SHARE = 0.05
_KIND = "checkpoint"
# Files of other fits that were mentioned. Python shows a warning once per line of code, but not
# in a search, which forgets what was shown whenever it starts a fit.
_mentioned: set[Path] = set()


class Checkpoint:
    """Where and when a fit writes its state; a context, which fits in progress do not share.

    Equal fits that run at the same time, of a search for example, have files of their own. A file
    whose fit was killed belongs to the next equal one.

    Parameters
    ----------
    folder : str or path or None
        Where the file is. With None there is none, and every method does nothing.

    Attributes
    ----------
    path : Path or None
        The file.
    saved : dict or None
        What it contained when the fit began.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.path: Path | None = None
        self.saved: dict[str, Any] | None = None
        self._lock: _Lock | None = None
        self._identity: dict[str, Any] = {}
        self._written = time.monotonic()
        self._cost = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def find(
        self,
        name: str,
        identity: Mapping[str, Any],
        stacklevel: int,
        similar: Mapping[str, str] | None = None,
    ) -> None:
        """Look for the state of a fit that was killed.

        If there is none, a warning mentions the first file of a similar fit, once per process.

        Parameters
        ----------
        name : str
            Name of the file, without its ending, which no other fit has.
        identity : dict
            What the state depends on. A file that says something else is not used.
        stacklevel : int
            Level of the user's code, for a warning that a file cannot be used.
        similar : dict, default=None
            Patterns of names of files that could be taken for that of this fit, and what they are
            of.
        """
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._identity = dict(identity)
        # one fit at a time, because to look at a file is to lock it for a moment
        with _whole(self.folder):
            for path in self._candidates(name):
                self._lock = _Lock.take(path.with_suffix(".lock"))
                if self._lock is not None:
                    break
            self.path = path
            other = None if path.exists() else self._other(similar or {})
        for draft in self.folder.glob(f"{path.name}.*.tmp"):
            # of a fit that was killed while it wrote
            draft.unlink(missing_ok=True)
        if path.exists():
            self._read(stacklevel + 1)
        elif other is not None:
            warnings.warn(
                f"Training starts from the beginning: {os.fspath(other[0])!r} is the checkpoint of "
                f"an unfinished fit with {other[1]}. Only an equal fit goes on from it; remove it "
                "if there will be none.",
                UserWarning,
                stacklevel=stacklevel + 1,
            )

    def _other(self, similar: Mapping[str, str]) -> tuple[Path, str] | None:
        """Look for a file of a similar fit that is not in progress and was not mentioned yet."""
        assert self.folder is not None
        for pattern, what in similar.items():
            for path in sorted(self.folder.glob(f"{pattern}.safetensors")):
                if path in _mentioned:
                    continue
                lock = _Lock.take(path.with_suffix(".lock"))
                if lock is None:
                    continue
                lock.release()
                # the fit may have ended just now
                if path.exists():
                    _mentioned.add(path)
                    return path, what
        return None

    def _candidates(self, name: str) -> Iterator[Path]:
        """Files that this fit can use if no other does: first those of fits that were killed."""
        assert self.folder is not None
        known = sorted(self.folder.glob(f"{name}*.safetensors"), key=lambda path: path.stem)
        new = (f"{name}{f'-{number}' if number else ''}.safetensors" for number in count())
        return chain(known, map(self.folder.joinpath, new))

    def _read(self, stacklevel: int) -> None:
        assert self.path is not None
        try:
            tree = read_tree(self.path, kind=_KIND)
            found = tree["identity"]
        except (ValueError, TypeError, KeyError) as error:
            problem = str(error)
        else:
            if found == self._identity:
                self.saved = tree["state"]
                return
            other = [key for key in self._identity if self._identity[key] != found.get(key)]
            problem = f"{os.fspath(self.path)!r} is of another {' and '.join(other)}."
        warnings.warn(
            f"The checkpoint cannot be used, and training starts again: {problem}",
            UserWarning,
            stacklevel=stacklevel + 1,
        )

    def is_due(self, *, within_epoch: bool) -> bool:
        """Whether it is time to write."""
        if self.path is None:
            return False
        wait = max(self._cost / _SHARE, _SECONDS if within_epoch else 0.0)
        return time.monotonic() - self._written >= wait

    def write(self, state: Mapping[str, Any]) -> None:
        """Write the state. If that fails, the last one stays and training goes on."""
        if self.path is None:
            return
        start = time.monotonic()
        try:
            write_tree(self.path, {"identity": self._identity, "state": state}, kind=_KIND)
        except OSError as error:
            warnings.warn(
                f"The checkpoint {os.fspath(self.path)!r} could not be written, and training goes "
                f"on without: {error}",
                UserWarning,
                stacklevel=2,
            )
        self._written = time.monotonic()
        self._cost = self._written - start

    def remove(self) -> None:
        """Remove the file of a fit that is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.remove()


class _Lock:
    """A lock on a file, which the system releases when the process ends in whatever way."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Return the lock, or None if another fit has it."""
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not _lock(descriptor):
                    os.close(descriptor)
                    return None
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return cls(path, descriptor)
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            # its last owner has removed it in the meantime
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the file. Where an open file cannot be removed, it stays and does no harm."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self.descriptor)


@contextlib.contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """Lock a folder, where the system can, and wait for others that have done so."""
    if os.name != "posix":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file; True also where the system cannot lock files."""
    try:
        fcntl = import_module("fcntl")
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
