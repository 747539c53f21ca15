"""Lasso codes row by row, compiled: the active-set method behind `ActiveSetLasso`.

Everything but the products of data and atoms is in double precision, and those that matter are
computed again. A row whose support has k of l components costs about ``rounds * k * l + k^3 / 3``
multiplications, all of them in the cache of one core unless k is some hundreds.
"""

import math

import numba
import numpy as np

Array = np.ndarray

# Solutions on the support before the gradient is computed again.
_SOLUTIONS = 50
# Components that may join the support in a round, unless half of it is more.
_JOINING = 8
# Rows of a factor that are computed together, so that the rows before are read once for all.
_TILE = 16
# Smallest pivot, relative to the diagonal: below it, an atom is a combination of the others.
_PIVOT = 1e-9

# Sums may be reordered, so that they are computed several terms at a time.
_REORDERED = {"contract", "reassoc", "nsz"}
_compiled = numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
# The largest of several numbers needs the promise that none is nan.
_compiled_finite = numba.njit(cache=True, nogil=True, fastmath=_REORDERED | {"nnan"})


@_compiled
def solve_rows(
    hessian: Array,
    atoms: Array,
    doubts: Array,
    data: Array,
    linear: Array,
    lam: float,
    positive: bool,
    tol: float,
    max_rounds: int,
    codes: Array,
    gaps: Array,
    energies: Array,
    n_rounds: Array,
) -> None:
    """Minimise ``mean((y - z atoms)^2) + lam ||z||_1`` for each row y of `data`.

    Starts from `codes`, which are overwritten, and stops at a relative duality gap of `tol`. The
    gap that a row ends with, in `gaps`, says whether it got there. It is the gap of the codes in
    their own precision.

    `linear` has the products of data and atoms, which may be wrong by `doubts`, one per atom, times
    the norm of a row. Those that matter are computed again in double precision, so that the gap is
    an upper bound.
    """
    n_rows, size = linear.shape
    scale = 2.0 / data.shape[1]
    inside = np.zeros(size, np.bool_)
    index, joining, left = np.empty((3, size), np.int64)
    b, doubt, grad, z, rounded, residual, target, scratch = np.empty((8, size))
    # rows that start a power of 2 apart would compete for the same places of the cache
    gram, factor = np.empty((size, size + 8)), np.empty((size, size + 8))
    for i in range(n_rows):
        y = data[i]
        square = scale * _dot(y, y)
        norm = math.sqrt(square / scale)
        for j in range(size):
            b[j] = scale * linear[i, j]
            doubt[j] = scale * norm * doubts[j]
        k = 0
        for j in range(size):
            if codes[i, j] != 0.0:
                index[k] = j
                z[k] = codes[i, j]
                inside[j] = True
                b[j] = scale * _dot(y, atoms[j])
                doubt[j] = 0.0
                k += 1
        _gather(hessian, gram, index, 0, k)
        if k and _energy_above_zeros(b, lam, index, z, k, gram) > 0.0:
            # a start that is worse than codes of zeros is of no use
            for a in range(k):
                inside[index[a]] = False
            k = 0
        factored = 0
        last_gap = math.inf
        for n_round in range(max_rounds):
            n_rounds[i] = n_round + 1
            k, factored, solved = _minimise_on_support(
                b, lam, positive, index, z, inside, k, factored,
                gram, factor, left, residual, target, scratch,
            )  # fmt: skip
            # minus the gradient of the quadratic, at the codes that are returned
            for a in range(k):
                codes[i, index[a]] = z[a]
                rounded[a] = codes[i, index[a]]
                codes[i, index[a]] = 0.0
            grad[:] = b
            _subtract_rows(hessian, index, rounded, k, grad)
            peak = _largest_slope(grad, doubt, positive)
            gaps[i], energies[i] = _relative_gap(b, square / 2, lam, peak, index, rounded, k, grad)
            if gaps[i] <= tol:
                break
            n_new = _candidates(grad, doubt, lam, positive, inside, joining)
            if n_new == 0 and solved and gaps[i] > last_gap / 2:
                # nothing is left to improve but rounding errors
                break
            last_gap = gaps[i]
            level = _joining_level(grad, lam, peak, joining, n_new, max(_JOINING, k // 2))
            start = k
            for a in range(n_new):
                j = joining[a]
                if abs(grad[j]) + doubt[j] > level:
                    if doubt[j] > 0.0:
                        b[j] = scale * _dot(y, atoms[j])
                        doubt[j] = 0.0
                    index[k] = j
                    z[k] = 0.0
                    inside[j] = True
                    k += 1
            _gather(hessian, gram, index, start, k)
        for j in range(size):
            codes[i, j] = 0.0
        for a in range(k):
            codes[i, index[a]] = z[a]
            inside[index[a]] = False


@_compiled
def refit_rows(
    hessian: Array,
    atoms: Array,
    data: Array,
    tol: float,
    max_rounds: int,
    codes: Array,
    solved: Array,
) -> None:
    """Minimise ``mean((y - z atoms)^2)`` over non-negative codes with the support of `codes`.

    `codes` are overwritten. A row is `solved` when no component of its support that is 0 has a
    slope above `tol`, relative to the slopes at codes of zeros. Without a `hessian`, of shape
    (0, 0), each row computes its part on the support.
    """
    n_rows, size = codes.shape
    scale = 2.0 / data.shape[1]
    inside = np.empty(size, np.bool_)
    place, index, left = np.empty((3, size), np.int64)
    b, z, residual, target, scratch = np.empty((5, size))
    # rows that start a power of 2 apart would compete for the same places of the cache
    whole, gram = np.empty((size, size + 8)), np.empty((size, size + 8))
    factor = np.empty((size, size + 8))
    for i in range(n_rows):
        n_places = 0
        square = 0.0
        for j in range(size):
            if codes[i, j] > 0.0:
                place[n_places] = j
                index[n_places] = n_places
                inside[n_places] = True
                z[n_places] = codes[i, j]
                b[n_places] = scale * _dot(data[i], atoms[j])
                square += b[n_places] ** 2
                n_places += 1
        least = tol * math.sqrt(square)
        if len(hessian):
            _gather(hessian, whole, place, 0, n_places)
        else:
            for a in range(n_places):
                for c in range(a + 1):
                    whole[a, c] = scale * _dot(atoms[place[a]], atoms[place[c]])
                    whole[c, a] = whole[a, c]
        _gather(whole, gram, index, 0, n_places)
        k, factored = n_places, 0
        solved[i] = n_places == 0
        for _ in range(max_rounds):
            if solved[i]:
                break
            k, factored, complete = _minimise_on_support(
                b, 0.0, True, index, z, inside, k, factored,
                gram, factor, left, residual, target, scratch,
            )  # fmt: skip
            peak = 0.0
            for j in range(n_places):
                if not inside[j]:
                    scratch[j] = b[j]
                    for a in range(k):
                        scratch[j] -= whole[j, index[a]] * z[a]
                    peak = max(peak, scratch[j])
            if peak <= least:
                solved[i] = complete
                continue
            start = k
            for j in range(n_places):
                if not inside[j] and scratch[j] > max(least, peak / 2):
                    index[k] = j
                    z[k] = 0.0
                    inside[j] = True
                    k += 1
            _gather(whole, gram, index, start, k)
        for j in range(size):
            codes[i, j] = 0.0
        for a in range(k):
            codes[i, place[index[a]]] = z[a]


@_compiled
def _dot(x: Array, y: Array) -> float:
    """Product of two vectors, in double precision."""
    total = 0.0
    for j in range(len(x)):
        total += np.float64(x[j]) * np.float64(y[j])
    return total


@_compiled
def _subtract_rows(hessian: Array, index: Array, amplitudes: Array, k: int, grad: Array) -> None:
    """Subtract a weighted sum of rows, four at a time to read and write `grad` less often."""
    size = len(grad)
    for a in range(0, k - 3, 4):
        p, q, r, s = amplitudes[a], amplitudes[a + 1], amplitudes[a + 2], amplitudes[a + 3]
        first, second = hessian[index[a]], hessian[index[a + 1]]
        third, fourth = hessian[index[a + 2]], hessian[index[a + 3]]
        for j in range(size):
            grad[j] -= p * first[j] + q * second[j] + r * third[j] + s * fourth[j]
    for a in range(k - k % 4, k):
        row, amplitude = hessian[index[a]], amplitudes[a]
        for j in range(size):
            grad[j] -= amplitude * row[j]


@_compiled
def _minimise_on_support(
    b: Array,
    lam: float,
    positive: bool,
    index: Array,
    z: Array,
    inside: Array,
    k: int,
    factored: int,
    gram: Array,
    factor: Array,
    left: Array,
    residual: Array,
    target: Array,
    scratch: Array,
) -> tuple[int, int, bool]:
    """Minimise over the components in `index`; those that end at 0 leave it."""
    if k == 0:
        return k, factored, True
    for a in range(k):
        total = b[index[a]]
        for c in range(k):
            total -= gram[a, c] * z[c]
        residual[a] = total
    _coordinate_descent(lam, positive, z, k, gram, residual)
    for _ in range(_SOLUTIONS):
        k, factored = _drop_zeros(
            index, z, residual, inside, k, factored, gram, factor, left, target, scratch
        )
        factored = _factorise(gram, factor, factored, k)
        if factored < k:
            _step_to_face(lam, z, residual, factored, k, gram, factor, target)
            continue
        _solve_factored(lam, z, residual, k, factor, target)
        share = 1.0
        for a in range(k):
            if target[a] * z[a] < 0.0:
                share = min(share, z[a] / (z[a] - target[a]))
        if share == 1.0:
            z[:k] = target[:k]
            return k, factored, True
        _step_towards(lam, share, z, target, residual, k, gram)
    return k, factored, False


@_compiled
def _step_to_face(
    lam: float,
    z: Array,
    residual: Array,
    p: int,
    k: int,
    gram: Array,
    factor: Array,
    direction: Array,
) -> None:
    """Set a component to 0 where atom `p` of the support is a combination of those before it.

    Along the direction that changes the codes and not the reconstruction, down to the first 0.
    """
    for a in range(p):
        direction[a] = -factor[p, a]
    for a in range(p - 1, -1, -1):
        direction[a] /= factor[a, a]
        for q in range(a):
            direction[q] -= factor[a, q] * direction[a]
    direction[p] = 1.0
    slope = 0.0
    for a in range(p + 1):
        slope += (math.copysign(lam, z[a]) - residual[a]) * direction[a]
    sign = -1.0 if slope > 0.0 else 1.0
    room = math.inf
    for a in range(p + 1):
        if sign * direction[a] * z[a] < 0.0:
            room = min(room, abs(z[a] / direction[a]))
    if room == math.inf:
        # without a penalty, any direction is as good
        sign, room = -math.copysign(1.0, z[p]), abs(z[p])
    for a in range(p + 1):
        step = sign * room * direction[a]
        ends = step * z[a] < 0.0 and abs(z[a] / direction[a]) <= room
        if ends:
            step = -z[a]
        for c in range(k):
            residual[c] -= step * gram[a, c]
        z[a] = 0.0 if ends else z[a] + step


@_compiled
def _step_towards(
    lam: float, share: float, z: Array, target: Array, residual: Array, k: int, gram: Array
) -> None:
    """Go towards the minimum over the support, past which some components would change sign.

    Either all of them end at 0 and the others at the minimum, or the step ends where the first
    is 0, whichever has less energy.
    """
    first, every = 0.0, 0.0
    for a in range(k):
        first += (z[a] - target[a]) * (math.copysign(lam, z[a]) - residual[a])
        if target[a] * z[a] < 0.0:
            for c in range(k):
                if target[c] * z[c] < 0.0:
                    every += target[a] * target[c] * gram[a, c]
    first *= (1.0 - share) ** 2
    if every < first:
        for a in range(k):
            residual[a] = math.copysign(lam, z[a])
        for c in range(k):
            if target[c] * z[c] < 0.0:
                for a in range(k):
                    residual[a] += target[c] * gram[c, a]
        for a in range(k):
            z[a] = 0.0 if target[a] * z[a] < 0.0 else target[a]
        return
    for a in range(k):
        residual[a] += share * (math.copysign(lam, z[a]) - residual[a])
    for a in range(k):
        crossing = z[a] / (z[a] - target[a]) if target[a] * z[a] < 0.0 else math.inf
        # what is in the way ends at 0 exactly
        z[a] = 0.0 if crossing <= share else z[a] + share * (target[a] - z[a])


@_compiled
def _gather(hessian: Array, gram: Array, index: Array, start: int, k: int) -> None:
    """Copy the rows of the Hessian's part on the support from `start` on."""
    for a in range(start, k):
        row = hessian[index[a]]
        for c in range(a + 1):
            gram[a, c] = row[index[c]]
            gram[c, a] = gram[a, c]


@_compiled
def _coordinate_descent(
    lam: float, positive: bool, z: Array, k: int, gram: Array, residual: Array
) -> None:
    """Sweep over the components of the support."""
    for a in range(k):
        bend, old = gram[a, a], z[a]
        pull = residual[a] + bend * old
        new = 0.0
        if pull > lam:
            new = (pull - lam) / bend
        elif pull < -lam and not positive:
            new = (pull + lam) / bend
        change = new - old
        if change != 0.0:
            z[a] = new
            for c in range(k):
                residual[c] -= change * gram[a, c]


@_compiled
def _drop_zeros(
    index: Array,
    z: Array,
    residual: Array,
    inside: Array,
    k: int,
    factored: int,
    gram: Array,
    factor: Array,
    left: Array,
    cosines: Array,
    sines: Array,
) -> tuple[int, int]:
    """Take components that are 0 out of the support, the Gram matrix and its factor."""
    first = 0
    while first < k and z[first] != 0.0:
        first += 1
    if first == k:
        return k, factored
    for a in range(k - 1, first - 1, -1):
        if z[a] == 0.0 and a < factored:
            _downdate(factor, a, factored, cosines, sines)
            factored -= 1
    kept = first
    for a in range(first, k):
        if z[a] == 0.0:
            inside[index[a]] = False
        else:
            index[kept], residual[kept], z[kept] = index[a], residual[a], z[a]
            left[kept] = a
            kept += 1
    for row in range(kept):
        old = gram[row if row < first else left[row]]
        new = gram[row]
        if row >= first:
            new[:first] = old[:first]
        for column in range(first, kept):
            new[column] = old[left[column]]
    return kept, factored


@_compiled
def _downdate(factor: Array, p: int, k: int, cosines: Array, sines: Array) -> None:
    """Take row `p` out of a Cholesky factor of `k` rows, by rotations of its columns."""
    for a in range(p, k - 1):
        row, lower = factor[a], factor[a + 1]
        row[:p] = lower[:p]
        # each rotation zeroes the entry right of the diagonal of one row
        carried = lower[p]
        for c in range(p, a):
            row[c] = cosines[c] * carried + sines[c] * lower[c + 1]
            carried = cosines[c] * lower[c + 1] - sines[c] * carried
        row[a] = math.sqrt(carried**2 + lower[a + 1] ** 2)
        cosines[a] = carried / row[a]
        sines[a] = lower[a + 1] / row[a]


@_compiled
def _factorise(gram: Array, factor: Array, start: int, k: int) -> int:
    """Cholesky factor, of which the rows before `start` are known.

    Returns the number of rows that are known then: those before the first atom that is a
    combination of others.
    """
    for first in range(start, k, _TILE):
        last = min(first + _TILE, k)
        for c in range(last):
            for a in range(max(first, c), last):
                total = gram[a, c]
                for q in range(c):
                    total -= factor[a, q] * factor[c, q]
                if a > c:
                    factor[a, c] = total / factor[c, c]
                elif total > _PIVOT * gram[c, c]:
                    factor[c, c] = math.sqrt(total)
                else:
                    return c
    return k


@_compiled
def _solve_factored(
    lam: float, z: Array, residual: Array, k: int, factor: Array, target: Array
) -> None:
    """Write the minimum over the support, with the signs of `z`, into `target`."""
    for a in range(k):
        total = residual[a] - math.copysign(lam, z[a])
        for q in range(a):
            total -= factor[a, q] * target[q]
        target[a] = total / factor[a, a]
    for a in range(k - 1, -1, -1):
        target[a] /= factor[a, a]
        for q in range(a):
            target[q] -= factor[a, q] * target[a]
    for a in range(k):
        target[a] += z[a]


@_compiled
def _energy_above_zeros(b: Array, lam: float, index: Array, z: Array, k: int, gram: Array) -> float:
    """Energy of codes minus that of codes of zeros."""
    total = 0.0
    for a in range(k):
        slope = -b[index[a]]
        for c in range(k):
            slope += gram[a, c] * z[c] / 2
        total += slope * z[a] + lam * abs(z[a])
    return total


@_compiled_finite
def _largest_slope(grad: Array, doubt: Array, positive: bool) -> float:
    """Largest slope at which codes could leave 0, or more."""
    peak = 0.0
    for j in range(len(grad)):
        slope = grad[j] if positive else abs(grad[j])
        peak = max(peak, slope + doubt[j])
    return peak


@_compiled
def _relative_gap(
    b: Array,
    constant: float,
    lam: float,
    peak: float,
    index: Array,
    z: Array,
    k: int,
    grad: Array,
) -> tuple[float, float]:
    """Relative duality gap and energy, as in `Problem.relative_gap`."""
    product, overlap, norm = 0.0, 0.0, 0.0
    for a in range(k):
        product += b[index[a]] * z[a]
        overlap += grad[index[a]] * z[a]
        norm += abs(z[a])
    error = constant - (product + overlap) / 2
    energy = error + lam * norm
    shrink = min(1.0, lam / peak) if peak > 0.0 else 1.0
    gap = energy - shrink * (2 * error + overlap - shrink * error)
    return gap / max(energy, np.finfo(np.float64).tiny), energy


@_compiled
def _candidates(
    grad: Array, doubt: Array, lam: float, positive: bool, inside: Array, found: Array
) -> int:
    """List the components outside of the support that could lower the energy."""
    n_found = 0
    for j in range(len(grad)):
        slope = grad[j] if positive else abs(grad[j])
        if slope + doubt[j] > lam and not inside[j]:
            found[n_found] = j
            n_found += 1
    return n_found


@_compiled
def _joining_level(
    grad: Array, lam: float, peak: float, candidates: Array, n_candidates: int, most: int
) -> float:
    """Slope above which candidates join the support, so that few do."""
    level, n_new = lam, n_candidates
    while n_new > most:
        level += 0.3 * (peak - level)
        n_new = 0
        for a in range(n_candidates):
            n_new += abs(grad[candidates[a]]) > level
    return level
