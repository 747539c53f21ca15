"""Many rows on several processes: throughput, memory of the workers, and what messages cost.

    python -m benchmarks.bench_cluster rows 1000000 [folder [tasks [workers]]]
    python -m benchmarks.bench_cluster messages

The first command writes float32 rows with 64 features to parquet files, unless the folder has
them, and reads them through Dask with one worker and with two: a transform with the encoder, and
an epoch of `fit` with a dictionary of 64 atoms. The second one measures a step of training in one
process and in two, and what a message costs, and works out from that at which batch size more
processes pay.
"""

import json
import math
import socket
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from skvdl import VDL, VDLNL
from skvdl.distributed import Processes, Rows, Shard
from skvdl.training import run_epoch

from .common import RESULTS, machine, print_table

D, COMPONENTS = 64, 64
TASKS = ("transform", "epoch 2000", "epoch 16000")
FILE = RESULTS / "bench_cluster.json"
ROWS_PER_FILE = 50_000
# What training costs is measured with these batch sizes.
BATCHES = (250, 1000, 4000, 16_000)
# Networks of the model: seconds per message of a round, bytes per second.
NETWORKS = {"10 Gbit Ethernet": (3e-5, 1.2e9), "NVLink or InfiniBand": (5e-6, 2e10)}
MODELS = {
    "linear": VDL(COMPONENTS, lam=0.1, debias=False, random_state=0),
    "linear, hinge": VDL(COMPONENTS, lam=0.02, penalty="l1", regularizer="variance", debias=False),
    "network, hinge": VDLNL(COMPONENTS, hidden_layer_sizes=256, lam=0.02, debias=False),
}


def keep(name, found):
    """Add results to the file, next to those of other commands."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known |= {name: found, "machine": machine()}
    FILE.write_text(json.dumps(known, indent=1) + "\n")


def some_rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(32, D)).astype(np.float32)
    codes = rng.exponential(size=(n_rows, 32)).astype(np.float32)
    return (codes * (rng.random((n_rows, 32)) < 0.1)) @ mixing


def write_rows(folder, n_rows):
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    names = [f"f{i}" for i in range(D)]
    for number in range(n_rows // ROWS_PER_FILE):
        path = folder / f"{number:05d}.parquet"
        if not path.exists():
            rows = some_rows(ROWS_PER_FILE, number + 1)
            pd.DataFrame(rows, columns=names).to_parquet(path, compression=None)


def peak_memory():
    """Most memory that this process has used, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def run_rows(n_rows, folder, tasks=TASKS, workers=(1, 2)):
    import dask.dataframe as dd
    import distributed

    write_rows(folder, n_rows)
    model = VDL(COMPONENTS, lam=0.1, transform_method="encoder", debias=False, random_state=0)
    model.set_params(max_iter=2).fit(some_rows(20_000, 0))
    learner = VDL(COMPONENTS, lam=0.1, init="data", max_iter=1, debias=False, random_state=0)
    found = []
    for task, n_workers in product(tasks, workers):
        how = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
        # workers of their own, so that the most memory is that of this task
        with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
            X = dd.read_parquet(folder).to_dask_array()
            kind, _, batch_size = task.partition(" ")
            # what is imported or compiled for the first time
            if kind == "epoch":
                learner.set_params(batch_size=int(batch_size)).fit(X.blocks[:2])
            else:
                model.transform(X.blocks[:2]).compute()
            idle, start = max(client.run(peak_memory).values()), perf_counter()
            if kind == "epoch":
                X = client.persist(X)
                distributed.wait(X)
                load = perf_counter() - start
                learner.fit(X)
            else:
                load = 0.0
                assert (model.transform(X) == 0).sum().compute()
            seconds = perf_counter() - start
            peak = max(client.run(peak_memory).values())
        found.append((task, n_workers, round(seconds, 1), round(load, 1), round(peak - idle)))
        print(found[-1], flush=True)
    columns = ("task", "workers", "seconds", "of which reading", "MB of a worker for the task")
    print_table(columns, found)
    for task in tasks:
        one, two = ([row[2] for row in found if row[:2] == (task, n)] for n in (1, 2))
        if one and two:
            print(f"{task}: two workers are {one[0] / two[0]:.2f} times as fast as one")
    keep(f"{n_rows} rows", [dict(zip(columns, row, strict=True)) for row in found])


def make_learner(name, batch_size, rows):
    """Learner of an estimator that has been started on the same rows everywhere."""
    torch.manual_seed(0)
    model = MODELS[name].set_params(batch_size=batch_size, max_iter=1, random_state=0)
    if isinstance(model, VDL):
        model.set_params(init="data")
    return model.fit(rows[:4000])._learner


