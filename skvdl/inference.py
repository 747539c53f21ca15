"""FISTA: from data and a decoder to sparse codes. Knows nothing of training or scikit-learn."""

import warnings

import torch

from ._faces import finer_dtype, lasso_on_faces
from ._loops import (
    FistaResult,
    certified_fista,
    certified_iteration,
    coupled_fista,
    guarded_fista,
    plain_iteration,
    textbook_fista,
)
from ._objective import Objective
from .data_terms import FactoredTerm, make_data_term, network_curvature

__all__ = ["FistaResult", "duality_gap", "fista"]


class _Compiled:
    """A function compiled at its first call, or as it is where that fails."""

    def __init__(self, function):
        self.plain = function
        self.function = None

    def __call__(self, *args):
        if self.function is None:
            self.function = torch.compile(self.plain, dynamic=False)
            try:
                return self.function(*args)
            except Exception as error:
                warnings.warn(f"torch.compile failed, going on without: {error}", stacklevel=2)
                self.function = self.plain
        return self.function(*args)


_compiled_iteration = _Compiled(certified_iteration)


def _linear_fista(objective, Z, tol, max_iter, compile):
    """Solve for a linear decoder, in the loop that suits it."""
    if not objective.coupled:
        return certified_fista(objective, Z, tol, max_iter)
    if compile:
        found = certified_fista(objective, Z, tol, max_iter, iterate=_compiled_iteration)
    elif Z.device.type == "cpu":
        # one decision for all rows, and reading it costs nothing here
        found = coupled_fista(objective, Z, tol, max_iter, restart=True)
    else:
        found = certified_fista(objective, Z, tol, max_iter)
    if found.energy.sum() > objective.value_and_grad(Z)[0]:
        # the hinge is not convex and voids the certificate of momentum, not of plain steps
        return certified_fista(objective, Z, tol, max_iter, iterate=plain_iteration)
    return found


