"""The loops of FISTA: as published, with certified restarts, and guarded for networks."""

import math
from typing import NamedTuple

import torch

from .data_terms import Trace

__all__ = [
    "FistaResult",
    "Rows",
    "certified_fista",
    "certified_iteration",
    "coupled_fista",
    "guarded_fista",
    "plain_iteration",
    "textbook_fista",
]


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
    trace : Trace or None
        The last evaluation of a network, often at the codes: its decoder can learn from it.

    Examples
    --------
    >>> from skvdl.inference import FistaResult
    >>> FistaResult._fields
    ('codes', 'n_iter', 'energy', 'converged', 'trace')
    """

    codes: torch.Tensor
    n_iter: torch.Tensor
    energy: torch.Tensor
    converged: torch.Tensor
    trace: Trace | None = None


_ALL = slice(None)


class Rows:
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
        self.table.codes[rows] = codes[which].to(self.table.codes.dtype)
        self.table.energy[rows] = energy[which, 0].to(self.table.energy.dtype)
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


def _next_momentum(t):
    """Nesterov's sequence: its next member, and the share of the last move to add."""
    t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
    return t_new, (t - 1) / t_new


def textbook_fista(objective, Z, tol, max_iter):
    """FISTA with a constant step and plain momentum, as published; each row by itself."""
    rows = Rows(Z)
    X, C = Z.clone(), Z.clone()
    C_new, move = torch.empty_like(Z), torch.empty_like(Z)
    t = 1.0
    for k in range(1, max_iter + 1):
        objective.descend(X, C_new, move)
        torch.sub(C_new, C, out=move)
        length = _norm(move, coupled=False)
        done = (length <= tol * _norm(C, coupled=False)).logical_and_(length.isfinite())
        t, momentum = _next_momentum(t)
        torch.add(C_new, move, alpha=momentum, out=X)
        C, C_new = C_new, C
        left = rows.retire(done, C, objective.energy, k)
        if left is None:
            return rows.table
        if left is not _ALL:
            objective.term.take(left)
            X, C, C_new, move = (v[left] for v in (X, C, C_new, move))
    return rows.give_up(C, objective.energy, max_iter)


def coupled_fista(objective, Z, tol, max_iter, restart=False):
    """FISTA with a constant step for a batch whose rows are coupled, and stop together.

    With `restart`, a step that ends closer to the last iterate than it started is dropped, and
    the momentum with it, as in `certified_fista`. Decisions are made on the host, which costs
    nothing where that is the device.
    """
    rows = Rows(Z)
    X, C = Z.clone(), Z.clone()
    C_new, move = torch.empty_like(Z), torch.empty_like(Z)
    t, momentum, last = 1.0, 0.0, 0.0
    reach = torch.linalg.vector_norm(Z).item()
    for k in range(1, max_iter + 1):
        objective.descend(X, C_new, move)
        length = torch.linalg.vector_norm(torch.sub(C_new, C, out=move)).item()
        if restart and length < momentum * last:
            X.copy_(C)
            t, momentum = 1.0, 0.0
            continue
        last = length
        # the norm itself is worth computing only if its bound does not decide
        done = length <= tol * reach and math.isfinite(length)
        if done:
            reach = torch.linalg.vector_norm(C).item()
            done = length <= tol * reach
        reach += length
        t, momentum = _next_momentum(t)
        torch.add(C_new, move, alpha=momentum, out=X)
        C, C_new = C_new, C
        if done:
            rows.retire(torch.ones_like(C[:1, :1], dtype=torch.bool), C, objective.energy, k)
            return rows.table
    return rows.give_up(C, objective.energy, max_iter)


def certified_iteration(objective, X, C, C_new, move, age, momentum, last):
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


