"""Partition on NVDLA: networks on `small` and `large` with a global feature buffer.

A group reads what comes from outside and its weights once, writes what is wanted outside once, and
computes meanwhile: cycles = max(computing, bytes / bandwidth) + latency.  Its nodes compute one
after the other, by the formulas of `dataflow.py`; its whole live tensors must fit into the feature
buffer; a single layer may take more.  Cycles are what is minimised, and of groups of equal cycles
the bytes; the bytes shown are those of the same groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.compared import Compared, compare, costs, gains
from benchmarks.entry import console
from benchmarks.graph_groups import graph_problem, network, short_name
from penstock.accelerators.nvdla.configurations import (
    FEATURE_BANKS,
    LARGE,
    SMALL,
    NvdlaConfiguration,
)
from penstock.accelerators.nvdla.dataflow import node_cycles
from penstock.ir.graph import Graph
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.grouping import Grouping
from penstock.scheduling.grouping.strategies import DEFAULTS
from penstock.scheduling.grouping.traffic import GroupLimits, Traffic
from penstock.scheduling.order.step_table import bits

ZOO = ("zoo:vgg16",)
TOPOLOGIES = "topo_*.gz"
"""Of a folder of models, the networks that are irregular."""
CHIPS = tuple(chip.extended(*FEATURE_BANKS[chip.name]) for chip in (SMALL, LARGE))


@dataclass(frozen=True, slots=True)
class OnNvdla:
    """A network's groups, by cycles; and the same groups by bytes."""

    cycles: Compared
    bytes: Compared


def models(folder: Path | None) -> Sequence[str]:
    """What is grouped: VGG16, and a folder's topologies."""
    return ZOO if folder is None else (*ZOO, *sorted(map(str, folder.glob(TOPOLOGIES))))


def on_nvdla(model: str) -> Iterator[OnNvdla]:
    """A network on each configuration.  Raises PenstockError."""
    graph = network(model)
    for chip in CHIPS:
        cost = cycles_on(graph, chip)
        found = compare(f"{short_name(model)}, {chip.name}", cost)
        order = [i for group in found.found.groups for i in bits(group)]
        bound = max(found.found.bound, cost.bound(order, DEFAULTS.bound_work))
        proven = replace(found, found=replace(found.found, bound=bound))
        yield OnNvdla(proven, _in_bytes(found, cost, cost.least_bytes(order, DEFAULTS.bound_work)))


def cycles_on(graph: Graph, chip: NvdlaConfiguration) -> GroupCycles:
    """What groups of a network's nodes take on a chip with a feature buffer."""
    assert chip.extension is not None, f"{chip.name} has no feature buffer"
    limits = GroupLimits(buffer_cap=chip.extension.feature_bytes)
    computing = [node_cycles(node, chip) for node in graph.nodes]
    memory = chip.memory
    traffic = Traffic(graph_problem(graph), limits)
    return GroupCycles(traffic, computing, memory.bytes_per_cycle, memory.latency_cycles)


def show(some: Sequence[OnNvdla]) -> None:
    """Prints the chips, and tables of bytes, cycles and gains."""
    for chip in CHIPS:
        console().print(_described(chip))
    for what, compared in (
        ("bytes to and from external memory, weights among them", [on.bytes for on in some]),
        ("modelled cycles", [on.cycles for on in some]),
    ):
        console().print(costs(what, compared))
        console().print(gains(f"{what}: gain of best", {c.name: [c] for c in compared}))


def _described(chip: NvdlaConfiguration) -> str:
    extension, memory = chip.extension, chip.memory
    assert extension is not None
    return (
        f"{chip.name}: {chip.macs} multipliers; {memory.bytes_per_cycle} bytes a cycle after "
        f"{memory.latency_cycles} cycles; feature buffer of {extension.feature_banks} banks of "
        f"{extension.feature_bank_bytes >> 10} KiB"
    )


def _in_bytes(found: Compared, cost: GroupCycles, bound: int) -> Compared:
    """The same groups, by the bytes that they move."""

    def moved(grouping: Grouping) -> Grouping:
        return Grouping(grouping.groups, sum(map(cost.moved_bytes, grouping.groups)), bound)

    return replace(
        found,
        baselines={key: moved(grouping) for key, grouping in found.baselines.items()},
        by_order={key: moved(grouping) for key, grouping in found.by_order.items()},
        found=moved(found.found),
    )