def fista(
    Y,
    decoder,
    *,
    lam,
    beta=0.0,
    gamma=0.0,
    variance_threshold=0.5,
    target=None,
    init=None,
    positive=True,
    step_size="auto",
    max_iter=200,
    tol=1e-3,
    gap_tol=None,
    expected_iter=50,
    curvature=None,
    compile=False,
):
    """Minimise the energy over the codes of one batch.

    Unless the step is given it comes from the curvature, a row loses its momentum where that might
    raise its energy, and the energy never rises; with the hinge, which is not convex, it never
    ends above where it started. For a linear decoder the bound on the curvature holds;
    for a network it is an estimate, and the step is halved where it proves too long. With a
    number as step this is FISTA as published.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    decoder : MLPDecoder
        Decoder, linear or with hidden layers.
    lam : float
        Weight of the l1 norm.
    beta : float, default=0.0
        Weight of the variance hinge. It couples the rows; without it each is solved, and
        stops, by itself.
    gamma : float, default=0.0
        Weight of the distance to `target`.
    variance_threshold : float, default=0.5
        Standard deviation the hinge asks of every component.
    target : torch.Tensor of shape (n, l), optional
        What codes should stay close to, 0 when not given.
    init : torch.Tensor of shape (n, l), optional
        Where to start, 0 when not given.
    positive : bool, default=True
        Whether codes are non-negative.
    step_size : float, "auto" or "adaptive", default="auto"
        Step of the gradient. "adaptive" is for networks, elsewhere it is the same as "auto": the
        step of each row may also grow. Where the estimate of the curvature is much too high, as
        with many hidden units that are off, rows else seem converged because their steps are
        short; where it is not, they take some more iterations to no avail.
    max_iter : int, default=200
        Iterations at most.
    tol : float, default=1e-3
        A row is done when one step moves it by no more than this share of its norm; the batch
        as a whole where the hinge couples it.
    gap_tol : float, optional
        Stop by relative duality gap instead: a row is done when its energy provably exceeds the
        minimum by no more than this share. For a linear decoder, ``lam > 0``, ``beta = 0``,
        ``gamma = 0`` and an automatic step; elsewhere there is no gap, and `tol` counts. Codes
        in single precision are refined in double, where the device can.
    expected_iter : int, default=50
        How many iterations are likely: a Gram matrix is prepared if that pays.
    curvature : torch.Tensor of shape (), optional
        :func:`~skvdl.data_terms.network_curvature` of the decoder, if roughly known; not used
        for a linear one.
    compile : bool, default=False
        Whether to fuse an iteration with ``torch.compile``, for a linear decoder with hinge and
        an automatic step. The first call then takes about a minute.

    Returns
    -------
    FistaResult
        Codes, iterations, energy, and whether each row converged.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.inference import fista
    >>> generator = torch.Generator().manual_seed(0)
    >>> decoder = LinearDecoder(12, 8, generator=generator)
    >>> result = fista(torch.randn(5, 8, generator=generator), decoder, lam=0.05)
    >>> result.codes.shape, bool((result.codes >= 0).all()), bool(result.converged.all())
    (torch.Size([5, 12]), True, True)
    """
    if isinstance(step_size, str) and step_size not in ("auto", "adaptive"):
        raise ValueError(f"step_size={step_size!r} must be a number, 'auto' or 'adaptive'.")
    n_components = decoder.weights[0].shape[1]
    if beta or gamma or not lam or decoder.hidden or not isinstance(step_size, str):
        gap_tol = None  # there is one for the plain lasso only
    with torch.inference_mode():
        if init is None:
            init = torch.zeros_like(Y[:, :1]).expand(-1, n_components)
        Z = init.relu() if positive else init.clone()
        if gap_tol is not None:
            found = lasso_on_faces(Y, decoder, Z, lam, positive, gap_tol, max_iter, expected_iter)
            return FistaResult(*(part.clone() for part in found[:4]))
        term = make_data_term(
            Y,
            decoder,
            n_evaluations=expected_iter,
            ridge=2.0 * gamma / n_components,
            centre=target,
            tilt=lam if positive else 0.0,
        )
        objective = Objective(term, lam, beta, variance_threshold, positive, Y.shape[0])
        if not isinstance(step_size, str):
            objective.set_step(torch.full_like(Y[0, 0], step_size))
            loop = coupled_fista if objective.coupled else textbook_fista
            found = loop(objective, Z, tol, max_iter)
        elif decoder.hidden:
            curvature = network_curvature(decoder) if curvature is None else curvature
            step = 1.0 / objective.curvature(curvature + term.ridge)
            adapt = step_size == "adaptive"
            found = guarded_fista(objective, Z, step, tol, max_iter, adapt=adapt)
        else:
            objective.set_step(1.0 / objective.curvature(term.curvature()))
            found = _linear_fista(objective, Z, tol, max_iter, compile)
    # copies made out here can take part in gradients again
    return FistaResult(*(part.clone() for part in found[:4]), getattr(term, "trace", None))


@torch.no_grad()
def duality_gap(Y, decoder, codes, *, lam, positive=True):
    """Relative duality gap of codes of a linear decoder.

    Parameters
    ----------
    Y : torch.Tensor of shape (n, d)
        Data.
    decoder : LinearDecoder
        Dictionary.
    codes : torch.Tensor of shape (n, l)
        Any codes of the data, non-negative if `positive`.
    lam : float
        Weight of the l1 norm.
    positive : bool, default=True
        Whether only non-negative codes compete.

    Returns
    -------
    torch.Tensor of shape (n,)
        By what share of itself the energy of each row can exceed the minimum at most.

    Examples
    --------
    >>> import torch
    >>> from skvdl.decoders import LinearDecoder
    >>> from skvdl.inference import duality_gap, fista
    >>> generator = torch.Generator().manual_seed(0)
    >>> decoder = LinearDecoder(12, 8, generator=generator)
    >>> Y = torch.randn(5, 8, generator=generator)
    >>> codes = fista(Y, decoder, lam=0.05, gap_tol=1e-4).codes
    >>> bool((duality_gap(Y, decoder, codes, lam=0.05) <= 1.01e-4).all())
    True
    """
    (weight,) = decoder.weights
    dtype = finer_dtype(Y)
    term = FactoredTerm(Y.to(dtype), weight.detach().to(dtype), tilt=lam if positive else 0.0)
    objective = Objective(term, lam, 0.0, 0.0, positive, len(Y))
    return objective.relative_gap(codes.to(dtype))[0][:, 0].to(Y.dtype)
