"""Random weights and bounds on spectra."""

import math

import torch
from torch import nn


def uniform_parameter(
    *shape: int, fan_in: int, generator: torch.Generator, dtype: torch.dtype
) -> nn.Parameter:
    """Return weights uniform in +-1/sqrt(fan_in), drawn from an explicit generator."""
    bound = 1.0 / math.sqrt(fan_in)
    weight = torch.empty(*shape, dtype=dtype, device=generator.device)
    return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))


def eigenvalue_bound(matrix: torch.Tensor, squarings: int = 4) -> torch.Tensor:
    """Bound the largest eigenvalue of a symmetric non-negative definite matrix from above.

    ``||M^p||_F^(1/p)`` lies between the largest eigenvalue and rank^(1/2p) times it: with p = 16,
    at most 16 % above it for rank 128 and usually within 1 %. This takes a few small products and
    no host synchronisation, and is never below, which an iterative estimate can be.
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


def gram_bound(matrix: torch.Tensor) -> torch.Tensor:
    """Bound the squared spectral norm of a matrix from above, through its smaller Gram matrix."""
    matrix = matrix if matrix.shape[0] < matrix.shape[1] else matrix.T
    return eigenvalue_bound(matrix @ matrix.T)
