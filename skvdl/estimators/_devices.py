"""Which device computes."""

import torch


def available_devices() -> list[str]:
    """Names of the devices that can compute here, best first."""
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def resolve_device(name: str, dtype: torch.dtype) -> torch.device:
    """Return the device of this name, or the best one that supports the dtype for "auto"."""
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
