import numpy as np
import pytest
import torch
from _helpers import (
    DEVICES,
    LINEAR_AND_MLP,
    autograd,
    device_dtype,
    gaps,
    make_decoder,
    naive_energy,
    plain_smooth,
    randn,
    solve,
    to_numpy,
)
from sklearn.linear_model import Lasso

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
DECODERS = pytest.mark.parametrize("hidden", LINEAR_AND_MLP, ids=["linear", "mlp", "mlp2"])
STEPS = pytest.mark.parametrize("step_size", ["auto", 0.3])


def close(found, expected, tol=1e-9):
    np.testing.assert_allclose(to_numpy(found), expected, rtol=tol, atol=tol)


def naive_fista(Y, decoder, Z, step, tol, max_iter, *, lam, positive, beta=0.0, threshold=0.5):
    """FISTA as in the textbook, with the gradient from autograd and one norm for all rows."""

    def smooth(Z):
        value = plain_smooth(Y, decoder, Z).sum()
        return value + beta * torch.relu(threshold - Z.std(dim=0)).square().sum() if beta else value

    X, t, k, done = Z, 1.0, 0, False
    while k < max_iter and not done:
        k += 1
        V = to_numpy(X - step * autograd(smooth, X))
        new = np.sign(V) * np.maximum(np.abs(V) - step * lam, 0.0)
        new = torch.from_numpy(np.maximum(new, 0.0) if positive else new)
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        X = new + (t - 1) / t_new * (new - Z)
        done = (new - Z).norm().item() <= tol * Z.norm().item()
        Z, t = new, t_new
    return Z, k, done


@SIGNS
@pytest.mark.parametrize(("n_components", "n_features"), [(5, 10), (10, 10), (25, 10)])
@pytest.mark.parametrize("lam", [0.02, 0.3])
def test_minimum_is_that_of_sklearn_lasso(n_components, n_features, lam, positive):
    Y = randn(6, n_features, seed=n_components)
    decoder = make_decoder((), n_components, n_features, seed=1, scale=2.0)
    found = solve(Y, decoder, lam=lam, positive=positive, tol=1e-12, max_iter=50_000)
    lasso = Lasso(alpha=lam / 2, fit_intercept=False, positive=positive, tol=1e-14, max_iter=10**6)
    exact = [lasso.fit(to_numpy(decoder.weight), y).coef_ for y in to_numpy(Y)]
    minimum = naive_energy(Y, decoder, torch.from_numpy(np.array(exact)), lam=lam)
    np.testing.assert_allclose(
        naive_energy(Y, decoder, found.codes, lam=lam), minimum, rtol=1e-8, atol=0
    )
    assert found.converged.all()
    assert (np.array(exact) != 0).any()
    assert (found.codes < 0).any().item() != positive


@SIGNS
@pytest.mark.parametrize("n_components", [5, 25])
def test_fixed_step_ends_at_the_same_minimum(n_components, positive):
    Y, decoder = randn(4, 10, seed=0), make_decoder((), n_components, 10, seed=1, scale=2.0)
    options = {"lam": 0.05, "positive": positive, "tol": 1e-12, "max_iter": 50_000}
    step = 1 / (0.2 * torch.linalg.matrix_norm(decoder.weight, 2).item() ** 2)
    auto, fixed = (solve(Y, decoder, step_size=s, **options) for s in ("auto", step))
    torch.testing.assert_close(auto.energy, fixed.energy, rtol=1e-8, atol=0)


@SIGNS
@DECODERS
@pytest.mark.parametrize("start", ["zero", "random"])
def test_energy_never_rises_from_one_iteration_to_the_next(hidden, positive, start):
    Y, decoder = randn(6, 8, seed=0), make_decoder(hidden, 12, 8, seed=1, scale=3.0)
    init = torch.zeros_like(Y[:, :1]).expand(6, 12) if start == "zero" else randn(6, 12, seed=2)
    options = {"lam": 0.05, "positive": positive, "init": init, "tol": 1e-9}
    begin = init.relu() if positive else init
    energies = [naive_energy(Y, decoder, begin, lam=0.05)]
    for max_iter in range(1, 31):
        found = solve(Y, decoder, max_iter=max_iter, **options)
        energies.append(naive_energy(Y, decoder, found.codes, lam=0.05))
    energies = np.array(energies)
    rises = np.diff(energies, axis=0) / energies[0]
    assert rises.max() <= 1e-13
    assert energies[-1].sum() < 0.96 * energies[0].sum()


