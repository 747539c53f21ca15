"""The recipes of the page "Scaling out"."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.rst").read_text()


def recipe(name):
    """The block of code with this caption."""
    block = re.search(rf":caption: {name}\n\n((?:    .*\n|\n)+)", PAGE).group(1)
    return "\n".join(line[4:] for line in block.splitlines())
