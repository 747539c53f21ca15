"""Small helpers that know about devices, random weights and spectra."""

import math

import torch
from torch import nn

__all__ = ["available_devices", "eigenvalue_bound", "resolve_device", "uniform_parameter"]


def available_devices():
    """Names of the devices that can compute here, best first."""
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def resolve_device(name, dtype):
    """Turn "auto" into a device that is there and knows the dtype, and refuse another."""
    present = available_devices()
    if dtype == torch.float64 and "mps" in present:
        if name == "mps":
            raise ValueError("device='mps' cannot compute in float64; pass float32 data.")
        present.remove("mps")
    if name == "auto":
        return torch.device(present[0])
    if name not in present:
        raise ValueError(
            f"device={name!r} is not available here; this machine has {', '.join(present)}. "
            "Use device='auto' to take the best one present."
        )
    return torch.device(name)


def uniform_parameter(*shape, fan_in, generator, dtype):
    """Return weights uniform in +-1/sqrt(fan_in), drawn from an explicit generator."""
    bound = 1.0 / math.sqrt(fan_in)
    weight = torch.empty(*shape, dtype=dtype, device=generator.device)
    return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))


def eigenvalue_bound(matrix, squarings=4):
    """Upper bound on the largest eigenvalue of a symmetric non-negative definite matrix.

    ``||M^p||_F^(1/p)`` lies between the largest eigenvalue and rank^(1/2p) times it: with
    p = 16, at most 16 % above it for rank 128 and usually within 1 %. A few small products, no
    host synchronisation, and never below, which an iterative eigenvalue estimate can be.
    """
    tiny = torch.finfo(matrix.dtype).tiny
    log_bound = torch.zeros_like(matrix[0, 0])
    power = 1.0
    for _ in range(squarings):
        norm = torch.linalg.matrix_norm(matrix).clamp_min(tiny)
        log_bound = log_bound + norm.log() / power
        matrix = matrix / norm
        matrix = matrix @ matrix
        power *= 2.0
    norm = torch.linalg.matrix_norm(matrix).clamp_min(tiny)
    return torch.exp(log_bound + norm.log() / power).clamp_min(tiny)