@SIGNS
@DECODERS
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 1e2, 1e6])
@pytest.mark.parametrize("beta", [0.5, 50.0])
def test_with_the_hinge_the_batch_never_ends_above_its_start(hidden, positive, scale, beta):
    weights = {"lam": 0.02, "beta": beta, "gamma": 0.5}
    fell = []
    for seed in range(4):
        n = (2, 3, 6, 20)[seed]
        Y, init = randn(n, 6, seed=seed), randn(n, 9, seed=seed + 10)
        target = init.relu() if positive else init
        decoder = make_decoder(hidden, 9, 6, seed=seed + 20, scale=scale)
        found = solve(
            Y, decoder, init=init, target=target, positive=positive, max_iter=60, **weights
        )
        before = naive_energy(Y, decoder, target, target=target, **weights).sum()
        after = naive_energy(Y, decoder, found.codes, target=target, **weights).sum()
        assert found.codes.isfinite().all()
        assert found.energy.isfinite().all()
        assert after <= before * (1 + 1e-12)
        fell.append(after < before * (1 - 1e-6))
    assert any(fell)


@SIGNS
@DECODERS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [0.0, 10.0])
def test_huge_weights_do_not_diverge(hidden, positive, dtype, beta):
    for seed in range(3):
        Y, init = randn(5, 6, seed=seed, dtype=dtype), randn(5, 9, seed=seed + 10, dtype=dtype)
        decoder = make_decoder(hidden, 9, 6, seed=seed + 20, scale=100.0, dtype=dtype)
        begin = init.relu() if positive else init
        options = {"positive": positive, "max_iter": 100}
        found = solve(Y, decoder, lam=0.02, beta=beta, init=init, **options)
        before = naive_energy(Y, decoder, begin, lam=0.02, beta=beta)
        after = naive_energy(Y, decoder, found.codes, lam=0.02, beta=beta)
        assert found.codes.isfinite().all()
        if beta:
            before, after = before.sum(), after.sum()
        assert np.all(after < before)


def test_steps_grow_where_there_is_hardly_any_curvature():
    # as good as no curvature: the minimum is far away, and steps grow on the way to it
    Y, decoder = (
        randn(5, 6, seed=0, dtype=torch.float32),
        make_decoder((8,), 9, 6, seed=1, scale=1e-7, dtype=torch.float32),
    )
    options = {"lam": 0.0, "init": randn(5, 9, seed=2, dtype=torch.float32)}
    first = solve(Y, decoder, max_iter=1, **options).energy
    found = solve(Y, decoder, max_iter=1000, **options)
    assert found.codes.isfinite().all()
    assert found.converged.all()
    assert found.energy.mean() < 0.9 * first.mean()


@SIGNS
def test_curvature_estimated_too_low_is_made_up_for(positive):
    # Two units that all but cancel where both are active; one is not, and the estimate of the
    # curvature is 100 times too low. The decoder is 10 z below z = 5, and so is the minimum.
    decoder = make_decoder((2,), 1, 1, seed=0)
    with torch.no_grad():
        decoder.weights[0].fill_(1.0)
        decoder.biases[0].copy_(torch.tensor([0.0, -5.0], device="cpu"))
        decoder.weights[1].copy_(torch.tensor([[10.0, -9.0]], device="cpu"))
    Y = torch.tensor([[20.0], [30.0]], dtype=torch.float64, device="cpu")
    options = {"lam": 0.5, "init": torch.ones_like(Y), "positive": positive, "tol": 1e-6}
    found = solve(Y, decoder, **options)
    close(found.codes, to_numpy(Y) / 10 - 0.5 / 200, 1e-4)
    assert found.converged.all()


