"""Faults of accelerators are detected, and the errors tell the author the remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from command_line import CommandLine
from errors.wrong_accelerators import (
    Numbers,
    fails,
    in_machine,
    strays,
    with_nodes_left,
)
from errors.wrong_descriptions import copying, fetching, moving
from penstock import api, ladder
from penstock.api import requested
from penstock.backends.accelerator import Accelerator, AcceleratorTarget, PassPhase
from penstock.backends.offloaded import Offloaded
from penstock.codegen.c_driver import CallTexts
from penstock.errors import BackendError, TargetError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.breakdown import Breakdown
from penstock.ir.graph import Graph
from penstock.ir.op import ConstantPrefetch
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import simplify
from penstock.simulators.compare import Comparison, Difference
from toy_accelerator import STUB, Bytes, Toy, Unit, store, toy_request

SRAM_BYTES = 2600
"""So little that rows of several tensors share the arena, in cascades."""


def verified(toy: Toy, **changes: object) -> api.Verified:
    return api.verify(toy_request("zoo:lenet5", "host", toy, **changes))  # pyright: ignore


def meets(code: str, call: Callable[[], object]) -> BackendError:
    """The error that a call raises."""
    with pytest.raises(BackendError) as caught:
        call()
    error = caught.value
    assert (error.code, error.exit_code) == (code, 1)
    assert error.where.startswith("toy")
    assert error.help
    return error


def one_row_further(unit: Unit, multiplier: Bytes, shift: Bytes, y: Bytes, *bounds: int) -> None:
    """A functional model that also writes the row behind."""
    store(unit, multiplier, shift, y, *bounds)
    y[unit.sums.size : 2 * unit.sums.size] = ~y[: unit.sums.size]


@pytest.mark.parametrize("stores", [strays, one_row_further])
def test_a_model_that_writes_beyond_its_rows_is_caught(stores: Callable[..., None]) -> None:
    error = meets("machine-010", lambda: in_machine(Toy(stores=stores)))
    assert 'writes beyond rows [0, 28) of "conv1"' in error.what
    assert "toy_conv2d" in error.where


def test_a_model_that_writes_beyond_its_rows_is_caught_in_a_cascade() -> None:
    """Another row of the same tensor, or another tensor's, lies there."""
    toy = Toy(stores=one_row_further)
    done = api.compile(toy_request("zoo:lenet5", "host", toy, sram=SRAM_BYTES)).compilation
    inputs = api.drawn_sets(done, 1)
    error = meets("machine-010", lambda: ladder.run_machine(done, inputs))
    assert "rows [0, 28)" not in error.what


def writes_constants(unit: Unit, multiplier: Bytes, *arguments: Numbers) -> None:
    multiplier[0] = 0


def takes_too_little(unit: Unit) -> None:
    """A functional model of another function."""


@pytest.mark.parametrize(
    ("stores", "why"),
    [
        (fails, "KeyError: 'sums'"),
        (writes_constants, "ValueError"),
        (takes_too_little, "TypeError"),
    ],
)
def test_a_model_that_raises_is_named_with_its_arguments(
    stores: Callable[..., None], why: str
) -> None:
    error = meets("backend-090", lambda: in_machine(Toy(stores=stores)))
    call = "toy: toy_store(bytes, bytes, bytes, -128, -128, 127)"
    assert error.where in {call, f"{call}, {error.where.rpartition(', ')[2]}"}
    assert (".py:" in error.where) == (stores is not takes_too_little)
    assert error.why.startswith(why)


@pytest.mark.parametrize(
    "cost", [-1, float("nan"), float("inf"), float("-inf"), None, "12", True, [3], 1 + 2j]
)
def test_a_cost_that_is_no_number_of_cycles_is_refused(cost: object) -> None:
    error = meets(
        "backend-009",
        lambda: api.compile(toy_request("zoo:lenet5", "host", Toy(costs=lambda o, rows: cost))),
    )
    shown = f"{cost:g}" if isinstance(cost, float) else repr(cost)
    assert shown in error.what
    assert "conv" in error.where


