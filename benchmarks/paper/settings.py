"""Which models and experiments there are: what the runs and their analysis must agree on."""

import json
from dataclasses import dataclass, fields

from skvdl import paper

DATASETS = ("mnist", "natural", "digits")
SIZES = ("full", "toy")

# Standard deviations of the noise in the denoising experiment.
SIGMAS = (1.0, 1.5)

# The ablation: lam, and what each kind of system has against collapse.
ABLATION_LAM = 0.005
GUARDS = {"unguarded": "nothing", "SDL": "unit norm", "VDL": "variance", "WDL": "weight decay"}
ABLATION_SYSTEMS = tuple(kind + suffix for suffix in ("", "-NL") for kind in GUARDS)

# Classification with few labels: protocols, their tables, features, numbers of labels per class.
PROTOCOLS = ("paper", "strict")
LOW_DATA = {protocol: f"low_data_{protocol}" for protocol in PROTOCOLS}
RAW, SCRATCH = "raw pixels", "LISTA + linear"
FEATURES = (RAW, SCRATCH, *paper.SYSTEMS)
LABELS = (1, 2, 5, 10, 20, 50, 100, "all")
# Inverse strength of the probes' l2 penalty where there is nothing to choose it by.
FIXED_PENALTY = 1.0

# Digits have a tenth of MNIST's pixels; toy size is for tests.
_DIGITS = {"n_components": 64, "hidden_layer_sizes": (256,)}
_TOY = {"n_components": 16, "hidden_layer_sizes": (24,), "max_iter": 4, "batch_size": 50}
# Inference of a network close to its minimum; what it shows, it shows in few epochs.
_THOROUGH = {"inference_max_iter": 40, "max_iter": 5}
# What can change without another model being learnt.
_HARMLESS = ("device", "verbose", "validation_fraction")


@dataclass(frozen=True)
class Run:
    """One model to train: everything that its result depends on."""

    system: str
    dataset: str
    lam: float
    seed: int
    recipe: str = "fast"
    epochs: int | None = None
    size: str = "full"
    learning_rate: str | None = None
    thorough: bool = False

    @classmethod
    def of(cls, record: dict) -> "Run":
        """Return the run that a record is about."""
        return cls(**{f.name: record.get(f.name, f.default) for f in fields(cls)})

    @property
    def name(self) -> str:
        """Name of its records, model and pictures."""
        parts = [self.dataset, self.system, f"lam{self.lam:g}", f"seed{self.seed}", self.recipe]
        if self.epochs is not None:
            parts.append(f"epochs{self.epochs}")
        if self.learning_rate is not None:
            parts.append(self.learning_rate)
        if self.thorough:
            parts.append("thorough")
        if self.size != "full":
            parts.append(self.size)
        return "_".join(parts)

    def make(self):
        """Return the estimator, not fitted."""
        model = paper.make(
            self.system,
            dataset=published_settings(self.dataset),
            lam=self.lam,
            recipe=self.recipe,
            random_state=self.seed,
        )
        published = model.get_params()
        changes = dict(_THOROUGH) if self.thorough else {}
        if self.dataset == "digits":
            changes |= _DIGITS
        if self.size == "toy":
            changes |= _TOY
        if self.epochs is not None:
            changes["max_iter"] = self.epochs
        if self.learning_rate is not None:
            changes["learning_rate"] = self.learning_rate
        model.set_params(**{name: v for name, v in changes.items() if name in published})
        # the energy has gamma / n_components, which the published step is chosen for
        share = model.n_components / published["n_components"]
        return model.set_params(gamma=model.gamma * share)


def published_settings(dataset: str) -> str:
    """Return the name of the data whose published settings are used for a dataset."""
    return "mnist" if dataset == "digits" else dataset


def published_lams(system: str, dataset: str) -> tuple[float, ...]:
    """Return the published weights of the l1 norm for a system, ascending."""
    return paper.lams(system, published_settings(dataset))


def middle_lam(system: str, dataset: str) -> float:
    """Return the published lam in the middle, for choices made without looking at results."""
    lams = published_lams(system, dataset)
    return lams[len(lams) // 2]


def parameters(model) -> dict:
    """Return the parameters that decide what an estimator learns, as JSON gives them back."""
    chosen = {k: v for k, v in model.get_params().items() if k not in _HARMLESS}
    return json.loads(json.dumps(chosen))


# Values in older records that today's settings spell out or have no name for. "auto" took as many
# epochs as the fast recipe has now; what "adaptive" did is part of the automatic step.
_FORMERLY = {"max_iter": "auto", "step_size": "adaptive"}


def agree(recorded: dict, present: dict) -> bool:
    """Return whether parameters are the same, as far as both have them."""
    return all(
        value == present.get(name, value) or (name in _FORMERLY and value == _FORMERLY[name])
        for name, value in recorded.items()
    )


def is_current(record: dict) -> bool:
    """Return whether a record is of a model with the settings that its run would have today.

    Baselines have no model, hence no parameters, and are always current.
    """
    return "parameters" not in record or agree(
        record["parameters"], parameters(Run.of(record).make())
    )
