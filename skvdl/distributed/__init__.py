"""One training in several processes, each of which has some of the rows.

A `Group` adds up tensors over processes, `Rows` are the data as training sees them, and a `Share`
says what one process has of a batch. With a single process nothing is sent and nothing is copied.
"""

from ._group import ALONE, Group, OtherProcessError, Processes
from ._rows import Rows, Shard, Share
from ._stream import Stream

__all__ = ["ALONE", "Group", "OtherProcessError", "Processes", "Rows", "Shard", "Share", "Stream"]
