"""Programs with a toy accelerator in them compute what the model says, on every rung, cascades
included."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import pytest

from penstock import api, ladder
from penstock.ir.composite import Composite
from penstock.program.program import Invoke
from penstock.program.steps import calls, walk
from penstock.scheduling.options import Options
from toy_accelerator import Toy, convolution, toy_request

SIMULATES = all(importlib.util.find_spec(name) for name in ("ziglang", "unicorn"))
TARGET = "cortex-m4" if SIMULATES else "host"
"""The host has no core rung."""
WHOLE = Toy(by_rows=False)


def least_bytes(toy: Toy) -> int:
    """The least RAM in which the network runs with an accelerator."""
    return api.compile(toy_request("zoo:lenet5", TARGET, toy)).report.frontier[0].ram_bytes


@pytest.mark.parametrize("toy", [Toy(), WHOLE], ids=["by rows", "whole"])
def test_every_rung_is_exact(toy: Toy, host_compilers: Sequence[str]) -> None:
    found = api.verify(toy_request("zoo:lenet5", TARGET, toy))
    steps = ["machine", "host", "core"] if SIMULATES else ["machine", "host"]
    assert [(r.step, r.comparison.mismatches) for r in found.rungs] == [(s, 0) for s in steps]
    assert "address, undefined" in found.rungs[1].note
    offloaded = [c for c in calls(found.compiled.compilation.program) if c.engine == "toy"]
    assert [call.output.tensor for call in offloaded] == ["conv1", "conv2"]
    for call in offloaded:
        names = [c.driver.name for c in walk(call.body) if isinstance(c, Invoke)]
        assert names == ["toy_begin", "toy_tap", "toy_store"]


@pytest.mark.parametrize("toy", [Toy(), WHOLE], ids=["by rows", "whole"])
def test_every_point_of_the_frontier_is_exact_in_the_machine(
    toy: Toy, host_compilers: Sequence[str]
) -> None:
    wanted = toy_request("zoo:lenet5", "host", toy)
    found = {r.step: r for r in api.verify(wanted, every_point=True).rungs}
    assert found["points"].comparison.mismatches == 0
    assert found["points"].comparison.tensors >= 10
    assert found["points"].note.endswith(" points")


@pytest.mark.parametrize("toy", [Toy(), WHOLE], ids=["by rows", "whole"])
def test_the_least_point_is_exact_in_c(toy: Toy, host_compilers: Sequence[str]) -> None:
    found = api.verify(toy_request("zoo:lenet5", TARGET, toy, sram=least_bytes(toy)))
    assert len(found.rungs) == 2 + SIMULATES
    assert found.passed
    schedule = found.compiled.compilation.schedule
    assert any(plan.stripe is not None for plan in schedule.plans)


def test_an_accelerator_in_a_cascade_reads_and_writes_rows_wherever_they_lie() -> None:
    """In the least memory rows stand in tables, and the network needs no more than without it."""
    least = least_bytes(Toy())
    done = api.compile(toy_request("zoo:lenet5", TARGET, sram=least))
    striped = [c for c in calls(done.compilation.program) if c.engine == "toy"]
    assert any(call.output.rows.table is not None for call in striped)
    by_rows = Options(max_recompute=1.0)  # chains of parts run on the processor only
    assert least == api.compile("zoo:lenet5", TARGET, options=by_rows).report.frontier[0].ram_bytes
    assert least < least_bytes(WHOLE)


def test_a_streamed_input_is_served_too(host_compilers: Sequence[str]) -> None:
    found = api.verify(toy_request("zoo:lenet5", "host", stream_input=True))
    assert found.passed


def test_two_accelerators_share_a_program() -> None:
    first = Toy("one", takes=lambda n: n.name == "conv1")
    second = Toy("two", takes=lambda n: n.kind == "Conv2D" and convolution(n))
    done = api.compile(toy_request("zoo:lenet5", "host", first, second)).compilation
    machine = next(ladder.climb(done, ladder.Truth(), api.drawn_sets(done, 2)))
    assert (machine.step, machine.comparison.mismatches) == ("machine", 0)
    by_engine = {part.name: part.engine for part in done.parts.parts}
    assert [by_engine[name] for name in ("conv1", "conv2", "dense1")] == ["one", "two", "cpu"]


def test_unclaimed_nodes_run_on_the_cpu_and_are_listed() -> None:
    done = api.compile(toy_request("zoo:lenet5", TARGET)).compilation
    claimed = {n.name for n in done.graph.nodes if isinstance(n.op, Composite)}
    left = {left.node.name: left for left in done.parts.cpu_fallbacks}
    computing = {n.name for n in done.graph.nodes if not n.op.ALIAS}
    assert claimed == {"conv1", "conv2"}
    assert set(left) == computing - claimed
    alone = api.compile("zoo:lenet5", TARGET)
    cycles = {layer.name: layer.cycles for layer in alone.layers}
    for name, found in left.items():
        assert 0 < found.cycles <= cycles[name]
