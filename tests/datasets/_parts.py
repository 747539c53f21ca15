"""The three parts of a data set."""

PARTS = ("train", "val", "test")


def part(dataset, name):
    """Images and labels of a part."""
    return getattr(dataset, f"X_{name}"), getattr(dataset, f"y_{name}")
