"""Encoder and decoder as ONNX graphs, for programs that have neither Python nor PyTorch."""

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import nn

from ..models import LISTA, Decoder, Units

# Says once per export which operators of other packages are not there.
_NOISY = "torch.onnx._internal.exporter._registration"


class _Graph(nn.Module):
    """Part of a model with the units of the data, as tensors: a graph rounds plain numbers."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, part: LISTA | Decoder, units: Units, dtype: torch.dtype) -> None:
        super().__init__()
        self.part = part
        mean = torch.zeros(1, device="cpu") if units.mean is None else units.mean
        self.register_buffer("mean", mean.to("cpu", dtype))
        self.register_buffer("scale", torch.tensor(units.scale, dtype=dtype, device="cpu"))


class EncoderGraph(_Graph):
    """From data to the encoder's codes."""

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Compute codes."""
        return self.part((X - self.mean) / self.scale)


class DecoderGraph(_Graph):
    """From codes to reconstructions, in the units of the data."""

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Compute reconstructions."""
        return self.part(codes) * self.scale + self.mean


def export(
    graph: EncoderGraph | DecoderGraph,
    path: str | os.PathLike[str],
    *,
    width: int,
    names: tuple[str, str],
) -> None:
    """Write a graph to a file.

    Parameters
    ----------
    graph : EncoderGraph or DecoderGraph
        The graph.
    path : str or path
        Where to write.
    width : int
        Columns of its input; it may have any number of rows.
    names : (str, str)
        Names of its input and output.
    """
    if find_spec("onnxscript") is None or find_spec("onnx") is None:
        raise ImportError(
            "export_onnx needs onnx and onnxscript, which pip install 'skvdl[onnx]' installs."
        )
    graph = copy.deepcopy(graph).to("cpu").eval()
    with _quiet(), torch.no_grad():
        # two rows, because one would be taken for a constant
        program = torch.onnx.export(
            graph,
            (graph.scale.new_zeros(2, width),),
            input_names=names[:1],
            output_names=names[1:],
            dynamic_shapes=({0: torch.export.Dim("n_samples")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(os.fspath(path))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what PyTorch's exporter says about its own internals."""
    logger = logging.getLogger(_NOISY)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