def mostly_off(n_components, n_features, seed, weight):
    """Return a network most of whose units are never on, the matrix of the others, and a shift.

    With those that are on it is linear: the reconstruction is ``codes @ matrix.T + shift``.
    """
    decoder = make_decoder((40,), n_components, n_features, seed=seed)
    with torch.no_grad():
        decoder.weights[0][20:] *= weight
        decoder.biases[0][:20] = 1e3
        decoder.biases[0][20:] = -1e6
    first, last = (weight.detach() for weight in decoder.weights)
    return decoder, last[:, :20] @ first[:20], 1e3 * last[:, :20].sum(dim=1)


@SIGNS
@pytest.mark.parametrize("weight", [10.0, 100.0])
def test_step_adapts_and_reaches_the_minimum_where_most_units_are_off(positive, weight):
    # their weights count in the estimate of the curvature, and nowhere else
    decoder, matrix, shift = mostly_off(6, 8, seed=0, weight=weight)
    Y = 2 * randn(10, 6, seed=1).abs() @ matrix.T
    options = {"lam": 0.02, "positive": positive, "max_iter": 5000}
    linear = make_decoder((), 6, 8, seed=0)
    with torch.no_grad():
        linear.weight.copy_(matrix)
    least = solve(Y, linear, exact=True, tol=1e-9, **options).energy
    for tol, excess in ((1e-3, 5e-3), (1e-6, 1e-9)):
        adapted = solve(Y + shift, decoder, tol=tol, **options)
        assert adapted.converged.all()
        assert (adapted.energy / least).max() < 1 + excess


@SIGNS
@DECODERS
@STEPS
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("max_iter", [1, 3, 200])
def test_energies_are_those_of_the_codes(hidden, positive, step_size, beta, max_iter):
    Y, target = randn(7, 8, seed=0), randn(7, 5, seed=1)
    decoder = make_decoder(hidden, 5, 8, seed=2)
    weights = {"lam": 0.03, "beta": beta, "gamma": 1.5, "target": target}
    found = solve(
        Y,
        decoder,
        variance_threshold=0.9,
        positive=positive,
        step_size=step_size,
        max_iter=max_iter,
        **weights,
    )
    expected = naive_energy(Y, decoder, found.codes, threshold=0.9, **weights)
    if beta:
        # only the sum is promised: rows differ by how the terms of the batch are shared out
        assert found.energy.sum().item() == pytest.approx(expected.sum(), rel=1e-10)
    else:
        close(found.energy, expected, 1e-10)


@SIGNS
@DECODERS
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_fixed_step_is_the_textbook_algorithm(hidden, positive, beta):
    Y, init = randn(4, 6, seed=0), randn(4, 9, seed=1)
    decoder = make_decoder(hidden, 9, 6, seed=2, scale=1.5)
    options = {"lam": 0.03, "positive": positive, "beta": beta}
    common = {"tol": 1e-3, "max_iter": 60}
    found = solve(Y, decoder, init=init, step_size=0.2, **options, **common)
    begin = init.relu() if positive else init
    batches = [slice(0, 4)] if beta else [slice(i, i + 1) for i in range(4)]
    for rows in batches:
        codes, n_iter, done = naive_fista(Y[rows], decoder, begin[rows], 0.2, **options, **common)
        close(found.codes[rows], to_numpy(codes))
        assert set(found.n_iter[rows].tolist()) == {n_iter}
        assert set(found.converged[rows].tolist()) == {done}
    assert found.n_iter.max() > 5