def certified_fista(objective, Z, tol, max_iter, *, iterate=certified_iteration):
    """FISTA with restarts, for a linear decoder and a step of at most 1 / curvature.

    If the smooth part is convex, a step from an extrapolated point ends no higher than the last
    iterate provided it ends at least as far from it as it started. That needs no energy; a step
    without the certificate is dropped, and its row loses its momentum.
    """
    rows = Rows(Z)
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
        done = (last <= tol * _norm(C, coupled)).logical_and_(certified > 0)
        left = rows.retire(done, C, objective.energy, k)
        if left is None:
            return rows.table
        if left is not _ALL:
            objective.term.take(left)
            X, C, C_new, move = (v[left] for v in (X, C, C_new, move))
            age, momentum, last = (v[left] for v in (age, momentum, last))
    return rows.give_up(C, objective.energy, max_iter)


def plain_iteration(objective, X, C, C_new, move, age, momentum, last):
    """One step from the last iterate, without momentum: a certified one by itself."""
    objective.descend(C, C_new, move)
    length = _norm(torch.sub(C_new, C, out=move), objective.coupled)
    C.copy_(C_new)
    return age, momentum, length, torch.ones_like(age)


# By how much a step that is being adapted grows with each point that is taken: before one was
# refused for the first time, and after. A faster start overshoots, a faster end is refused often.
_GROWTH = 1.25, 1.02


def guarded_fista(objective, Z, step, tol, max_iter, adapt=False):
    """FISTA for a network: each extrapolated point is taken only if it lowers the energy.

    Value and gradient come from one evaluation that way. A point that is refused costs its row
    the momentum, and half the step if there was no momentum to lose: the step came from an
    estimate of the curvature, for which there is no bound.

    The estimate can also be far too high, and then a row that hardly moves may be far from its
    minimum. With `adapt` the step of each row grows, and none is done before a point of it was
    refused: its step is then, or was, about as long as it can be. At the kink of a relu no step is
    short enough, and a row may still stop above its minimum.
    """
    rows = Rows(Z)
    coupled = objective.coupled
    X, C = Z, Z
    E, G = objective.value_and_grad(X)
    limits = torch.finfo(E.dtype)
    slack = E.abs() * (8 * limits.eps)
    age = torch.zeros_like(E)
    step = estimate = torch.ones_like(E) * step
    limited = torch.zeros_like(E, dtype=torch.bool)
    check = 2  # at least one step, however small: the encoder learns from it
    for k in range(1, max_iter + 1):
        C_new = objective.shrink(torch.addcmul(X, step, G, value=-1), step)
        if k == check:
            check = _next_check(k)
            length = _norm(C_new - X, coupled)
            done = length <= tol * _norm(X, coupled)
            if adapt:
                done = done.logical_and(limited.logical_or(length == 0))
            left = rows.retire(done, X, lambda _, E=E: E, k)
            if left is None:
                return rows.table
            if left is not _ALL:
                objective.term.take(left)
                X, C, G, C_new = (v[left] for v in (X, C, G, C_new))
                E, slack, age, step = (v[left] for v in (E, slack, age, step))
                estimate, limited = estimate[left], limited[left]
        X_new = torch.addcmul(C_new, age / (age + 3), C_new - C)
        if objective.positive:
            X_new.relu_()
        else:
            X_new.mul_(X_new * C_new > 0)
        E_new, G_new = objective.value_and_grad(X_new)
        accept = E_new <= E + slack
        step = torch.where(accept.logical_or(age > 0), step, step / 2)
        if adapt:
            limited = limited.logical_or(accept.logical_not())
            first, later = _GROWTH
            longer = torch.where(limited, step * later, step * first).clamp_(max=limits.max)
            # where rounding hides whether the energy falls, a long step may go to and fro forever
            shorter = torch.maximum(step / 2, torch.minimum(step, estimate))
            hidden = limited.logical_and(E_new >= E - slack)
            step = torch.where(accept, torch.where(hidden, shorter, longer), step)
            # steps that grow could make much of what rounding allowed a start far away
            slack = torch.where(accept, E_new, E).abs() * (8 * limits.eps)
        age = torch.where(accept, age + 1, 0.0)
        X = torch.where(accept, X_new, X)
        G = torch.where(accept, G_new, G)
        E = torch.where(accept, E_new, E)
        C = C_new
    return rows.give_up(X, lambda _: E, max_iter)
