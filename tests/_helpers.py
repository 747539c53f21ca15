"""Random problems and slow, plain formulas to check the engine against."""

import numpy as np
import torch

from skvdl import VarianceDictionaryLearning
from skvdl.energy import EnergySettings, Problem
from skvdl.estimators._devices import available_devices
from skvdl.models import LinearDecoder, NetworkDecoder
from skvdl.solvers import SolverSettings, choose_solver, relative_gaps
from skvdl.training import TrainingSettings

DEVICES = available_devices()

# Parameters of the estimators as published: the l1 norm, Adam, inference until convergence, data as
# they come, and codes straight from the encoder.
AS_PUBLISHED = {
    "lam": 0.005,
    "regularizer": "variance",
    "beta": 10.0,
    "debias": False,
    "center": False,
    "scale": False,
    "inference_max_iter": 200,
    "transform_method": "encoder",
    "learning_rate_init": 3e-3,
}
# What is different for a dictionary.
LINEAR_AS_PUBLISHED = AS_PUBLISHED | {
    "penalty": "l1",
    "gamma": 5.0,
    "learning_rate_init": 5e-3,
    "transform_tol": 1e-5,
}

# One linear decoder and two networks: the sizes of the hidden layers.
LINEAR_AND_MLP = [(), (7,), (7, 6)]


def as_published(kind):
    """Return the parameters with which an estimator learns as published."""
    return LINEAR_AS_PUBLISHED if issubclass(kind, VarianceDictionaryLearning) else AS_PUBLISHED


def seeded(seed):
    """Return a generator of our own; the global one is left alone."""
    return torch.Generator(device="cpu").manual_seed(seed)


def randn(*shape, seed, dtype=torch.float64):
    """Return normal numbers from a generator of their own."""
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype, device="cpu")


def device_dtype(device):
    """Return the widest type a device computes in."""
    return torch.float32 if device == "mps" else torch.float64


def make_decoder(hidden, n_components, n_features, *, seed, scale=1.0, dtype=torch.float64):
    """Return a random decoder whose matrices are `scale` times as large as usual."""
    how = {"generator": seeded(seed), "dtype": dtype}
    if hidden:
        decoder = NetworkDecoder(n_components, hidden, n_features, **how)
    else:
        decoder = LinearDecoder(n_components, n_features, **how)
    with torch.no_grad():
        for weight in decoder.matrices:
            weight.mul_(scale)
    return decoder


def make_problem(
    Y,
    decoder,
    *,
    lam,
    beta=0.0,
    gamma=0.0,
    variance_threshold=0.5,
    target=None,
    positive=True,
    seen=None,
    n_evaluations=50,
):
    """Return the problem of a batch; `beta` is the weight of the hinge in this very batch."""
    settings = EnergySettings(
        lam=lam,
        positive=positive,
        beta=beta * 250 / len(Y),
        variance_threshold=variance_threshold,
        gamma=gamma,
    )
    term = decoder.data_term(Y, seen=seen, n_evaluations=n_evaluations)
    return Problem(term, settings, target)


def solve(
    Y, decoder, *, init=None, step_size="auto", max_iter=200, tol=1e-3, exact=False, **energy
):
    """Find codes with the solver that suits the problem."""
    settings = SolverSettings(step_size=step_size, tol=tol, max_iter=max_iter, exact=exact)
    problem = make_problem(Y, decoder, **energy)
    return choose_solver(problem, settings).solve(problem, init)


def gaps(Y, decoder, codes, *, lam, positive=True):
    """Relative duality gap of each row's codes."""
    return relative_gaps(decoder, Y, codes, EnergySettings(lam=lam, positive=positive))


def training_settings(**changes):
    """Return settings of a short training, with changes."""
    settings = {
        "batch_size": 250,
        "max_iter": 20,
        "learning_rate": "cosine",
        "learning_rate_init": 3e-3,
        "encoder_learning_rate_init": 1e-3,
        "unit_norm": False,
        "weight_decay": 0.0,
        "bias_decay": (0.0, 0.0),
        "judge_every": 1,
        "n_iter_no_change": None,
        "tol": 1e-4,
        "revive_dead": False,
        "look_for_nan": False,
    }
    return TrainingSettings(**settings | changes)


def to_numpy(tensor):
    """Return a float64 array, whatever the tensor is attached to."""
    return tensor.detach().cpu().double().numpy()


def naive_decode(decoder, z):
    """Reconstruct one sample from one code, layer by layer."""
    for weight, bias in zip(decoder.matrices, decoder.biases, strict=False):
        z = np.maximum(to_numpy(weight) @ z + to_numpy(bias), 0.0)
    return to_numpy(decoder.matrices[-1]) @ z


def naive_hinge(Z, threshold):
    """Hinge summed over components, one column at a time; nothing for a single row."""
    if len(Z) < 2:
        return 0.0
    return sum(max(threshold - np.std(column, ddof=1), 0.0) ** 2 for column in Z.T)


def naive_energy(Y, decoder, Z, *, lam, beta=0.0, gamma=0.0, threshold=0.5, target=None):
    """Energy of each row; the hinge, which belongs to the batch, shared out equally."""
    Y, Z = to_numpy(Y), to_numpy(Z)
    share = beta * naive_hinge(Z, threshold) / len(Y)
    rows = []
    for i, (y, z) in enumerate(zip(Y, Z, strict=True)):
        energy = np.sum((y - naive_decode(decoder, z)) ** 2) / len(y) + lam * np.abs(z).sum()
        if gamma:
            energy += gamma * np.sum((z - to_numpy(target)[i]) ** 2) / len(z)
        rows.append(energy + share)
    return np.array(rows)


def plain_smooth(Y, decoder, Z, *, ridge=0.0, centre=None, tilt=0.0):
    """Smooth part of the energy of each row, written plainly for autograd."""
    value = ((Y - decoder(Z)) ** 2).sum(dim=1) / Y.shape[1]
    offset = Z if centre is None else Z - centre
    return value + ridge / 2 * (offset**2).sum(dim=1) + tilt * Z.sum(dim=1)


def autograd(function, Z):
    """Gradient of the sum of a function, by autograd."""
    Z = Z.detach().clone().requires_grad_()
    return torch.autograd.grad(function(Z).sum(), Z)[0]


def central_differences(function, Z, width=1e-6):
    """Gradient of the sum of a function, one entry at a time."""
    grad = torch.zeros_like(Z)
    for index in np.ndindex(*Z.shape):
        up, down = Z.clone(), Z.clone()
        up[index] += width
        down[index] -= width
        grad[index] = (function(up).sum() - function(down).sum()) / (2 * width)
    return grad


def same_state(one, other):
    """Whether two nested states are equal to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_state, one, other))
    return one == other
