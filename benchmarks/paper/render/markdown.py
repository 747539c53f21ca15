"""Lines of Markdown."""

import os
from pathlib import Path

from ..analyse.tables import TextTable


def table(content: TextTable) -> list[str]:
    """Return the lines of a table, without columns that are empty in every row."""
    header, rows = content.header, content.rows
    keep = [i for i in range(len(header)) if not rows or any(row[i] != "" for row in rows)]
    lines = [[str(row[i]) for i in keep] for row in [header, ["---"] * len(header), *rows]]
    return ["| " + " | ".join(cells) + " |" for cells in lines] + [""]


def picture(path: Path, page: Path, text: str) -> list[str]:
    """Return the lines that show a figure on a page."""
    link = os.path.relpath(path, page.parent).replace(os.sep, "/")
    return [f"![{text}]({link})", ""]