# With 14 components and 8 features a row alone takes another form of the data term than 50 rows.
@SIGNS
@DECODERS
@STEPS
@pytest.mark.parametrize(("tol", "gamma"), [(1e-3, 0.0), (1e-6, 0.4)])
def test_codes_of_a_row_do_not_depend_on_its_neighbours(hidden, positive, step_size, tol, gamma):
    Y, target = randn(50, 8, seed=0), randn(50, 14, seed=1)
    decoder = make_decoder(hidden, 14, 8, seed=2, scale=1.5)

    def codes(rows):
        return solve(
            Y[rows],
            decoder,
            lam=0.05,
            gamma=gamma,
            target=target[rows],
            positive=positive,
            step_size=step_size,
            tol=tol,
            max_iter=100,
        )

    together = codes(torch.arange(50, device="cpu"))
    assert tol < 1e-3 or len(set(together.n_iter.tolist())) > 1
    if not hidden:
        forms = {type(decoder.data_term(Y[:n])) for n in (1, 50)}
        assert len(forms) == 2
    backwards = torch.arange(49, -1, -1, device="cpu")
    groups = [backwards, backwards[::7], *(backwards[i : i + 1] for i in range(0, 50, 5))]
    for rows in groups:
        apart = codes(rows)
        close(apart.codes, to_numpy(together.codes[rows]))
        close(apart.energy, to_numpy(together.energy[rows]))
        assert torch.equal(apart.converged, together.converged[rows])


@SIGNS
@STEPS
@DECODERS
def test_iterations_are_counted(hidden, positive, step_size):
    Y, init = randn(6, 8, seed=0), randn(6, 12, seed=2)
    decoder = make_decoder(hidden, 12, 8, seed=1, scale=2.0)
    options = {"lam": 0.02, "positive": positive, "step_size": step_size, "init": init}
    one = solve(Y, decoder, max_iter=1, tol=1e-6, **options)
    assert one.n_iter.tolist() == [1] * 6
    assert not one.converged.any()
    few = solve(Y, decoder, max_iter=25, tol=2e-2, **options)
    assert few.converged.any()
    assert 1 < few.n_iter.max() <= 25
    assert (few.n_iter[~few.converged] == 25).all()


@SIGNS
@STEPS
@DECODERS
def test_rows_that_start_at_the_optimum_stop_at_once(hidden, positive, step_size):
    # rows whose optimum is not at the kink of a relu, where no step is short enough
    Y, target = randn(6, 8, seed=0)[:3], randn(6, 5, seed=2)[:3]
    decoder = make_decoder(hidden, 5, 8, seed=1)
    options = {"lam": 0.02, "gamma": 3.0, "positive": positive, "step_size": step_size}
    solved = solve(Y, decoder, target=target, max_iter=5000, tol=1e-10, **options)
    assert solved.converged.all()
    again = solve(Y, decoder, target=target, init=solved.codes, tol=1e-6, **options)
    assert again.converged.all()
    # a network's rows are looked at from the second iteration on
    assert again.n_iter.max() <= (2 if hidden and step_size == "auto" else 1)
    close(again.codes, to_numpy(solved.codes), 1e-6)


@STEPS
def test_rows_stop_one_by_one(step_size):
    decoder = make_decoder((), 12, 8, seed=1)
    Y = randn(6, 8, seed=0)
    Y[[1, 4]] = 0.0
    found = solve(Y, decoder, lam=0.02, step_size=step_size, tol=1e-4, max_iter=1000)
    assert found.n_iter[[1, 4]].tolist() == [1, 1]
    assert found.n_iter[[0, 2, 3, 5]].min() > 1
    assert found.converged.all()


@SIGNS
@STEPS
def test_rows_of_a_batch_with_hinge_stop_together(positive, step_size):
    Y, init = randn(6, 8, seed=0), randn(6, 5, seed=2)
    found = solve(
        Y,
        make_decoder((), 5, 8, seed=1),
        lam=0.02,
        beta=1.0,
        init=init,
        positive=positive,
        step_size=step_size,
        max_iter=2000,
    )
    assert len(set(found.n_iter.tolist())) == 1
    assert found.converged.all()


@SIGNS
@STEPS
@DECODERS
def test_hinge_of_a_single_row_contributes_nothing(hidden, positive, step_size):
    Y, init = randn(1, 8, seed=0), randn(1, 5, seed=2)
    decoder = make_decoder(hidden, 5, 8, seed=1)
    options = {"lam": 0.02, "init": init, "positive": positive, "step_size": step_size}
    with_hinge, without = (solve(Y, decoder, beta=beta, **options) for beta in (10.0, 0.0))
    assert all(map(torch.equal, with_hinge, without))


