import pytest
import torch
from _helpers import DEVICES, LINEAR_AND_MLP, device_dtype, make_decoder


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("hidden", LINEAR_AND_MLP)
def test_unit_norm_of_every_column_of_every_layer(hidden, scale, device):
    dtype = device_dtype(device)
    decoder = make_decoder(hidden, 5, 6, seed=0, scale=scale, dtype=dtype)
    before = [weight.detach().clone() for weight in decoder.matrices]
    biases = [bias.detach().clone() for bias in decoder.biases]
    decoder.to(device)
    decoder.normalise()
    for weight, old in zip(decoder.matrices, before, strict=True):
        for column, old_column in zip(weight.detach().cpu().T, old.T, strict=True):
            expected = old_column / sum(x * x for x in old_column.tolist()) ** 0.5
            torch.testing.assert_close(column, expected, rtol=1e-5, atol=1e-6)
    assert all(map(torch.equal, [b.detach().cpu() for b in decoder.biases], biases))
    assert all(weight.requires_grad for weight in decoder.matrices)


@pytest.mark.parametrize("hidden", LINEAR_AND_MLP)
def test_column_of_zeros_stays(hidden):
    decoder = make_decoder(hidden, 5, 6, seed=0)
    with torch.no_grad():
        for weight in decoder.matrices:
            weight[:, 2] = 0.0
    decoder.normalise()
    for weight in decoder.matrices:
        norms = weight.detach().square().sum(dim=0).sqrt()
        assert norms[2] == 0.0
        others = norms[torch.arange(len(norms)) != 2]
        torch.testing.assert_close(others, torch.ones_like(others))
