import pytest
import torch
from _helpers import DEVICES, device_dtype, randn, seeded

from skvdl.models._weights import eigenvalue_bound, uniform_parameter


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_parameter_fills_its_range(dtype):
    weight = uniform_parameter(60, 50, fan_in=25, generator=seeded(0), dtype=dtype)
    assert weight.dtype == dtype
    assert weight.shape == (60, 50)
    assert weight.requires_grad
    assert weight.abs().max() <= 0.2
    assert weight.min() < -0.19
    assert weight.max() > 0.19
    assert abs(weight.mean().item()) < 0.01


def test_uniform_parameter_depends_on_its_generator_alone():
    def draw(seed):
        return uniform_parameter(4, 3, fan_in=3, generator=seeded(seed), dtype=torch.float64)

    before = torch.get_rng_state()
    first, again, other = draw(0), draw(0), draw(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(("size", "rank"), [(1, 1), (6, 1), (6, 3), (6, 6), (40, 40), (40, 7)])
def test_eigenvalue_bound_is_above_and_close(size, rank, scale, device):
    dtype = device_dtype(device)
    factor = randn(size, rank, seed=size + rank, dtype=dtype)
    matrix = factor @ factor.T * scale
    largest = torch.linalg.eigvalsh(matrix)[-1].item()
    bound = eigenvalue_bound(matrix.to(device)).item()
    rounding = 1e3 * torch.finfo(dtype).eps
    assert largest * (1 - rounding) <= bound <= largest * rank ** (1 / 32) * (1 + rounding)


@pytest.mark.parametrize("size", [2, 30])
def test_eigenvalue_bound_is_reached_where_all_eigenvalues_are_equal(size):
    matrix = 3.0 * torch.eye(size, dtype=torch.float64)
    assert eigenvalue_bound(matrix).item() == pytest.approx(3.0 * size ** (1 / 32), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 5])
def test_eigenvalue_bound_of_nothing_is_nothing(size, dtype):
    bound = eigenvalue_bound(torch.zeros(size, size, dtype=dtype)).item()
    assert 0.0 <= bound <= torch.finfo(dtype).tiny


def test_eigenvalue_bound_leaves_its_argument_alone():
    matrix = torch.eye(3, dtype=torch.float64) * 2
    eigenvalue_bound(matrix)
    assert torch.equal(matrix, torch.eye(3, dtype=torch.float64) * 2)