def test_hinge_spreads_the_codes():
    Y, init = randn(20, 8, seed=0), randn(20, 5, seed=2) * 0.1
    decoder = make_decoder((), 5, 8, seed=1)
    plain, spread = (
        solve(Y, decoder, lam=0.3, beta=beta, init=init).codes.std(dim=0) for beta in (0.0, 20.0)
    )
    assert plain.min() < 0.1
    assert spread.min() > 0.4


@SIGNS
@STEPS
@pytest.mark.parametrize(("start", "lam"), [("zero", 0.0), ("zero", 0.1), ("random", 0.1)])
def test_zero_data_has_zero_codes(positive, step_size, start, lam):
    Y = torch.zeros(4, 8, dtype=torch.float64, device="cpu")
    init = randn(4, 12, seed=1) if start == "random" else None
    found = solve(
        Y,
        make_decoder((), 12, 8, seed=1),
        lam=lam,
        init=init,
        positive=positive,
        step_size=step_size,
        max_iter=3000,
    )
    assert torch.equal(found.codes, torch.zeros_like(found.codes))
    assert found.converged.all()
    assert found.energy.abs().max() == 0.0


def test_momentum_does_not_carry_signed_codes_past_zero():
    decoder = make_decoder((), 2, 2, seed=0)
    with torch.no_grad():
        decoder.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.1]], device="cpu"))
    init = torch.tensor([[1.0, 1.0], [-1.0, -0.7]], dtype=torch.float64, device="cpu")
    for max_iter in range(1, 31):
        options = {"lam": 0.1, "init": init, "positive": False, "max_iter": max_iter, "tol": 0.0}
        codes = solve(torch.zeros_like(init), decoder, **options).codes
        assert (codes * init >= 0).all()
    assert torch.equal(codes, torch.zeros_like(codes))


@SIGNS
@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_decoder_of_zeros_has_finite_codes(positive, lam):
    Y, init = randn(4, 8, seed=0), randn(4, 5, seed=1)
    decoder = make_decoder((), 5, 8, seed=1, scale=0.0)
    found = solve(Y, decoder, lam=lam, init=init, positive=positive)
    assert found.codes.isfinite().all()
    close(found.energy, naive_energy(Y, decoder, found.codes, lam=lam))
    if lam:
        assert torch.equal(found.codes, torch.zeros_like(found.codes))


def test_strong_proximity_keeps_codes_at_the_target():
    Y, target = randn(4, 8, seed=0), randn(4, 5, seed=1).abs()
    found = solve(Y, make_decoder((), 5, 8, seed=1), lam=0.01, gamma=1e7, target=target, tol=1e-9)
    close(found.codes, to_numpy(target), 1e-5)


@SIGNS
@STEPS
@DECODERS
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_inputs_are_not_written_to(hidden, positive, step_size, beta):
    Y, init, target = randn(4, 8, seed=0), randn(4, 5, seed=1), randn(4, 5, seed=2)
    decoder = make_decoder(hidden, 5, 8, seed=3)
    tensors = [Y, init, target, *(p.detach() for p in decoder.parameters())]
    copies = [tensor.clone() for tensor in tensors]
    for max_iter in (1, 20):
        found = solve(
            Y,
            decoder,
            lam=0.1,
            beta=beta,
            gamma=0.5,
            init=init,
            target=target,
            positive=positive,
            step_size=step_size,
            max_iter=max_iter,
        )
        found.codes.fill_(7.0)
    assert all(map(torch.equal, tensors, copies))
    assert not found.codes.requires_grad


