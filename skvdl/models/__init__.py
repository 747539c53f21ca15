"""What is learnt: decoders from codes to data, the encoder from data to codes, the units of data.

A decoder defines its forward pass, its data term for a batch, its curvature, and how gradients come
back to its weights. A new decoder is one subclass of `Decoder`.
"""

from ._data_terms import DataTerm, QuadraticTerm
from ._decoder import Decoder
from ._linear import LinearDecoder, linear_term
from ._lista import LISTA
from ._network import NetworkDecoder
from ._units import Units

__all__ = [
    "LISTA",
    "DataTerm",
    "Decoder",
    "LinearDecoder",
    "NetworkDecoder",
    "QuadraticTerm",
    "Units",
    "linear_term",
]
