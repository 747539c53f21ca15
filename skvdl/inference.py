"""FISTA: from data and a decoder to sparse codes. Knows nothing of training or scikit-learn."""

from typing import NamedTuple

import torch

from .data_terms import make_data_term
from .energy import sparsity, variance_hinge_parts

__all__ = ["FistaResult", "fista"]


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


class _Objective:
    """Energy of a batch of codes, its gradient where smooth, and the step for the rest."""

    def __init__(self, term, lam, beta, variance_threshold, positive, n_rows):
        self.term = term
        self.lam = lam
        self.beta = beta if n_rows > 1 else 0.0
        self.variance_threshold = variance_threshold
        self.positive = positive

    @property
    def coupled(self):
        """Whether the rows of the batch depend on each other."""
        return self.beta > 0

    def curvature(self, n_rows):
        # The hinge is concave but along the deviations themselves, where it has this slope.
        hinge = 2.0 * self.beta / (n_rows - 1) if self.coupled else 0.0
        return self.term.curvature() + hinge

    def grad(self, Z):
        grad = self.term.grad(Z)
        if self.coupled:
            _, slope, mean = variance_hinge_parts(Z, self.variance_threshold)
            slope = slope * self.beta
            grad.addcmul_(Z, slope).sub_(slope * mean)
        return grad

    def value_and_grad(self, Z):
        """Energy as a column (one number a row, or one in all where coupled), and gradient."""
        value, grad = self.term.value_and_grad(Z)
        if not self.positive:
            value = torch.add(value, sparsity(Z), alpha=self.lam)
        if self.coupled:
            hinge, slope, mean = variance_hinge_parts(Z, self.variance_threshold)
            slope = slope * self.beta
            grad.addcmul_(Z, slope).sub_(slope * mean)
            value = torch.add(value.sum(), hinge.sum(), alpha=self.beta).reshape(1)
        return value[:, None], grad

    def prox(self, V, step):
        """Shrink in place; on non-negative codes the threshold is part of the gradient."""
        if self.positive:
            return V.relu_()
        threshold = step * self.lam
        return V.sub_(torch.minimum(torch.maximum(V, -threshold), threshold))


class _Results:
    """Codes of the rows that are done, and which rows are still being worked on."""

    def __init__(self, codes):
        self.active = torch.arange(codes.shape[0], device=codes.device)
        self.table = FistaResult(
            codes=torch.empty_like(codes),
            n_iter=torch.zeros_like(self.active),
            energy=torch.empty_like(codes[:, 0]),
            converged=torch.zeros_like(self.active, dtype=torch.bool),
        )

    def store(self, which, codes, energy, n_iter, converged):
        """Write down what the active rows at the indices `which` have come to."""
        rows = self.active[which]
        if energy.shape[0] == 1:
            energy = energy.expand(codes.shape[0], 1) / codes.shape[0]
        self.table.codes[rows] = codes[which]
        self.table.energy[rows] = energy[which, 0]
        self.table.n_iter[rows] = n_iter
        self.table.converged[rows] = converged


def _row_norm(V, coupled):
    """Norm of each row as a column, or of the whole batch where its rows are coupled."""
    if coupled:
        return torch.linalg.vector_norm(V).reshape(1, 1)
    return torch.linalg.vector_norm(V, dim=1, keepdim=True)


def _next_check(k):
    """Iteration after `k` at which to look for converged rows.

    Looking costs a host synchronisation, so the gaps widen. They must not depend on the data:
    a row would then stop at another iteration in other company.
    """
    return max(k + 1, k + k // 6)


def _monotone_fista(objective, Z, tol, max_iter):
    """FISTA whose iterates are the extrapolated points, each taken only if it lowers the energy.

    Value and gradient come from the same evaluation that way. A point that is refused costs the
    row its momentum, and half its step if it had no momentum to lose, which only happens where
    the curvature is an estimate.
    """
    results = _Results(Z)
    coupled = objective.coupled
    X, C = Z, Z
    E, G = objective.value_and_grad(X)
    slack = E.abs() * (8 * torch.finfo(E.dtype).eps)
    t = torch.ones_like(E)
    step = torch.ones_like(E) / objective.curvature(Z.shape[0])
    check = 1
    for k in range(1, max_iter + 1):
        C_new = objective.prox(torch.addcmul(X, step, G, value=-1), step)
        t_new = (1 + (1 + 4 * t * t).sqrt()) / 2
        momentum = (t - 1) / t_new
        X_new = torch.addcmul(C_new, momentum, C_new - C)
        if objective.positive:
            X_new.relu_()
        else:
            X_new.mul_(X_new * C_new > 0)
        E_new, G_new = objective.value_and_grad(X_new)
        if k in (check, max_iter):
            moved = _row_norm(C_new - X, coupled)
            done = moved <= tol * _row_norm(X, coupled)
        accept = E_new <= E + slack
        step = torch.where(accept | (momentum > 0), step, step / 2)
        t = torch.where(accept, t_new, 1.0)
        C = C_new
        X = torch.where(accept, X_new, X)
        G = torch.where(accept, G_new, G)
        E = torch.where(accept, E_new, E)
        if k < max_iter and k != check:
            continue
        check = _next_check(k)
        done = done[:, 0].expand(X.shape[0])
        finished = done.nonzero()[:, 0]
        if len(finished):
            results.store(finished, X, E, k, True)
            left = done.logical_not().nonzero()[:, 0]
            if not len(left):
                return results.table
            results.active = results.active[left]
            objective.term.take(left)
            X, C, G, E, t, step, slack = (v[left] for v in (X, C, G, E, t, step, slack))
    left = torch.arange(X.shape[0], device=X.device)
    results.store(left, X, E, max_iter, False)
    return results.table


def _textbook_fista(objective, Z, step, tol, max_iter):
    """FISTA with a constant step and plain momentum, as published."""
    results = _Results(Z)
    coupled = objective.coupled
    X, C = Z, Z
    t = 1.0
    step = torch.full_like(Z[:1, :1], step)
    for k in range(1, max_iter + 1):
        C_new = objective.prox(torch.addcmul(X, step, objective.grad(X), value=-1), step)
        t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
        X = torch.lerp(C, C_new, 1 + (t - 1) / t_new)
        done = _row_norm(C_new - C, coupled) <= tol * _row_norm(C, coupled)
        C, t = C_new, t_new
        done = done[:, 0].expand(C.shape[0])
        finished = done.nonzero()[:, 0]
        if len(finished):
            results.store(finished, C, objective.value_and_grad(C)[0], k, True)
            left = done.logical_not().nonzero()[:, 0]
            if not len(left):
                return results.table
            results.active = results.active[left]
            objective.term.take(left)
            X, C = X[left], C[left]
    left = torch.arange(C.shape[0], device=C.device)
    results.store(left, C, objective.value_and_grad(C)[0], max_iter, False)
    return results.table


@torch.no_grad()
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
    expected_iter=50,
):
    """Minimise the energy over the codes of one batch.

    With ``step_size="auto"`` the step comes from the curvature, and an iterate is taken only if
    it lowers the energy, which then never rises. For a linear decoder the bound on the curvature
    holds, the hinge included; for a network it is an estimate, and the step is halved where it
    proves too long. With a number as step this is FISTA as published.

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
    expected_iter : int, default=50
        How many iterations are likely: a Gram matrix is prepared if that pays.

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
    objective = _Objective(term, lam, beta, variance_threshold, positive, Y.shape[0])
    if step_size == "auto":
        return _monotone_fista(objective, Z, tol, max_iter)
    return _textbook_fista(objective, Z, step_size, tol, max_iter)
