"""What `import skvdl` costs on top of torch and scikit-learn.

python -m benchmarks.bench_import
"""

import subprocess
import sys

from .common import print_table, save, time_side_by_side


def start(statement):
    return lambda: subprocess.run([sys.executable, "-c", statement], check=True)


def main():
    seconds = time_side_by_side(
        {
            "import torch, sklearn.decomposition": start("import torch, sklearn.decomposition"),
            "import skvdl": start("import skvdl"),
        },
        repeats=9,
    )
    ratio = seconds["import skvdl"] / seconds["import torch, sklearn.decomposition"]
    print_table(("", "s"), [*seconds.items(), ("ratio", ratio)])
    save("bench_import", seconds=seconds, ratio=ratio)


if __name__ == "__main__":
    main()
