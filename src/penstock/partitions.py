"""Partitions: a network that is divided into groups by each strategy, with cycles and traffic."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace

from penstock.brief import Brief
from penstock.choices import Optimize
from penstock.codegen.bundle import Bundle, Bundled
from penstock.frozen import frozen
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.choosing import choose
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.reports.partitions import PartitionReport, PartitionsReport
from penstock.scheduling.cascades.groups import grouping_problem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import STRATEGY_NAMES


@frozen(repr=False)
class ComparedPartitions(Brief, Bundled):
    """The partitions of a network and their files."""

    report: PartitionsReport

    def bundle(self) -> Bundle:
        """partitions.json, partitions.html, and an SVG for each partition."""
        found = self.report
        drawings = ((f"{one.name}.svg", found.drawing(one).encode()) for one in found.partitions)
        text = json.dumps(found.as_json(), indent=2) + "\n"
        return Bundle(
            (("partitions.json", text.encode()), ("partitions.html", found.page()), *drawings)
        )


def compare_partitions(
    request: Request, on_stage: Callable[[str], None], executor: Executor | None = None
) -> ComparedPartitions:
    """Divide the network of a request into groups by every strategy.

    The option `partition` of the request is not used.  Without a goal, that of the request is
    speed.
    """
    on_stage("read")
    model = read_request(request)
    parts = assign_engines(simplify(model, request.rounding, request.io), request)
    wanted = request if request.optimize else replace(request, optimize=Optimize.SPEED)
    every: list[PartitionReport] = []
    for name in STRATEGY_NAMES:
        on_stage(name)
        one = replace(wanted, options=replace(request.options, partition=name))
        found = schedule(parts, one.target, one.options, one.accelerators)
        chosen = choose(place(found, one.target, one.options, executor), one).schedule
        cycles, size = chosen.cost.cycles, chosen.external_bytes
        every.append(PartitionReport(name, cycles, size, chosen.groups))
    return ComparedPartitions(
        PartitionsReport(model.name, _devices(request), _reads(parts), tuple(every))
    )


def _devices(request: Request) -> str:
    return " and ".join((request.target.name, *(one.name for one in request.accelerators)))


def _reads(parts: Parts) -> dict[str, tuple[str, ...]]:
    nodes = grouping_problem(parts).nodes
    return {node.name: tuple(nodes[t].name for t in node.reads if t < len(nodes)) for node in nodes}
