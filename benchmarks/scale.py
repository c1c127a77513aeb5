"""Scale: time and peak memory from the file of a large network to machine code.

    python -m benchmarks.scale [FOLDER] [--accelerator nvdla:config=large] [--partition NAME ...]

A separate process compiles each network for every partition. The table has the number of nodes, CPU
fallbacks, seconds from the file to C files and command streams, peak memory of the process, bytes
to and from main memory, and bytes of streams. FOLDER holds models;
without it, zoo networks are compiled.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import is_onnx, short_name
from penstock import api
from penstock.pipeline.compilation import compile_request
from penstock.scheduling.options import Options

TOPOLOGIES = ("topo_nasnet_large_fp32.onnx.gz", "topo_randwire_like_ws40_seed1_fp32.onnx.gz")
ZOO = ("zoo:resnet8", "zoo:mobilenet_v2")
PARTITIONS = ("layer", "paper", "best", "resident")


@dataclass(frozen=True, slots=True)
class Compiled:
    """Cost and results of a compilation."""

    nodes: int
    left: int
    seconds: tuple[tuple[str, float], ...]
    peak_bytes: int
    cycles: int
    external_bytes: int
    stream_bytes: int


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network and partition."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--accelerator", default="nvdla:config=large", help="NAME[:attr=value,...]")
    parser.add_argument("--partition", action="append", metavar="NAME", help="this one only")
    wanted = parser.parse_args(arguments)
    folder = wanted.folder
    models = ZOO if folder is None else [str(folder / name) for name in TOPOLOGIES]
    headings = ("nodes", "left", "partition", "seconds", "assign", "schedule", "place", "lower",
                "write", "peak MB", "cycles", "external bytes", "stream bytes")  # fmt: skip
    table = Table(title=f"from file to machine code, {wanted.accelerator} beside the host")
    table.add_column("network")
    for heading in headings:
        table.add_column(heading, justify="right")
    for model in models:
        for partition in wanted.partition or PARTITIONS:
            found = compiled_apart(model, wanted.accelerator, partition)
            table.add_row(short_name(model), *cells(found, partition))
    console().print(table)
    return 0


def compiled_apart(model: str, accelerator: str, partition: str) -> Compiled:
    """A network, compiled in another process.  Raises PenstockError."""
    with ProcessPoolExecutor(1, max_tasks_per_child=1) as executor:
        return executor.submit(compiled, model, accelerator, partition).result()


def compiled(model: str, accelerator: str, partition: str) -> Compiled:
    """A network for an accelerator; float networks are compiled with --assume-int8."""
    options = Options(partition=partition)
    request = api.request(
        model,
        "host",
        accelerators=(accelerator,),
        options=options,
        assume_int8=is_onnx(model),
    )
    done = compile_request(request)
    return Compiled(
        len(done.model.nodes),
        len(done.parts.cpu_fallbacks),
        done.seconds,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        done.schedule.cost.cycles,
        done.schedule.external_bytes,
        sum(b.size_bytes for b in done.program.buffers if b.is_stream),
    )


def cells(found: Compiled, partition: str) -> tuple[str, ...]:
    """A row of the table without the network's name."""
    seconds = dict(found.seconds)
    stages = ("assign", "schedule", "place", "lower", "write")
    return (
        *map(shown, (found.nodes, found.left)),
        partition,
        f"{sum(seconds.values()):.1f}",
        *(f"{seconds[stage]:.1f}" for stage in stages),
        *map(shown, (found.peak_bytes >> 20, found.cycles, found.external_bytes)),
        shown(found.stream_bytes),
    )


if __name__ == "__main__":
    entry(main)
