"""What keeps codes from collapsing: one small class for each way.

A decoder that grows lets the l1 norm of the codes shrink for nothing. Each guard says how it
enters inference (the weight `beta` of the hinge), the optimiser (`weight_decay`), and what is
done to the decoder after every step (`after_step`).
"""

import torch

__all__ = ["NoGuard", "UnitNorm", "VarianceHinge", "WeightDecay", "make_regularizer"]


class NoGuard:
    """Nothing: the ablation, under which codes do collapse.

    Attributes
    ----------
    beta : float
        Weight of the variance hinge in the energy of a full batch.
    weight_decay : float
        Weight decay of the decoder's matrices.

    Examples
    --------
    >>> from skvdl.regularizers import NoGuard
    >>> NoGuard().beta
    0.0
    """

    beta = 0.0
    weight_decay = 0.0

    def after_step(self, decoder):
        """Leave the decoder as the optimiser made it."""


class VarianceHinge(NoGuard):
    """Keep the standard deviation of every code component above a threshold.

    Parameters
    ----------
    beta : float, default=10.0
        Weight of the hinge.

    Examples
    --------
    >>> from skvdl.regularizers import VarianceHinge
    >>> VarianceHinge(3.0).beta
    3.0
    """

    def __init__(self, beta=10.0):
        self.beta = beta


class UnitNorm(NoGuard):
    """Hold the columns of every layer at unit norm.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.regularizers import UnitNorm
    >>> decoder = LinearDecoder(4, 9, generator=torch.Generator().manual_seed(0))
    >>> UnitNorm().after_step(decoder)
    >>> torch.allclose(decoder.weights[0].norm(dim=0), torch.ones(4))
    True
    """

    @torch.no_grad()
    def after_step(self, decoder):
        """Rescale the columns; one of zeros stays as it is."""
        for weight in decoder.weights:
            # on CPUs some ten times as fast as torch.linalg.vector_norm down the columns
            norm = weight.square().sum(dim=0).sqrt_()
            weight.div_(torch.where(norm > 0, norm, 1.0))


class WeightDecay(NoGuard):
    """Pull the decoder's matrices towards zero.

    Parameters
    ----------
    weight_decay : float, default=5e-4
        Strength, as in Adam's l2 penalty.

    Examples
    --------
    >>> from skvdl.regularizers import WeightDecay
    >>> WeightDecay(1e-3).weight_decay
    0.001
    """

    def __init__(self, weight_decay=5e-4):
        self.weight_decay = weight_decay


def make_regularizer(name, *, beta=10.0, weight_decay=5e-4):
    """Guard with a given name.

    Parameters
    ----------
    name : {"variance", "unit_norm", "weight_decay"} or None
        Which one.
    beta : float, default=10.0
        Weight of the hinge, for "variance".
    weight_decay : float, default=5e-4
        Strength of the decay, for "weight_decay".

    Returns
    -------
    NoGuard
        The guard, of the class that implements it.

    Examples
    --------
    >>> from skvdl.regularizers import make_regularizer
    >>> type(make_regularizer("unit_norm")).__name__
    'UnitNorm'
    """
    if name == "variance":
        return VarianceHinge(beta)
    if name == "unit_norm":
        return UnitNorm()
    if name == "weight_decay":
        return WeightDecay(weight_decay)
    return NoGuard()
