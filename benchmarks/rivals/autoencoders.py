"""TopK and BatchTopK autoencoders, with the usual care against dead latents.

TopK (Gao et al., 2024): ``z = topk(relu(E (x - b) + e))``, ``x_hat = z D + b``, atoms of norm 1.
BatchTopK (Bussmann et al., 2024): the largest ``n * k`` latents of a batch of n rows in training,
a fixed threshold afterwards.
"""

import math
from time import perf_counter

import numpy as np
import torch

from .methods import Fitted, best

BATCH = 250
# A latent is dead if it was not active in this many batches. The residual is then reconstructed
# from dead latents too, with the weight of the papers.
DEAD_AFTER, AUXILIARY_WEIGHT = 20, 1 / 32
# A budget is good enough if it is this near to the best one, in dB.
NEAR = 0.3
CALIBRATION_ROWS = 20_000


def keep_top_k(latents, k):
    """Return the k largest latents of each row, and zero for the others."""
    values, indices = latents.topk(k, dim=1, sorted=False)
    return torch.zeros_like(latents).scatter(1, indices, values)


def keep_batch_top_k(latents, k):
    """Return the ``n * k`` largest latents of all n rows together, and zero for the others."""
    return keep_top_k(latents.reshape(1, -1), k * len(latents)).reshape(latents.shape)


class Autoencoder(torch.nn.Module):
    """A linear decoder with rows of norm 1, and an encoder that starts as its transpose.

    The decoder's bias starts at the mean of the data, which is zero.
    """

    def __init__(self, n_components, n_features, k, over_batch, generator):
        super().__init__()
        atoms = torch.randn(n_components, n_features, generator=generator)
        atoms /= atoms.norm(dim=1, keepdim=True)
        self.decoder = torch.nn.Parameter(atoms)
        self.encoder = torch.nn.Parameter(atoms.clone())
        self.encoder_bias = torch.nn.Parameter(torch.zeros(n_components))
        self.bias = torch.nn.Parameter(torch.zeros(n_features))
        self.k = k
        self.over_batch = over_batch
        self.threshold = None

    def latents(self, X):
        return torch.nn.functional.linear(X - self.bias, self.encoder, self.encoder_bias).relu()

    def keep(self, latents):
        """Return the codes: the largest latents, or those above the learnt threshold."""
        if self.threshold is not None:
            return latents * (latents > self.threshold)
        return (keep_batch_top_k if self.over_batch else keep_top_k)(latents, self.k)

    @torch.no_grad()
    def learn_threshold(self, X):
        """Set the threshold above which training rows have k active latents on average."""
        latents = self.latents(X).flatten()
        self.threshold = latents.topk(self.k * len(X) + 1, sorted=True).values[-1]

    @torch.no_grad()
    def encode(self, X):
        return self.keep(self.latents(torch.from_numpy(X))).numpy()

    @torch.no_grad()
    def decode(self, codes):
        return (torch.from_numpy(codes) @ self.decoder + self.bias).numpy()


def fit_autoencoder(X, n_components, k, over_batch, learning_rate, epochs, seed):
    """Train with Adam and a cosine schedule."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.from_numpy(X)
    model = Autoencoder(n_components, X.shape[1], k, over_batch, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    n_steps, step = epochs * math.ceil(len(X) / BATCH), 0
    idle = torch.zeros(n_components, dtype=torch.int64)
    for _ in range(epochs):
        for rows in torch.randperm(len(X), generator=generator).split(BATCH):
            batch = X[rows]
            latents = model.latents(batch)
            codes = model.keep(latents)
            residual = batch - torch.addmm(model.bias, codes, model.decoder)
            loss = residual.square().mean()
            idle = torch.where((codes > 0).any(dim=0), 0, idle + 1)
            dead = idle > DEAD_AFTER
            if dead.any():
                loss = loss + AUXILIARY_WEIGHT * _auxiliary_loss(
                    model, batch, residual.detach(), dead
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.param_groups[0]["lr"] = (
                learning_rate * (1 + math.cos(math.pi * step / n_steps)) / 2
            )
            step += 1
            with torch.no_grad():
                # Changes of the norms would only be undone.
                gradient, atoms = model.decoder.grad, model.decoder
                gradient -= (gradient * atoms).sum(dim=1, keepdim=True) * atoms
            optimizer.step()
            with torch.no_grad():
                model.decoder /= model.decoder.norm(dim=1, keepdim=True).clamp_min(1e-12)
    if over_batch:
        model.learn_threshold(X[:CALIBRATION_ROWS])
    return model


def _auxiliary_loss(model, batch, residual, dead):
    """Let the dead latents reconstruct what the others leave, relative to its variance.

    Their values before the relu are used: a latent that is negative everywhere must get a
    gradient, too.
    """
    latents = torch.nn.functional.linear(
        batch - model.bias, model.encoder[dead], model.encoder_bias[dead]
    )
    n_dead = latents.shape[1]
    codes = keep_top_k(latents, min(n_dead, max(1, len(model.decoder) // 2)))
    error = residual - codes @ model.decoder[dead]
    return error.square().mean() / residual.square().mean().clamp_min(1e-12)


class TopK:
    """Choose learning rate and epochs anew at each level, because k is part of the training."""

    entries = ("topk",)
    over_batch = False

    def __init__(self, data, seed):
        self.data = data
        self.seed = seed

    def solve(self, level):
        effort = self.data.effort
        candidates = [
            self._candidate(level, learning_rate, epochs)
            for learning_rate in effort.learning_rates
            for epochs in effort.epochs
        ]
        chosen = best(candidates)
        near = [c for c in candidates if c.settings["val_db"] >= chosen.settings["val_db"] - NEAR]
        quickest = min(near, key=lambda c: c.fit_seconds)
        chosen.settings["quickest_near_best"] = {
            **quickest.settings,
            "fit_seconds": quickest.fit_seconds,
        }
        return {self.entries[0]: chosen}

    def _candidate(self, level, learning_rate, epochs):
        data = self.data
        k = max(1, round((1 - level) * data.n_components))
        start = perf_counter()
        model = fit_autoencoder(
            data.train, data.n_components, k, self.over_batch, learning_rate, epochs, self.seed
        )
        return Fitted(
            encode=model.encode,
            decode=model.decode,
            fit_seconds=perf_counter() - start,
            settings={"k": k, "learning_rate": learning_rate, "epochs": epochs},
            atoms=np.asarray(model.decoder.detach()),
        ).validate(data.val)


class BatchTopK(TopK):
    """The same with the largest latents of a whole batch."""

    entries = ("batch-topk",)
    over_batch = True
