"""Executed traps hold, and a cascade that recomputes is detected."""

from __future__ import annotations

import pytest

from benchmarks import executed_traps
from benchmarks.executed_cases import executed
from penstock.frontends.builder import GraphBuilder


def test_every_trap_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert executed_traps.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(executed_traps.TRAPS) == 4
    assert all(line.endswith(": holds") for line in lines)


def test_recomputation_is_detected() -> None:
    net = GraphBuilder("bands")
    x = net.conv2d(net.input((1, 6, 8, 2)), 2, 1, name="first")
    graph = net.build(net.conv2d(x, 2, 3, name="last"))
    assert executed_traps.computed_once(graph, executed(graph, 2, None)) == ""
    assert '"first" is computed' in executed_traps.computed_once(graph, executed(graph, 2, 4))