@pytest.mark.parametrize(
    ("cost", "what"),
    [
        (Breakdown(float("nan")), "cost(1) is nan cycles"),
        (Breakdown(9, {"memory": -1}), '"memory" of cost(1) is -1 cycles'),
        (Breakdown(9, {"memory": "12"}), "\"memory\" of cost(1) is '12', not a number"),  # type: ignore
        (Breakdown(9, {7: 1}), "a resource of cost(1) is 7, not a name"),  # type: ignore
        (Breakdown(9, [3]), "by_resource of cost(1) is [3], not a mapping"),  # type: ignore
        (Breakdown(9, {}, 0), "macs_per_cycle of cost(1) is 0"),
    ],
)
def test_a_breakdown_of_anything_else_is_refused(cost: Breakdown, what: str) -> None:
    error = meets(
        "backend-009",
        lambda: api.compile(toy_request("zoo:lenet5", "host", Toy(costs=lambda o, rows: cost))),
    )
    assert error.what == what


@pytest.mark.parametrize(
    ("prefetch", "why"),
    [
        (96, "it is 96, not a ConstantPrefetch"),
        (
            ConstantPrefetch("weights", 4, 9.0, copying),
            'there is no table "weights"; the tables are: shifts',
        ),
        (
            ConstantPrefetch("shifts", 0, 9.0, copying),
            '0 bytes are to be prefetched of "shifts", which has 4',
        ),
        (
            ConstantPrefetch("shifts", 5, 9.0, copying),
            '5 bytes are to be prefetched of "shifts", which has 4',
        ),
        (
            ConstantPrefetch("shifts", 3.5, 9.0, copying),  # type: ignore[arg-type]
            "size_bytes is 3.5, must be an integer",
        ),
        (
            ConstantPrefetch("shifts", 4, "9", copying),  # type: ignore[arg-type]
            "cycles is '9', must be a number of cycles",
        ),
        (
            ConstantPrefetch("shifts", 4, float("nan"), copying),
            "cycles is nan, must be a number of cycles",
        ),
    ],
)
def test_prefetched_constants_are_part_of_a_table(prefetch: object, why: str) -> None:
    with pytest.raises(BackendError) as caught:
        fetching(prefetch)
    assert (caught.value.code, caught.value.why) == ("backend-055", why)


@pytest.mark.parametrize(
    ("traffic", "why"),
    [
        (96, "it is 96, not a mapping"),
        ({1: 96}, "the name 1 is no text"),
        ({"features": 9.5}, '"features" is 9.5'),
        ({"features": True}, '"features" is True'),
    ],
)
def test_traffic_is_bytes_by_name(traffic: object, why: str) -> None:
    with pytest.raises(BackendError) as caught:
        moving(traffic)
    assert (caught.value.code, caught.value.why) == ("backend-054", why)


@pytest.mark.parametrize("cost", [0, 0.4, 10**12, np.int64(7).item()])
def test_any_other_number_of_cycles_is_taken(cost: float) -> None:
    done = api.compile(toy_request("zoo:lenet5", "host", Toy(costs=lambda offloaded, rows: cost)))
    _, toy = done.report.engines
    accesses = api.compile(toy_request("zoo:lenet5", "host", Toy(costs=lambda o, rows: 0)))
    extra = toy.cycles.estimated - accesses.report.engines[1].cycles.estimated
    assert extra == toy.calls * round(cost)


def test_a_cost_function_that_raises_is_named() -> None:
    def cost(offloaded: Offloaded, rows: int) -> int:
        raise LookupError("no such table")

    error = meets(
        "backend-006", lambda: api.compile(toy_request("zoo:lenet5", "host", Toy(costs=cost)))
    )
    assert "LookupError: no such table" in error.what


def test_a_cost_is_looked_at_for_every_stripe() -> None:
    """That of one row and of all rows is asked first, that of a stripe by the search."""

    def cost(offloaded: Offloaded, rows: int) -> float:
        return float("nan") if rows == 2 else 1.0

    error = meets(
        "backend-009", lambda: api.compile(toy_request("zoo:lenet5", "host", Toy(costs=cost)))
    )
    assert error.what == "cost(2) is nan cycles"


