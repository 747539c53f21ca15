"""The processes that learn one model together, and what they tell each other."""

import os
import pickle
from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from typing import Any, Self, TypeVar

import torch

T = TypeVar("T")

# How long processes wait for each other, unless the caller has started the process group.
TIMEOUT = timedelta(minutes=10)


class OtherProcessError(RuntimeError):
    """Another process has failed, was killed, or did not answer in time."""


class Group:
    """The processes that learn one model together; this one alone, unless a subclass says more.

    Attributes
    ----------
    rank : int
        Number of this process.
    size : int
        Number of processes.
    """

    rank = 0
    size = 1

    def sum(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        """Add up each of several tensors over all processes, in a single message."""
        return tensors

    def exchange(self, value: T) -> list[T]:
        """Return what each process has given, by rank."""
        return [value]

    def close(self) -> None:
        """End the connection, so that others notice at once if this process has failed."""

    def any(self, value: bool) -> bool:
        """Whether it is true in any process."""
        return any(self.exchange(value))


ALONE = Group()


class Processes(Group):
    """Processes that `torch.distributed` connects.

    Every process makes the same calls in the same order, and gets the same bits back.

    Parameters
    ----------
    connection : torch.distributed.ProcessGroup or one of its backends
        What connects them.
    device : torch.device, optional
        Where messages have to be, if it is not where the tensors are.

    Attributes
    ----------
    n_messages, n_bytes : int
        Number of sums so far, and bytes of the tensors that were added up.
    """

    def __init__(self, connection: Any, device: torch.device | None = None) -> None:
        self.rank = connection.rank()
        self.size = connection.size()
        self.n_messages = self.n_bytes = 0
        self._connection = connection
        self._device = device

    @classmethod
    def join(cls) -> Self:
        """Join the processes that torchrun has started, or whose group was initialised before."""
        dist: Any = torch.distributed
        if not dist.is_available():
            raise RuntimeError("This build of torch has no torch.distributed.")
        if not dist.is_initialized():
            if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
                raise RuntimeError(
                    "distributed=True needs several processes: start the script with torchrun, or "
                    "call torch.distributed.init_process_group first."
                )
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
            dist.init_process_group(timeout=TIMEOUT)
        only_cuda = dist.get_backend() == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if only_cuda else None
        return cls(dist.group.WORLD, device)

    @classmethod
    def meet(cls, host: str, port: int, rank: int, size: int, timeout: timedelta = TIMEOUT) -> Self:
        """Connect processes that only know where the first of them is.

        Nothing global is set up: the connection ends when the group is no longer used.
        """
        dist: Any = torch.distributed
        store = dist.TCPStore(host, port, size, rank == 0, timeout)
        return cls(dist.ProcessGroupGloo(store, rank, size, timeout))

    def sum(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        """Add up each of several tensors over all processes, in a single message."""
        dtype = reduce(torch.promote_types, (t.dtype for t in tensors))
        message = torch.cat([t.reshape(-1).to(dtype) for t in tensors])
        total = self._all_reduce(message).to(message.device)
        parts = total.split([t.numel() for t in tensors])
        return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]

    def exchange(self, value: T) -> list[T]:
        """Return what each process has given, by rank; anything that can be pickled."""
        data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        lengths = torch.zeros(self.size, dtype=torch.int64, device="cpu")
        lengths[self.rank] = len(data)
        (lengths,) = self.sum(lengths)
        # every process fills its own place among zeros
        parts = [torch.zeros(n, dtype=torch.uint8, device="cpu") for n in lengths.tolist()]
        parts[self.rank] = data
        return [pickle.loads(part.numpy().tobytes()) for part in self.sum(*parts)]

    def close(self) -> None:
        """End the connection, so that others notice at once if this process has failed."""
        del self._connection

    def _all_reduce(self, message: torch.Tensor) -> torch.Tensor:
        if self._device is not None:
            message = message.to(self._device)
        self.n_messages += 1
        self.n_bytes += message.numel() * message.itemsize
        try:
            self._connection.allreduce([message]).wait()
        except RuntimeError as error:
            raise OtherProcessError(
                f"Process {self.rank} of {self.size} has lost the others: one of them has failed, "
                "was killed, or did not answer in time. A fit with a checkpoint goes on from its "
                f"last state when it is started again. torch says: {error}"
            ) from error
        return message
