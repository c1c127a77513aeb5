"""`penstock compare-partitions`: the table, the groups as JSON, and the drawings."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command_line import CommandLine
from penstock.scheduling.cascades import search
from penstock.scheduling.options import STRATEGY_NAMES
from penstock.scheduling.order.order import Order, OrderOptions, find_order
from penstock.scheduling.order.steps import OrderProblem

NVDLA = ("--accelerator", "nvdla:config=large", "--target", "host")


def test_it_states_each_partition_and_draws_its_groups(penstock: CommandLine) -> None:
    folder = Path("out")
    said = penstock("compare-partitions", "zoo:lenet5", *NVDLA, "-o", "out")
    assert said.code == 0, said.err
    rows = [line.split() for line in said.out.splitlines()]
    shown = [row[0] for row in rows if row and row[0] in STRATEGY_NAMES]
    assert shown == list(STRATEGY_NAMES)
    found = json.loads((folder / "partitions.json").read_text())["partitions"]
    layer, *_, best = found
    assert best["cycles"] == min(one["cycles"] for one in found) < layer["cycles"]
    assert best["external_bytes"] < layer["external_bytes"]
    assert all(len(group) == 1 for group in layer["groups"])
    for one in found:
        names = [name for group in one["groups"] for name in group]
        assert sorted(names) == sorted(name for (name,) in layer["groups"])
        drawing = ElementTree.parse(folder / f"{one['partition']}.svg")
        titles = [title.text for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
        assert sorted(titles) == sorted(names)
    assert "<svg" in (folder / "partitions.html").read_text()


def test_the_order_of_least_memory_is_searched_once(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[object] = []

    def counted(problem: OrderProblem, options: OrderOptions) -> Order:
        searched.append(problem)
        return find_order(problem, options)

    monkeypatch.setattr(search, "find_order", counted)
    assert penstock("compare-partitions", "zoo:lenet5:classes=7", *NVDLA).code == 0
    assert len(searched) == 1
