"""Partition: costs of groupings by strategy, on random graphs and real networks.

    python -m benchmarks.partition [FOLDER] [--network NAME] [--seeds COUNT]

The cost is abstract: bytes to and from external memory.  A group reads each tensor
from outside once, and writes what is wanted outside once; its weights and its whole live tensors
must each fit into the buffer of an NVDLA: `small`, 128 KiB, or `large`, 512 KiB; a single layer may
take more.  FOLDER holds models of others; without it, networks of the zoo are grouped.  The costs
of compiled networks are those of `benchmarks.compiled_partition`.

Beside the cost of every strategy: by how many per cent `best` costs less than it; the same over
dynamic programming along each order alone; the certificate; seconds of `best`.  Exits with 1 where
`best` costs more than another strategy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.compared import Compared, compare, costs, gains
from benchmarks.entry import console, entry, first_line
from benchmarks.graph_groups import network_problem, short_name
from benchmarks.random_graphs import FAMILIES, random_problem
from benchmarks.traffic import GroupLimits, Traffic, weight_bytes
from penstock.errors import PenstockError
from penstock.scheduling.grouping.problem import GroupingProblem

ZOO = ("zoo:resnet8", "zoo:mobilenet_v1", "zoo:mobilenet_v2", "zoo:vgg16")
CONFIGURATIONS = {"small": 128 << 10, "large": 512 << 10}
LARGE_NODES = 1100
"""Of the random graphs on which the time is measured."""
Found = TypeVar("Found")


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; 1 where `best` is worse than anything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partition", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--seeds", type=int, default=10, metavar="COUNT", help="of each family")
    wanted = parser.parse_args(arguments)
    return _code(_traffic(wanted.folder, wanted.network, wanted.seeds))


def _code(every: Sequence[Compared]) -> int:
    return 1 if not every or any(c.worse for c in every) else 0


def _traffic(folder: Path | None, only: Sequence[str] | None, seeds: int) -> list[Compared]:
    """Prints the tables of bytes moved."""
    random = {} if only else dict(_families(seeds))
    large = [] if only else list(_large())
    models = ZOO if folder is None else sorted(map(str, folder.glob("*.tflite*")))
    networks = list(_each(models, only, _network))
    if random:
        console().print(gains("random graphs: mean gain of best", random))
    for title, some in (("large random graphs", large), ("networks", networks)):
        if some:
            console().print(costs(f"{title}: bytes moved", some))
            console().print(gains(f"{title}: gain of best", {c.name: [c] for c in some}))
    return [c for some in (*random.values(), large, networks) for c in some]


def _families(seeds: int) -> Iterator[tuple[str, list[Compared]]]:
    """Graphs of 12 to 40 nodes, weights or buffer limited."""
    for family in FAMILIES:
        for kind in ("weights", "buffer"):
            some: list[Compared] = []
            for seed in range(seeds):
                problem = random_problem(family, seed, 12 + 7 * seed % 29)
                cost = Traffic(problem, _limits(problem, kind, 5))
                some.append(compare(f"{family} {seed}", cost))
            yield f"{family}, {kind}", some


def _large() -> Iterator[Compared]:
    for family in FAMILIES:
        problem = random_problem(family, 1, LARGE_NODES)
        for kind in ("weights", "buffer"):
            limits = _limits(problem, kind, LARGE_NODES // 10)
            yield compare(f"{family}, {kind}", Traffic(problem, limits))


def _limits(problem: GroupingProblem, kind: str, share: int) -> GroupLimits:
    """A share of all weights, or three of the largest tensors."""
    if kind == "buffer":
        return GroupLimits(buffer_cap=3 * max(problem.sizes))
    return GroupLimits(max(8, weight_bytes(problem, problem.everything) // share))


def _network(model: str) -> Iterator[Compared]:
    problem = network_problem(model)
    for configuration, room in CONFIGURATIONS.items():
        cost = Traffic(problem, GroupLimits(room, room))
        yield compare(f"{short_name(model)}, {configuration}", cost)


def _each(
    models: Iterable[str], only: Sequence[str] | None, found_in: Callable[[str], Iterable[Found]]
) -> Iterator[Found]:
    """What is found in each model; those that are not taken are named."""
    for model in models:
        if only and short_name(model) not in only:
            continue
        try:
            yield from found_in(model)
        except PenstockError as error:
            print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)


if __name__ == "__main__":
    entry(main)