def without_first(graph: Graph, target: AcceleratorTarget) -> Graph:
    return graph.with_nodes(graph.nodes[1:])


def raises(noun: object, target: AcceleratorTarget) -> None:
    raise RuntimeError("lost")


def returns_none(noun: object, target: AcceleratorTarget) -> None:
    """A pass that forgets its result."""


def returns_nodes(graph: Graph, target: AcceleratorTarget) -> object:
    return graph.nodes


@pytest.mark.parametrize(
    ("phase", "run", "why"),
    [
        (PassPhase.PRE_PARTITIONING, returns_none, "it returns None"),
        (PassPhase.PRE_PARTITIONING, returns_nodes, "it returns (Node("),
        (PassPhase.POST_PARTITIONING_0, raises, "RuntimeError: lost"),
        (PassPhase.POST_PARTITIONING_1, without_first, ""),
        (PassPhase.PROGRAM_PHASE_0, returns_none, "it returns None"),
        (PassPhase.PROGRAM_PHASE_3, raises, "RuntimeError: lost"),
    ],
)
def test_a_pass_that_returns_nonsense_is_named_with_its_phase(
    phase: PassPhase, run: Callable[..., object], why: str
) -> None:
    def change(accelerator: Accelerator) -> Accelerator:
        passes = (*accelerator.graph_passes, (phase, run))
        return replace(accelerator, graph_passes=passes)  # pyright: ignore

    error = meets("backend-082", lambda: api.compile(toy_request(change=change)))
    assert error.where == f"toy, phase {phase.name}"
    assert error.why.startswith(why)
    assert error.why
    noun = "program" if phase.name.startswith("PROGRAM") else "graph"
    assert f"takes a {noun}" in error.help


def written_as(call: object) -> Callable[[Accelerator], Accelerator]:
    """An accelerator whose calls are written in a way of its own."""

    def change(accelerator: Accelerator) -> Accelerator:
        def constant(arguments: object) -> object:
            return call

        how = call if callable(call) else constant
        code = replace(accelerator.codegen, replace_call_extern=how)
        return replace(accelerator, codegen=code)

    return change


@pytest.mark.parametrize("call", [None, "", "  \n", 3, ("f()",)])
def test_a_call_that_is_no_c_is_refused(call: object) -> None:
    error = meets("backend-091", lambda: api.compile(toy_request(change=written_as(call))))
    assert repr(call) in error.what
    assert error.where == "toy: toy_begin"


@pytest.mark.parametrize("end", ["", ";"])
def test_replace_call_extern_formats_calls(end: str) -> None:
    def call(arguments: Sequence[str]) -> str:
        return f"TOY_CALL({len(arguments)}, {', '.join(arguments)}){end}"

    bundle = api.compile(toy_request(change=written_as(call))).compilation.bundle
    text = dict(bundle.files)["lenet5.c"].decode()
    assert "TOY_CALL(3, lenet5_w10_conv1_bias, 28, 6);\n" in text
    assert "toy_begin" not in text


def test_a_call_knows_the_function_that_is_called() -> None:
    def call(arguments: CallTexts) -> str:
        return f"CALL_{arguments.function}({', '.join(arguments)})"

    bundle = api.compile(toy_request(change=written_as(call))).compilation.bundle
    assert b"CALL_toy_begin(lenet5_w10_conv1_bias, 28, 6);\n" in bundle["lenet5.c"]


@pytest.mark.parametrize("name", ["lenet5.c", "CMakeLists.txt", "main.c"])
def test_a_file_with_the_name_of_one_of_the_model_s_is_refused(name: str) -> None:
    def change(accelerator: Accelerator) -> Accelerator:
        code = replace(accelerator.codegen, sources=((name, ""), *accelerator.codegen.sources))
        return replace(accelerator, codegen=code)

    error = meets("backend-092", lambda: api.compile(toy_request(change=change)))
    assert name in error.what
    assert error.help == f'rename it, for example to "toy_{name}"'


