"""Everything that was measured."""

from ..settings import LOW_DATA, is_current
from ..store import Folders


class Results:
    """Records of all experiments, read from the table files.

    Records of models with other settings than today's are left out and counted.
    """

    def __init__(self, folders: Folders):
        self.n_outdated = 0
        self._folders = folders
        self.runs = self._read("runs")
        self.denoising = self._read("denoising")
        self.atoms = self._read("atoms")
        self.low_data = {protocol: self._read(kind) for protocol, kind in LOW_DATA.items()}
        noise = [record for record in self._read("noise") if record["size"] == "full"]
        self.noise = {record["dataset"]: record["psnr"] for record in noise}

    def _read(self, kind: str) -> list[dict]:
        records = list(self._folders.table(kind).read().values())
        current = [record for record in records if is_current(record)]
        self.n_outdated += len(records) - len(current)
        return current

    def datasets(self) -> list[str]:
        """Return the paper's datasets, and digits if something was run on them."""
        return ["mnist", "natural"] + ["digits"] * any(r["dataset"] == "digits" for r in self.runs)


def recipe_of(record: dict) -> str:
    """Return how a model was trained, in a word or two."""
    epochs = record["epochs"]
    label = record["recipe"] + (f", {epochs} epochs" if epochs else "")
    label += f", {record['learning_rate']} rate" if record.get("learning_rate") else ""
    label += ", thorough inference" if record.get("thorough") else ""
    return label + (f", {record['size']}" if record["size"] != "full" else "")


def epochs_of(records: list[dict]) -> str:
    """Return the epochs that were run, and whether training broke off there."""
    epochs = "/".join(map(str, sorted({record["n_iter"] for record in records})))
    return epochs + (", diverged" if any(record["diverged"] for record in records) else "")