@SIGNS
@DECODERS
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_every_device_and_type_gives_the_same_codes(hidden, positive, device, beta):
    Y, init = randn(5, 8, seed=0), randn(5, 6, seed=1)
    decoder = make_decoder(hidden, 6, 8, seed=2)
    options = {"lam": 0.05, "beta": beta, "gamma": 3.0, "positive": positive, "tol": 1e-5}
    exact = solve(Y, decoder, init=init, target=init, **options)
    for dtype in {torch.float32, device_dtype(device)}:
        start = init.to(device, dtype)
        found = solve(
            Y.to(device, dtype), decoder.to(device, dtype), init=start, target=start, **options
        )
        assert {t.device.type for t in found} == {device}
        assert found.codes.dtype == found.energy.dtype == dtype
        close(found.codes, to_numpy(exact.codes), 1e-3)


@SIGNS
@STEPS
@DECODERS
def test_runs_on_the_tensors_device_whatever_the_default(hidden, positive, step_size):
    Y, decoder = randn(4, 8, seed=0), make_decoder(hidden, 5, 8, seed=1)
    options = {"lam": 0.1, "positive": positive, "step_size": step_size}
    expected = [solve(Y, decoder, beta=beta, **options) for beta in (0.0, 2.0)]
    with torch.device("meta"):
        found = [solve(Y, decoder, beta=beta, **options) for beta in (0.0, 2.0)]
    for one, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, one, other))


def test_divergence_is_not_called_convergence():
    decoder = make_decoder((), 14, 8, seed=0)
    result = solve(randn(5, 8, seed=1), decoder, lam=0.05, step_size=1e3, max_iter=500)
    assert not result.converged.any()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 0.05, 10.0])
def test_gap_bounds_the_distance_from_the_minimum(positive, lam):
    decoder = make_decoder((), 14, 8, seed=0)
    Y = randn(20, 8, seed=1)
    best = solve(Y, decoder, lam=lam, positive=positive, tol=1e-13, max_iter=20_000).energy
    for max_iter in (1, 5, 20, 100):
        found = solve(Y, decoder, lam=lam, positive=positive, tol=0.0, max_iter=max_iter)
        gap = gaps(Y, decoder, found.codes, lam=lam, positive=positive)
        assert ((found.energy - best) / found.energy <= gap + 1e-12).all()
    stopped = solve(Y, decoder, lam=lam, positive=positive, exact=True, tol=1e-7, max_iter=5_000)
    assert stopped.converged.all()
    gap = gaps(Y, decoder, stopped.codes, lam=lam, positive=positive)
    assert (gap <= 1.001e-7).all()
    assert (gap >= -1e-12).all()


def test_gap_equals_a_plain_computation():
    decoder = make_decoder((), 6, 4, seed=0)
    W = decoder.weight.detach().numpy()
    Y, Z = randn(5, 4, seed=1), randn(5, 6, seed=2).abs()
    expected = []
    for y, z in zip(Y.numpy(), Z.numpy(), strict=True):
        residual = y - W @ z
        dual = residual * min(1.0, 0.1 / max(2 / 4 * (W.T @ residual).max(), 1e-300))
        primal = residual @ residual / 4 + 0.1 * z.sum()
        expected.append((primal - (y @ y - (y - dual) @ (y - dual)) / 4) / primal)
    gap = gaps(Y, decoder, Z, lam=0.1)
    np.testing.assert_allclose(gap.numpy(), expected, rtol=1e-9)


def test_without_l1_norm_there_is_no_gap_to_stop_by():
    decoder = make_decoder((), 6, 4, seed=0)
    assert solve(
        randn(5, 4, seed=1), decoder, lam=0.0, exact=True, tol=1e-5, max_iter=5000
    ).converged.all()


@pytest.mark.parametrize("lam", [1e-3, 0.05])
def test_single_precision_codes_reach_a_small_gap(lam, device):
    decoder = make_decoder((), 24, 16, seed=0).to(torch.float32).to(device)
    Y = randn(50, 16, seed=1, dtype=torch.float32).to(device)
    gap_tol = 1e-3 if device == "mps" else 1e-5
    found = solve(Y, decoder, lam=lam, exact=True, tol=gap_tol, max_iter=5000)
    assert found.converged.all()
    assert found.codes.dtype == torch.float32
    assert (gaps(Y, decoder, found.codes, lam=lam) <= gap_tol).all()
