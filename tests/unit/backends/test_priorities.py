"""Several accelerators that can run a node: the level of the strategy decides, then the cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

import penstock
from penstock.backends.uma import backend
from penstock.frontends.builder import GraphBuilder
from penstock.uma import (
    Command,
    Composite,
    Driver,
    Graph,
    KernelCall,
    OpStrategy,
    PassPhase,
    Pattern,
    UMABackend,
    is_op,
    wildcard,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})


def pool() -> Pattern:
    return is_op("nn.max_pool2d")(wildcard())


def both() -> Pattern:
    return is_op("nn.avg_pool2d")(pool())


class Pools(UMABackend):
    """An engine for pools, with a level and a cost for each pattern."""

    def __init__(self, name: str, **patterns: tuple[Pattern, int, float]) -> None:
        super().__init__()
        self.name = name
        self.runs = 0
        run = Driver(f"{name}_run", name, lambda device: None, device=dict)

        def compute(call: KernelCall) -> Sequence[Command]:
            return [call.invoke(run)]

        def strategy_of(cycles: float) -> Any:
            def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
                found = OpStrategy()
                found.add_implementation(compute, name=name, cost=lambda layer, rows: cycles)
                return found

            return strategy

        for label, (pattern, level, cycles) in patterns.items():
            self._register_pattern(label, pattern)
            self._register_operator_strategy(label, strategy_of(cycles), plevel=level)
        self._register_graph_pass(PassPhase.PRE_PARTITIONING, self.count)
        self._register_codegen(includes=f'#include "{name}.h"')

    def count(self, graph: Graph, target: Any) -> Graph:
        self.runs += 1
        return graph

    @property
    def target_name(self) -> str:
        return self.name


def network() -> Graph:
    net = GraphBuilder("pools")
    x = net.max_pool2d(net.input((1, 16, 16, 4)), 2, name="first")
    return net.build(net.average_pool2d(x, 2, name="second"))


def engines(*accelerators: Pools) -> list[dict[str, str]]:
    """The engine of each part, for each order in which the accelerators are named."""
    for one in accelerators:
        one.register()
    found: list[dict[str, str]] = []
    for names in permutations([one.target_name for one in accelerators]):
        done = penstock.compile(network(), target="host", accelerators=names)
        found.append({part.name: part.engine for part in done.compilation.parts.parts})
        for one in accelerators:
            assert one.runs == 1
            one.runs = 0
    return found


def test_the_higher_level_wins() -> None:
    low, high = Pools("low", pool=(pool(), 11, 1)), Pools("high", pool=(pool(), 12, 1000))
    assert engines(low, high) == [{"first": "high", "second": "cpu"}] * 2


def test_of_equal_levels_the_lower_cost_wins() -> None:
    slow, fast = Pools("slow", pool=(pool(), 11, 20)), Pools("fast", pool=(pool(), 11, 10))
    assert engines(slow, fast) == [{"first": "fast", "second": "cpu"}] * 2


def test_equal_costs_leave_it_to_the_order() -> None:
    a, b = Pools("a", pool=(pool(), 11, 10)), Pools("b", pool=(pool(), 11, 10))
    assert [found["first"] for found in engines(a, b)] == ["a", "b"]


@pytest.mark.parametrize(("cycles", "engine"), [(10, "whole"), (10_000_000, "part")])
def test_the_cost_of_nodes_that_are_left_counts(cycles: int, engine: str) -> None:
    """An engine that runs both pools competes with one that leaves the second to the processor."""
    whole = Pools("whole", both=(both(), 11, cycles))
    part = Pools("part", pool=(pool(), 11, 10))
    second = "whole" if engine == "whole" else "cpu"
    for found in engines(whole, part):
        assert found.get("first", engine) == engine
        assert found["second"] == second


def test_three_accelerators_share_nodes() -> None:
    average = is_op("nn.avg_pool2d")(wildcard())
    a = Pools("a", pool=(pool(), 11, 30), average=(is_op("nn.avg_pool2d")(wildcard()), 11, 5))
    b = Pools("b", pool=(pool(), 11, 20))
    c = Pools("c", average=(average, 11, 10))
    assert engines(a, b, c) == [{"first": "b", "second": "a"}] * 6


def test_reports_say_which_accelerator_competed_and_by_how_much_it_lost() -> None:
    Pools("slow", pool=(pool(), 11, 20)).register()
    Pools("fast", pool=(pool(), 11, 10)).register()
    Pools("late", pool=(pool(), 11, 90)).register()
    lines = penstock.api.explain_pattern(
        penstock.api.request(network(), "host", accelerators=("slow", "late", "fast")), "first"
    )
    assert lines == (
        "slow:",
        '  pattern "pool" matches, but is refused: fast takes 10 cycles instead of 20',
        "late:",
        '  pattern "pool" matches, but is refused: fast takes 10 cycles instead of 90',
        "fast:",
        '  pattern "pool" matches',
        'engine: fast, in composite "first" of "pool"',
    )


def composites(graph: Graph) -> list[str]:
    return [node.op.engine for node in graph.nodes if isinstance(node.op, Composite)]


def test_a_partitioned_graph_is_taken_as_it_is() -> None:
    slow, fast = Pools("slow", pool=(pool(), 11, 20)), Pools("fast", pool=(pool(), 11, 10))
    slow.register()
    fast.register()
    graph = slow.partition(network())
    done = penstock.compile(graph, target="host", accelerators=("fast",))
    assert composites(done.compilation.graph) == ["slow"]
