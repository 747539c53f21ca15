"""What the command line asks for."""

from dataclasses import dataclass, field

from skvdl import paper

from ..settings import LABELS, Run, published_lams, published_settings
from ..store import Folders
from ..targets import reported

# Systems whose trade-off the paper shows.
SYSTEMS = {"mnist": paper.SYSTEMS, "natural": ("SDL", "SDL-NL", "VDL", "VDL-NL")}


@dataclass(frozen=True)
class Plan:
    """Options of an experiment; each experiment decides what None means."""

    dataset: str = "mnist"
    systems: tuple[str, ...] | None = None
    lams: tuple[float, ...] | str | None = None
    seeds: int = 1
    recipe: str = "fast"
    epochs: int | None = None
    size: str = "full"
    jobs: int = 1
    labels: tuple[int | str, ...] = LABELS
    folders: Folders = field(default_factory=Folders)

    def systems_or_default(self) -> tuple[str, ...]:
        """Return the systems asked for, or those that the paper trains on these data."""
        return self.systems or SYSTEMS[published_settings(self.dataset)]

    def lams_of(self, system: str) -> tuple[float, ...]:
        """Return the weights of the l1 norm asked for, by default all published ones.

        On natural patches, where each takes long, the default is those with figures in the paper.
        """
        lams = self.lams or ("reported" if self.dataset == "natural" else "all")
        if isinstance(lams, tuple):
            return lams
        rows = reported("trade_off", published_settings(self.dataset), system)
        if lams == "reported" and rows:
            return tuple(row["lam"] for row in rows)
        return published_lams(system, self.dataset)

    def runs(self, points: list[tuple[str, float]] | None = None) -> list[Run]:
        """Return all runs of pairs of a system and a lam, seed by seed.

        The first seed of everything comes before the second of anything.
        """
        if points is None:
            systems = self.systems_or_default()
            points = [(system, lam) for system in systems for lam in self.lams_of(system)]
        return [
            Run(system, self.dataset, lam, seed, self.recipe, self.epochs, self.size)
            for seed in range(self.seeds)
            for system, lam in points
        ]