def rounds_down(unit: Unit, multiplier: Bytes, shift: Bytes, y: Bytes, *bounds: int) -> None:
    """A functional model that is one too low here and there."""
    store(unit, multiplier, shift, y, *bounds)
    row = y[: unit.sums.size].view(np.int8)
    row[row > 0] -= 1


def writes_nothing(unit: Unit, multiplier: Bytes, shift: Bytes, y: Bytes, *bounds: int) -> None:
    """A functional model that forgets its output."""


@pytest.mark.parametrize("stores", [rounds_down, writes_nothing])
def test_a_model_that_disagrees_with_the_reference_is_a_mismatch_of_its_author_s(
    stores: Callable[..., None], host_compilers: Sequence[str]
) -> None:
    found = verified(Toy(stores=stores))
    error = found.mismatch()
    assert error is not None
    assert error.what.endswith("on rung machine")
    assert error.where == 'lenet5: node 0 "conv1"'
    assert '"conv1" of set 0' in error.why
    assert error.help.startswith("toy computes this tensor: compare what kernel toy_conv2d hands")
    assert "report it" not in error.help
    assert not found.passed


def test_a_stub_that_disagrees_with_the_models_is_the_driver_s_mistake(
    host_compilers: Sequence[str],
) -> None:
    def change(accelerator: Accelerator) -> Accelerator:
        wrong = STUB.replace("+ zero;", "+ zero + 1;")
        assert wrong != STUB
        header, _ = accelerator.codegen.sources
        code = replace(accelerator.codegen, sources=(header, ("toy_stub.c", wrong)))
        return replace(accelerator, codegen=code)

    found = verified(Toy(), change=change)
    assert found.rungs[0].comparison.mismatches == 0
    error = found.mismatch()
    assert error is not None
    assert error.what.endswith("on rung host")
    assert "its functional models are correct: compare the driver's C" in error.help


@pytest.mark.parametrize("step", ["reference", "machine", "host"])
def test_a_mismatch_on_the_processor_is_reported_as_a_bug_of_penstock(step: str) -> None:
    compiled = api.compile(toy_request("zoo:lenet5", "host"))
    first = Difference("pool1", 0, (0, 0), 1, 2, 1)
    rungs = (ladder.Rung(step, Comparison(1, 4, 1, first)),)
    error = api.Verified(compiled.report, compiled, rungs).mismatch()
    assert error is not None
    assert "please report" in error.help
    of_conv1 = replace(first, tensor="conv1")
    rungs = (ladder.Rung("reference", Comparison(1, 4, 1, of_conv1)),)
    error = api.Verified(compiled.report, compiled, rungs).mismatch()
    assert error is not None
    assert "goldens" in error.help


def test_strict_rejects_cpu_fallbacks() -> None:
    with pytest.raises(TargetError) as caught:
        api.compile(toy_request(strict=True))
    error = caught.value
    assert (error.code, error.exit_code) == ("accelerator-001", 1)
    assert error.what == 'node "pool1" and 5 more fall back to the CPU'
    assert error.where == 'lenet5: node 1 "pool1"'
    with pytest.raises(TargetError, match='"pool1" and 1 more fall back to the CPU'):
        with_nodes_left()


def test_strict_has_nothing_against_a_network_that_accelerators_run() -> None:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 8, 8, 2)), 4, 3)
    graph = simplify(net.build(net.conv2d(x, 2, 1)))
    parts = assign_engines(graph, toy_request(strict=True))
    assert [part.engine for part in parts.parts] == ["toy", "toy"]
    assert parts.cpu_fallbacks == ()


def test_the_command_line_exits_with_1_where_strict_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requested, "request", Mock(return_value=toy_request(strict=True)))
    said = CommandLine(monkeypatch, capsys)("compile", "zoo:lenet5", "--strict")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error[accelerator-001]: ")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_lists_cpu_fallbacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requested, "request", Mock(return_value=toy_request()))
    said = CommandLine(monkeypatch, capsys)("compile", "zoo:lenet5")
    assert said.code == 0
    assert "6 nodes fall back" in said.out
    for name in ("pool1", "pool2", "dense1", "dense2", "logits", "scores"):
        assert name in said.out