def time_steps(name, batch_size, rows, data):
    """Seconds per step, after some steps to warm up."""
    learner = make_learner(name, batch_size, rows)
    n_steps = max(4, min(40, 40_000 // batch_size))
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(rows), generator=generator)
    order = order.repeat(-(-n_steps * batch_size // len(rows)))[: n_steps * batch_size]
    run_epoch(learner, data, order=order[: 2 * batch_size])
    group = data.group
    before = (group.n_messages, group.n_bytes) if group.size > 1 else (0, 0)
    start = perf_counter()
    run_epoch(learner, data, order=order)
    seconds = (perf_counter() - start) / n_steps
    if group.size == 1:
        return seconds, 0, 0
    messages, sent = group.n_messages - before[0], group.n_bytes - before[1]
    return seconds, messages / n_steps, sent / n_steps


def time_message(group, n_numbers):
    message = torch.zeros(n_numbers)
    for _ in range(20):
        group.sum(message)
    start = perf_counter()
    for _ in range(200):
        group.sum(message)
    return (perf_counter() - start) / 200


def take_part(rank, port):
    """What each of the two processes does; the first prints what it found."""
    torch.set_num_threads(1)
    rows = some_rows(32_000, 1)
    alone = {}
    if rank == 0:
        whole = Rows(torch.from_numpy(rows))
        for name in MODELS:
            alone[name] = {n: time_steps(name, n, rows, whole)[0] for n in BATCHES}
    group = Processes.meet("127.0.0.1", port, rank, 2)
    group.exchange(None)
    small, large = time_message(group, 100), time_message(group, 2**20)
    found = {
        "seconds per message": small,
        "bytes per second": 2**22 / (large - small),
        "alone": alone,
        "together": {},
    }
    shard = Shard([torch.from_numpy(rows[rank::2])], group)
    for name in MODELS:
        found["together"][name] = {n: time_steps(name, n, rows, shard) for n in BATCHES}
    if rank == 0:
        print(json.dumps(found))


def step_time(alone, n_rows, size, messages, sent, latency, bandwidth):
    """Model: work divided by processes; a message takes a round trip of a tree, and its bytes."""
    if size == 1:
        return alone(n_rows)
    rounds = 2 * math.ceil(math.log2(size))
    return alone(n_rows / size) + messages * rounds * latency + 2 * sent / bandwidth


def run_messages():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.bench_cluster", "rank"]
    started = [
        subprocess.Popen([*command, str(rank), str(port)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    found = json.loads(started[0].communicate()[0])
    started[1].communicate()
    # a round trip between two is a message of this machine
    here = found["seconds per message"] / 2, found["bytes per second"]
    rows, pays = [], []
    for name in MODELS:
        times = found["alone"][name]
        sizes = np.array(BATCHES, dtype=float)
        slope, base = np.polyfit(sizes, [times[str(n)] for n in BATCHES], 1, w=1 / sizes)
        alone = lambda n, base=base, slope=slope: max(base, 0.0) + slope * n  # noqa: E731
        for n in BATCHES:
            seconds, messages, sent = found["together"][name][str(n)]
            predicted = step_time(alone, n, 2, messages, sent, *here)
            ratio = times[str(n)] / seconds
            rows.append((name, n, messages, sent / 1e3, ratio, times[str(n)] / predicted))
        for network, (latency, bandwidth) in NETWORKS.items():
            for size in (2, 16, 128):
                cost = messages, sent, latency, bandwidth
                least = {
                    share: next(
                        (
                            2**i
                            for i in range(6, 30)
                            if alone(2**i) / step_time(alone, 2**i, size, *cost)
                            >= 1 + share * (size - 1)
                        ),
                        None,
                    )
                    for share in (0.0, 0.5)
                }
                pays.append((name, network, size, least[0.0], least[0.5]))
    columns = ("model", "batch", "messages", "kB", "two over one", "model says")
    print_table(columns, [(*row[:2], *(round(v, 2) for v in row[2:])) for row in rows])
    print_table(("model", "network", "processes", "pays from", "half of the ideal from"), pays)
    keep("messages", found | {"two over one": rows, "pays from": pays})


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "rank":
        take_part(*map(int, arguments))
    elif command == "messages":
        run_messages()
    else:
        n_rows = int(arguments[0])
        chosen = [part.split(",") for part in arguments[2:]]
        tasks = chosen[0] if chosen else TASKS
        workers = [int(n) for n in chosen[1]] if len(chosen) > 1 else (1, 2)
        with tempfile.TemporaryDirectory() as folder:
            run_rows(n_rows, Path([*arguments[1:2], folder][0]), tasks, workers)
