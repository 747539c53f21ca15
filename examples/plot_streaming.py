"""
Learn from a stream
===================

Data that do not fit into memory, or do not exist yet, come in pieces. ``partial_fit`` learns from
one piece after the other. Pieces may differ in size, and the model can be used at any time.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skvdl import VDL
from skvdl.plotting import AtomsDisplay

# %%
# A stream
# --------
# Patches come from random places of a photograph at half its resolution, 250 at a time. A generator
# stands in for a camera, a file or a queue.

photograph = load_sample_image("china.jpg")[:426].astype(np.float32) / 255
photograph = photograph.reshape(213, 2, 320, 2, 3).mean(axis=(1, 3))
every_patch = np.lib.stride_tricks.sliding_window_view(photograph, (8, 8, 3))[:, :, 0]


def stream(first, last, seed):
    """Yield patches from some columns, without their mean, forever."""
    rng = np.random.default_rng(seed)
    while True:
        tops, lefts = rng.integers(len(every_patch), size=250), rng.integers(first, last, size=250)
        rows = every_patch[tops, lefts].reshape(250, -1)
        yield rows - rows.mean(axis=1, keepdims=True)


# %%
# Learn
# -----
# Each piece is used once. At some moments the model is judged by patches of the right quarter of
# the photograph, which the stream leaves out, and a copy of its atoms is kept.

held_out = next(stream(240, 313, seed=1))
moments = [1, 4, 16, 64, 256, 640]
vdl = VDL(64, random_state=0)
explained, atoms = [], []
for n_pieces, piece in enumerate(stream(0, 232, seed=0), start=1):
    vdl.partial_fit(piece)
    if n_pieces in moments:
        explained.append(vdl.score(held_out))
        atoms.append(vdl.components_)
    if n_pieces == moments[-1]:
        break
print(
    f"variance explained: {explained[0]:.0%} after the first piece, {explained[-1]:.0%} after 640"
)

# %%
# What it has learnt, and when
# ----------------------------
# Atoms start as patches of the first piece. The grid shows eight of them, each in its own column,
# at the same moments as in the curve.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.plot(250 * np.array(moments), explained, "o-", color="#0072B2")
left.set(xscale="log", xlabel="patches seen", ylabel="variance explained, right quarter")
left.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
left.grid(color="0.9")
left.spines[["top", "right"]].set_visible(False)
chosen = np.argsort(-np.linalg.norm(atoms[-1], axis=1))[:8]
shown = np.concatenate([moment[chosen] for moment in atoms])
AtomsDisplay(shown, (8, 8, 3), usage=-np.arange(len(shown))).plot(right)
right.set_title("eight atoms, from the first piece to the last", loc="left", fontsize="medium")
plt.show()

# %%
# All atoms at the end: the sky and other colours, edges, and the pattern of the palace.

AtomsDisplay.from_estimator(vdl, image_shape=(8, 8, 3), X=held_out)
plt.show()
