"""FISTA: from data and a decoder to sparse codes. Knows nothing of training or scikit-learn."""

import copy
import warnings
from typing import NamedTuple

import torch

from ._objective import Objective
from .data_terms import FactoredTerm, make_data_term, network_curvature

__all__ = ["FistaResult", "duality_gap", "fista"]


class FistaResult(NamedTuple):
    """What :func:`fista` found.

    Attributes
    ----------
    codes : torch.Tensor of shape (n, l)
        The codes.
    n_iter : torch.Tensor of shape (n,)
        Iterations each row took.
    energy : torch.Tensor of shape (n,)
        Energy of each row at its codes; the variance hinge, which belongs to the batch, is
        shared out equally, so that the sum is the energy of the batch.
    converged : torch.Tensor of shape (n,)
        Whether the row met the tolerance.

    Examples
    --------
    >>> from skvdl.inference import FistaResult
    >>> FistaResult._fields
    ('codes', 'n_iter', 'energy', 'converged')
    """

    codes: torch.Tensor
    n_iter: torch.Tensor
    energy: torch.Tensor
    converged: torch.Tensor


_ALL = slice(None)


class _Rows:
    """Which rows are still being worked on, and what has become of the others."""

    def __init__(self, codes):
        self.active = torch.arange(codes.shape[0], device=codes.device)
        self.table = FistaResult(
            codes=torch.empty_like(codes),
            n_iter=torch.zeros_like(self.active),
            energy=torch.empty_like(codes[:, 0]),
            converged=torch.zeros_like(self.active, dtype=torch.bool),
        )

    def _store(self, which, codes, energy, n_iter, converged):
        rows = self.active[which]
        if energy.shape[0] == 1:
            energy = energy.expand(codes.shape[0], 1) / codes.shape[0]
        self.table.codes[rows] = codes[which]
        self.table.energy[rows] = energy[which, 0]
        self.table.n_iter[rows] = n_iter
        self.table.converged[rows] = converged

    def retire(self, done, codes, energy, n_iter):
        """Write down the rows that are done; indices of those that are not, None if all are."""
        if not done.any():
            return _ALL
        done = done[:, 0].expand(codes.shape[0])
        finished = done.nonzero()[:, 0]
        self._store(finished, codes, energy(codes), n_iter, converged=True)
        left = done.logical_not().nonzero()[:, 0]
        self.active = self.active[left]
        return left if len(left) else None

    def give_up(self, codes, energy, n_iter):
        """Write down the rows that are left, not converged."""
        every = torch.arange(codes.shape[0], device=codes.device)
        self._store(every, codes, energy(codes), n_iter, converged=False)
        return self.table


def _norm(V, coupled):
    """Norm of each row as a column, or of the whole batch where its rows are coupled."""
    return torch.linalg.vector_norm(V, dim=(0, 1) if coupled else 1, keepdim=True)


