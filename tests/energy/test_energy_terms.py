import numpy as np
import pytest
import torch
from _helpers import DEVICES, autograd, central_differences, device_dtype, randn

from skvdl.energy import l1, mean_squared_error, variance_hinge
from skvdl.energy._terms import variance_hinge_force


def plain_hinge(Z, threshold):
    return torch.relu(threshold - Z.std(dim=0)).square()


def hinge_grad(Z, threshold):
    """Gradient of the summed hinge, put together from its factors."""
    deviation, pull = variance_hinge_force(Z, threshold)
    return deviation * (pull * (-2.0 / (len(Z) - 1)))


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_hinge_and_its_gradient_against_autograd_and_differences(seed, scale):
    Z = randn(5, 4, seed=seed) * scale
    torch.testing.assert_close(variance_hinge(Z, 0.8), plain_hinge(Z, 0.8), rtol=1e-12, atol=1e-12)
    grad = hinge_grad(Z, 0.8)
    expected = autograd(lambda Z: plain_hinge(Z, 0.8), Z)
    torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-10)
    differences = central_differences(lambda Z: variance_hinge(Z, 0.8), Z)
    torch.testing.assert_close(grad, differences, rtol=1e-6, atol=1e-6)


def test_terms_of_rows_against_loops():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    squares = [sum((A[i, j] - B[i, j]) ** 2 for j in range(4)) / 4 for i in range(3)]
    sums = [sum(abs(a) for a in row) for row in A]
    A, B = torch.from_numpy(A), torch.from_numpy(B)
    np.testing.assert_allclose(mean_squared_error(A, B), squares, rtol=1e-12)
    np.testing.assert_allclose(l1(A), sums, rtol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [2, 3, 50])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 2.0])
def test_hinge_against_loop(n, threshold, device):
    Z = randn(n, 6, seed=n, dtype=device_dtype(device))
    expected = [max(threshold - np.std(column, ddof=1), 0.0) ** 2 for column in Z.numpy().T]
    found = variance_hinge(Z.to(device), threshold).cpu()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 40])
def test_hinge_gradient_in_batches_of_any_size(n):
    Z = randn(n, 5, seed=n) * 0.2 + 1.0
    grad = hinge_grad(Z, 3.0)
    expected = autograd(lambda Z: plain_hinge(Z, 3.0), Z)
    assert expected.abs().min() > 0
    torch.testing.assert_close(grad, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constant", [0.0, 0.1, -0.3, 1e-20, 1e6])
@pytest.mark.parametrize("n", [2, 3, 7, 250, 1001])
def test_component_that_does_not_vary_has_no_gradient(n, constant, dtype):
    Z = randn(n, 3, seed=n, dtype=dtype) * 0.1
    Z[:, 1] = constant
    grad = hinge_grad(Z, 0.5)
    assert grad[:, 1].abs().max() == 0.0
    assert variance_hinge(Z, 0.5)[1].item() == pytest.approx(0.25, abs=1e-6 + 1e-7 * abs(constant))
    others = autograd(lambda Z: plain_hinge(Z, 0.5), Z[:, ::2].double())
    torch.testing.assert_close(grad[:, ::2].double(), others, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9])
def test_component_that_hardly_varies_still_has_its_gradient(spread):
    Z = 0.1 + spread * randn(6, 2, seed=0)
    expected = autograd(lambda Z: plain_hinge(Z, 0.5), Z)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(hinge_grad(Z, 0.5), expected, rtol=1e-4, atol=1e-6)


def test_component_above_the_threshold_is_left_alone():
    Z = randn(8, 3, seed=0) * torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    std = Z.std(dim=0)
    threshold = (std[0] + std[1]).item() / 2
    value, grad = variance_hinge(Z, threshold), hinge_grad(Z, threshold)
    assert value[0] > 0
    assert value[1:].tolist() == [0.0, 0.0]
    assert grad[:, 0].abs().max() > 0
    assert grad[:, 1:].abs().max() == 0.0


def test_component_at_the_threshold_has_neither_value_nor_gradient():
    Z = torch.tensor([[-1.0], [1.0], [-1.0], [1.0], [0.0]], dtype=torch.float64)
    assert Z.std().item() == 1.0
    assert variance_hinge(Z, 1.0).item() == 0.0
    assert hinge_grad(Z, 1.0).abs().max() == 0.0


def test_single_row_has_no_hinge():
    Z = torch.tensor([[0.0, 0.3, -2.0]])
    assert variance_hinge(Z, 0.5).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("n", [2, 9])
def test_force_is_what_the_docstring_says(n):
    Z = randn(n, 4, seed=n)
    Z[:, 0] = 0.0
    deviation, pull = variance_hinge_force(Z, 0.9)
    std = Z.numpy().std(axis=0, ddof=1)
    np.testing.assert_allclose(deviation.numpy(), Z.numpy() - Z.numpy().mean(axis=0), atol=1e-12)
    assert pull[0] == 0
    np.testing.assert_allclose(
        pull[1:].numpy(), np.maximum(0.9 - std[1:], 0) / std[1:], rtol=1e-9, atol=1e-12
    )


def test_inputs_are_not_written_to():
    Z = randn(4, 3, seed=0)
    copy = Z.clone()
    variance_hinge(Z, 0.9), variance_hinge_force(Z, 0.9), l1(Z), mean_squared_error(Z, Z * 2)
    assert torch.equal(Z, copy)
