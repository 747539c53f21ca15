import pytest
import torch
from _helpers import DEVICES

from skvdl.estimators._devices import available_devices, resolve_device


def test_the_cpu_is_always_there_and_comes_last():
    assert available_devices()[-1] == "cpu"
    assert len(set(available_devices())) == len(available_devices())


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_that_is_there_is_given(device):
    assert resolve_device(device, torch.float32) == torch.device(device)
    assert torch.zeros(2, device=resolve_device(device, torch.float32)).sum().item() == 0.0


def test_auto_is_the_best_device():
    assert resolve_device("auto", torch.float32) == torch.device(DEVICES[0])


def test_a_device_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"'abacus' is not available.*cpu.*device='auto'"):
        resolve_device("abacus", torch.float32)