def _next_check(k):
    """Iteration after `k` at which to look for converged rows.

    Looking costs a host synchronisation, so the gaps widen. They must not depend on the data:
    a row would then stop at another iteration in other company.
    """
    return max(k + 1, k + k // 6)


def _textbook_fista(objective, Z, tol, max_iter, restart=False):
    """FISTA with a constant step and plain momentum, as published.

    With `restart`, for a batch whose rows are coupled: a step that ends closer to the last
    iterate than it started is dropped, and the momentum with it, as in `_certified_fista`.
    """
    rows = _Rows(Z)
    coupled = objective.coupled

    X, C = Z.clone(), Z.clone()
    C_new, move = torch.empty_like(Z), torch.empty_like(Z)
    t, momentum, last = 1.0, 0.0, 0.0
    for k in range(1, max_iter + 1):
        objective.descend(X, C_new, move)
        torch.sub(C_new, C, out=move)
        length = _norm(move, coupled)
        if restart:
            if length.item() < momentum * last:
                X.copy_(C)
                t, momentum = 1.0, 0.0
                continue
            last = length.item()
        done = length <= tol * _norm(C, coupled)
        t, momentum = (1 + (1 + 4 * t * t) ** 0.5) / 2, t - 1
        momentum /= t
        torch.add(C_new, move, alpha=momentum, out=X)
        C, C_new = C_new, C
        if not done.any():
            continue
        left = rows.retire(done.logical_and_(length.isfinite()), C, objective.energy, k)
        if left is None:
            return rows.table
        if left is not _ALL:
            objective.term.take(left)
            X, C, C_new, move = (v[left] for v in (X, C, C_new, move))
    return rows.give_up(C, objective.energy, max_iter)


def _certified_iteration(objective, X, C, C_new, move, age, momentum, last):
    """One step from the extrapolated point `X`, kept only if it is certified; in place."""
    objective.descend(X, C_new, move)
    torch.sub(C_new, C, out=move)
    length = _norm(move, objective.coupled)
    certified = (length >= momentum * last).to(length.dtype)
    age = (age + 1) * certified
    momentum = age / (age + 3)
    C.lerp_(C_new, certified)
    torch.addcmul(C, move, momentum, out=X)
    return age, momentum, length, certified


def _certified_fista(objective, Z, tol, max_iter, *, gap_tol=None, iterate=_certified_iteration):
    """FISTA with restarts, for a linear decoder and a step of at most 1 / curvature.

    If the smooth part is convex, a step from an extrapolated point ends no higher than the last
    iterate provided it ends at least as far from it as it started. That needs no energy; a step
    without the certificate is dropped, and its row loses its momentum.
    """
    rows = _Rows(Z)
    coupled = objective.coupled

    X, C = Z.clone(), Z.clone()
    C_new, move = torch.empty_like(Z), torch.empty_like(Z)
    age = torch.zeros_like(Z[:1, :1] if coupled else Z[:, :1])
    momentum = last = age
    check = 1
    for k in range(1, max_iter + 1):
        rooms = (X, C, C_new, move)
        age, momentum, last, certified = iterate(objective, *rooms, age, momentum, last)
        if k != check:
            continue
        check = _next_check(k)
        if gap_tol is not None:
            done = objective.relative_gap(C) <= gap_tol
        else:
            done = (last <= tol * _norm(C, coupled)).logical_and_(certified > 0)
        left = rows.retire(done, C, objective.energy, k)
        if left is None:
            return rows.table
        if left is not _ALL:
            objective.term.take(left)
            X, C, C_new, move = (v[left] for v in (X, C, C_new, move))
            age, momentum, last = (v[left] for v in (age, momentum, last))
    return rows.give_up(C, objective.energy, max_iter)


def _plain_iteration(objective, X, C, C_new, move, age, momentum, last):
    """One step from the last iterate, without momentum: a certified one by itself."""
    objective.descend(C, C_new, move)
    length = _norm(torch.sub(C_new, C, out=move), objective.coupled)
    C.copy_(C_new)
    return age, momentum, length, torch.ones_like(age)


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


_compiled_iteration = _Compiled(_certified_iteration)


def _guarded_fista(objective, Z, step, tol, max_iter):
    """FISTA for a network: each extrapolated point is taken only if it lowers the energy.

    Value and gradient come from one evaluation that way. A point that is refused costs its row
    the momentum, and half the step if there was no momentum to lose: the step came from an
    estimate of the curvature, for which there is no bound.
    """
    rows = _Rows(Z)
    coupled = objective.coupled
    X, C = Z, Z
    E, G = objective.value_and_grad(X)
    slack = E.abs() * (8 * torch.finfo(E.dtype).eps)
    age = torch.zeros_like(E)
    step = torch.ones_like(E) * step
    check = 2  # at least one step, however small: the encoder learns from it
    for k in range(1, max_iter + 1):
        C_new = objective.shrink(torch.addcmul(X, step, G, value=-1), step)
        if k == check:
            check = _next_check(k)
            done = _norm(C_new - X, coupled) <= tol * _norm(X, coupled)
            left = rows.retire(done, X, lambda _, E=E: E, k)
            if left is None:
                return rows.table
            if left is not _ALL:
                objective.term.take(left)
                X, C, G, C_new = (v[left] for v in (X, C, G, C_new))
                E, slack, age, step = (v[left] for v in (E, slack, age, step))
        X_new = torch.addcmul(C_new, age / (age + 3), C_new - C)
        if objective.positive:
            X_new.relu_()
        else:
            X_new.mul_(X_new * C_new > 0)
        E_new, G_new = objective.value_and_grad(X_new)
        accept = E_new <= E + slack
        step = torch.where(accept.logical_or(age > 0), step, step / 2)
        age = torch.where(accept, age + 1, 0.0)
        X = torch.where(accept, X_new, X)
        G = torch.where(accept, G_new, G)
        E = torch.where(accept, E_new, E)
        C = C_new
    return rows.give_up(X, lambda _: E, max_iter)


def _linear_fista(objective, Z, tol, max_iter, gap_tol, compile):
    """Solve for a linear decoder, in the loop that suits it."""
    if not objective.coupled:
        return _certified_fista(objective, Z, tol, max_iter, gap_tol=gap_tol)
    if compile:
        found = _certified_fista(objective, Z, tol, max_iter, iterate=_compiled_iteration)
    elif Z.device.type == "cpu":
        # one decision for all rows, and reading it costs nothing here
        found = _textbook_fista(objective, Z, tol, max_iter, restart=True)
    else:
        found = _certified_fista(objective, Z, tol, max_iter)
    if found.energy.sum() > objective.value_and_grad(Z)[0]:
        # the hinge is not convex and voids the certificate of momentum, not of plain steps
        return _certified_fista(objective, Z, tol, max_iter, iterate=_plain_iteration)
    return found


# A single-precision iteration cannot be relied on to close the gap further than this.
_FLOAT32_GAP = 1e-3


def _can_be_refined(Y):
    return Y.dtype == torch.float32 and Y.device.type != "mps"


def _refined(rough, Y, decoder, **options):
    """Go on in double precision from codes found in single, and return single."""
    double = copy.deepcopy(decoder).double()
    found = fista(Y.double(), double, init=rough.codes.double(), **options)
    return FistaResult(
        codes=found.codes.to(Y.dtype),
        n_iter=rough.n_iter + found.n_iter,
        energy=found.energy.to(Y.dtype),
        converged=found.converged,
    )


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

    With ``step_size="auto"`` the step comes from the curvature, a row loses its momentum where
    that might raise its energy, and the energy never rises; with the hinge, which is not convex,
    it never ends above where it started. For a linear decoder the bound on the curvature holds;
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
    step_size : float or "auto", default="auto"
        Step of the gradient.
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
    n_components = decoder.weights[0].shape[1]
    if beta or gamma or not lam or decoder.hidden or step_size != "auto":
        gap_tol = None  # there is one for the plain lasso only
    if gap_tol is not None and gap_tol < _FLOAT32_GAP and _can_be_refined(Y):
        options = {"lam": lam, "positive": positive, "expected_iter": expected_iter}
        rough = fista(Y, decoder, init=init, max_iter=max_iter, gap_tol=_FLOAT32_GAP, **options)
        return _refined(rough, Y, decoder, max_iter=max_iter, gap_tol=gap_tol, **options)
    with torch.inference_mode():
        if init is None:
            init = torch.zeros_like(Y[:, :1]).expand(-1, n_components)
        Z = init.relu() if positive else init.clone()
        term = make_data_term(
            Y,
            decoder,
            n_evaluations=expected_iter,
            ridge=2.0 * gamma / n_components,
            centre=target,
            tilt=lam if positive else 0.0,
        )
        objective = Objective(term, lam, beta, variance_threshold, positive, Y.shape[0])
        if step_size != "auto":
            objective.set_step(torch.full_like(Y[0, 0], step_size))
            found = _textbook_fista(objective, Z, tol, max_iter)
        elif decoder.hidden:
            curvature = network_curvature(decoder) if curvature is None else curvature
            step = 1.0 / objective.curvature(curvature + term.ridge)
            found = _guarded_fista(objective, Z, step, tol, max_iter)
        else:
            objective.set_step(1.0 / objective.curvature(term.curvature()))
            found = _linear_fista(objective, Z, tol, max_iter, gap_tol, compile)
    # copies made out here can take part in gradients again
    return FistaResult(*(part.clone() for part in found))


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
    dtype = torch.float64 if _can_be_refined(Y) else Y.dtype
    term = FactoredTerm(Y.to(dtype), weight.detach().to(dtype), tilt=lam if positive else 0.0)
    objective = Objective(term, lam, 0.0, 0.0, positive, len(Y))
    return objective.relative_gap(codes.to(dtype))[:, 0].to(Y.dtype)
