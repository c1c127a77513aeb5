"""Consecutive calls of one compiler region run as one call: one stream, or one invocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock
from examples.uma import phases, regions
from examples.uma.phases import Rows
from examples.uma.regions import Pools, network
from penstock import api, ladder
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError, InternalError
from penstock.pipeline.emission import lower_point
from penstock.pipeline.stages import ASSIGN, LOWER, STAGES, Context, run_stages
from penstock.program.steps import calls, walk
from penstock.program.text import ProgramContext, print_program
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Devices, Machine
from penstock.uma import (
    AcceleratorTarget,
    Array,
    Call,
    Command,
    Driver,
    Graph,
    Invoke,
    KernelCall,
    Loop,
    PassPhase,
    Program,
    elements,
)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})


def compiled(backend: Pools, graph: Graph) -> penstock.Compiled:
    backend.register()
    return penstock.compile(graph, "host", accelerators=("pools",))


def invocations(done: penstock.Compiled) -> dict[str, int]:
    """How often the generated C calls each function of the driver."""
    name = done.compilation.prefix
    code = done.bundle()[f"{name}.c"].decode()
    return {f: code.count(f"    pools_{f}(") for f in ("submit", "wake", "max", "sleep")}


def test_a_region_submits_one_stream() -> None:
    merged = invocations(compiled(Pools(), network()))
    apart = invocations(compiled(Pools(merge=False), network()))
    assert (merged["submit"], apart["submit"]) == (1, 3)


def test_a_region_in_c_has_the_commands_that_its_function_returns() -> None:
    merged = invocations(compiled(Pools(stream=False), network()))
    apart = invocations(compiled(Pools(stream=False, merge=False), network()))
    assert merged == {"submit": 0, "wake": 1, "max": 3, "sleep": 1}
    assert apart == {"submit": 0, "wake": 3, "max": 3, "sleep": 3}


def test_memory_and_cost_are_those_of_separate_calls() -> None:
    merged, apart = (compiled(Pools(merge=merge), network()).report for merge in (True, False))
    assert merged.ram_bytes == apart.ram_bytes
    assert merged.cycles == apart.cycles


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("merge", [True, False])
def test_regions_are_exact_on_every_rung(stream: bool, merge: bool) -> None:
    Pools(stream=stream, merge=merge).register()
    done = penstock.verify(network(), "cortex-m4", accelerators=("pools",), every_point=True)
    assert done.passed
    assert {rung.step for rung in done.rungs} == {"machine", "points", "host", "core"}
    assert done.in_regions == (("pool0", "pool1") if merge else ())


@pytest.mark.parametrize("stream", [True, False])
def test_a_region_is_one_step_of_a_profile(stream: bool) -> None:
    """The step of its last layer; the count of the processor has no share of the stand-in."""
    Pools(stream=stream).register()
    ran = penstock.run(network(), "cortex-m4", accelerators=("pools",))
    assert [layer.step for layer in ran.report.layers] == [None, None, 0, 1]
    region, dense = ran.steps
    assert region is None
    assert dense is not None
    assert [layer.simulated_cycles for layer in ran.report.layers] == [None] * 3 + [dense.cycles]


def test_separate_regions_show_the_tensor_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second layer computes one element too low, which the third layer does not select."""

    def compute(call: KernelCall) -> Sequence[Invoke]:
        wrong = Driver("pools_max", "pools", model, device=dict)
        return [replace(command, driver=wrong) for command in right(call)]

    def model(device: object, x: Array, y: Array, h: int, w: int, c: int) -> None:
        regions.max_model(device, x, y, h, w, c)
        if h == 4:
            elements(y, np.int8, 1)[:] = -128

    right = regions.compute
    monkeypatch.setattr(regions, "compute", compute)
    Pools(stream=False).register()
    merged = penstock.verify(network(), "host", accelerators=("pools",), last_rung="machine")
    (rung,) = merged.rungs
    assert (rung.compared.tensors, rung.mismatches) == (6, 0), "the maximum hides the element"
    apart = penstock.verify(
        network(), "host", accelerators=("pools",), last_rung="machine", separate_regions=True
    )
    (rung,) = apart.rungs
    assert (rung.compared.tensors, apart.in_regions) == (10, ())
    error = apart.mismatch()
    assert error is not None
    assert '"pool1"' in error.where


def branching(*, output: bool = False) -> Graph:
    """Poolings of which the first is read by the processor as well, or is an output."""
    net = penstock.GraphBuilder("branching")
    first = net.max_pool2d(net.input((1, 16, 16, 4)), 2, name="pool0")
    last = net.max_pool2d(net.max_pool2d(first, 2, name="pool1"), 2, name="pool2")
    dense = net.fully_connected(last, 3, name="logits")
    other = first if output else net.fully_connected(first, 3, name="other")
    return net.build(dense, other)


@pytest.mark.parametrize("output", [False, True])
def test_what_is_read_outside_ends_a_call(output: bool) -> None:
    graph = branching(output=output)
    done = compiled(Pools(), graph)
    assert invocations(done)["submit"] == 2
    Pools().register()
    verified = penstock.verify(graph, "host", accelerators=("pools",))
    assert verified.passed
    assert verified.in_regions == ("pool1",)


def test_the_text_of_a_region_parses_back() -> None:
    Pools().register()
    request = api.request(network(), "host", accelerators=("pools",))
    outcomes = run_stages(STAGES, request.model, Context(request))
    program = outcomes.result(LOWER)
    context = ProgramContext(outcomes.result(ASSIGN))
    text = print_program(program, context)
    assert "  region {\n    call pool0(input)\n" in text


def program_of(done: penstock.Compiled, change: Sequence[Command]) -> Program:
    """The program whose region has another body."""
    program = done.compilation.program
    region = replace(calls(program)[0], body=tuple(change))
    return replace(program, run=(region, *program.run[1:]))


def test_the_machine_runs_the_body_of_a_region() -> None:
    done = compiled(Pools(stream=False), network())
    wake, first, _, _, sleep = calls(done.compilation.program)[0].body
    machine = Machine(program_of(done, (wake, first, sleep)))
    inputs = api.drawn_sets(done.compilation, 1)[0]
    wrong = machine.run(inputs)["logits"]
    right = Machine(done.compilation.program).run(inputs)["logits"]
    assert (wrong != right).any()


def test_the_machine_refuses_a_region_that_writes_elsewhere() -> None:
    done = compiled(Pools(stream=False), network())
    body = calls(done.compilation.program)[0].body
    first = body[1]
    assert hasattr(first, "given")
    x, y, *numbers = first.given
    beyond = replace(first, given=(x, replace(y, offset=y.offset), 16, 16, *numbers[2:]))
    inputs = api.drawn_sets(done.compilation, 1)[0]
    with pytest.raises((BackendError, InternalError, ValueError)):
        Machine(program_of(done, (beyond, *body[1:]))).run(inputs)


@pytest.mark.parametrize(
    ("function", "code"),
    [(lambda calls: [], "backend-065"), (lambda calls: [7], "backend-065"),
     (lambda calls: calls[99], "backend-042"), (7, "backend-033")],
)  # fmt: skip
def test_a_region_function_that_fails_is_reported(
    monkeypatch: pytest.MonkeyPatch, function: object, code: str
) -> None:
    monkeypatch.setattr(regions, "awake_once", function)
    with pytest.raises(BackendError) as caught:
        compiled(Pools(stream=False), network())
    assert caught.value.code == code


def wait_once(calls: Sequence[Sequence[Command]]) -> Sequence[Command]:
    """The commands of all calls, of which only the last one ends with a wait."""
    return [*(command for commands in calls for command in commands[:-1]), calls[-1][-1]]


def waiting_rows(*, merge: bool) -> Rows:
    """An engine with kernels by rows; a pass after placement appends a wait to each call."""
    backend = Rows({PassPhase.PROGRAM_PHASE_2: phases.wait_at_the_end})
    if merge:
        backend._register_region(wait_once)
    return backend


def five_poolings() -> Graph:
    net = penstock.GraphBuilder("pools")
    x = net.input((1, 64, 64, 4))
    for k in range(5):
        x = net.max_pool2d(x, 2, name=f"pool{k}")
    return net.build(x)


def invoked_at_every_point(
    monkeypatch: pytest.MonkeyPatch, done: penstock.Compiled
) -> Mapping[int, Counter[str]]:
    """By bytes of the point, how often the machine invokes each driver function."""
    found: dict[int, Counter[str]] = {}
    invoke = Devices.invoke

    def counted(self: Devices, command: Invoke, variables: Mapping[str, int]) -> None:
        found[height][command.driver.name] += 1
        invoke(self, command, variables)

    compilation = done.compilation
    (inputs,) = api.drawn_sets(compilation, 1)
    reference = run_graph(compilation.model, inputs)
    with monkeypatch.context() as patch:
        patch.setattr(Devices, "invoke", counted)
        for point in compilation.points:
            height = point.height_bytes
            found[height] = Counter()
            assert ladder.run_point(compilation, inputs, reference, point).mismatches == 0
    return found


def test_kernels_by_rows_run_in_regions_at_points_with_cascades(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows of a region's input may be stored one by one, as here after a cascade."""
    found: dict[bool, Mapping[int, Counter[str]]] = {}
    for merge in (True, False):
        waiting_rows(merge=merge).register()
        done = penstock.compile(five_poolings(), "host", accelerators=("rows",))
        found[merge] = invoked_at_every_point(monkeypatch, done)
    merged, apart = found[True], found[False]
    smallest = done.compilation.points[0]
    assert any(isinstance(c, Loop) for c in lower_point(smallest).run)
    assert len(merged) > 5
    assert merged.keys() == apart.keys()
    for height, counts in merged.items():
        assert counts["rows_max"] == apart[height]["rows_max"] == 32 + 16 + 8 + 4 + 2
        assert counts["rows_end"] < apart[height]["rows_end"]


def test_kernels_by_rows_in_a_region_are_exact_in_c() -> None:
    waiting_rows(merge=True).register()
    done = penstock.verify(
        five_poolings(), "cortex-m4", accelerators=("rows",), optimize="size", every_point=True
    )
    assert [(rung.step, rung.comparison.mismatches) for rung in done.rungs] == [
        ("machine", 0), ("points", 0), ("host", 0), ("core", 0),
    ]  # fmt: skip
    program = done.compiled.compilation.program
    (region,) = (call for call in calls(program) if call.members)
    assert region.inputs[0].rows.table is not None
    assert any(isinstance(command, Loop) for command in program.run)


def test_a_kernel_of_whole_tensors_in_a_region_takes_no_scattered_rows() -> None:
    waiting_rows(merge=True).register()
    done = penstock.compile(five_poolings(), "host", accelerators=("rows",), optimize="size")
    program, (inputs,) = done.compilation.program, api.drawn_sets(done.compilation, 1)

    def whole(command: Command) -> Command:
        if not isinstance(command, Call) or not command.members:
            return command
        first = command.members[0]
        kernel = replace(first.kernel, by_rows=False)
        return replace(command, members=(replace(first, kernel=kernel), *command.members[1:]))

    with pytest.raises(InternalError) as caught:
        Machine(replace(program, run=tuple(map(whole, program.run)))).run(inputs)
    assert caught.value.code == "machine-009"
    assert '"pool1"' in caught.value.what


def test_regions_form_between_the_third_and_the_fourth_phase() -> None:
    """A region function receives what passes after placement return; passes before emission see
    what it returns."""
    seen: dict[PassPhase, list[tuple[int, int, int]]] = {phase: [] for phase in phases.PASSES}

    def spy(phase: PassPhase) -> Any:
        def look(program: Program, target: AcceleratorTarget) -> Program:
            every = [call for call in calls(program) if call.engine == target.name]
            ends = [c for call in every for c in walk(call.body) if c == Invoke(phases.END, ())]
            members = sum(len(call.members) for call in every)
            seen[phase].append((len(every), members, len(ends)))
            return program

        return look

    backend: Any = waiting_rows(merge=True)
    for phase in phases.PASSES:
        backend._register_tir_pass(phase, spy(phase))
    backend.register()
    penstock.compile(phases.network(), "host", accelerators=("rows",), optimize="speed")
    before, stripes, placed, emitted = (set(seen[phase]) for phase in phases.PASSES)
    assert before == stripes == {(2, 0, 0)}, "one call for each layer, not yet a wait"
    assert placed == {(2, 0, 2)}, "the earlier pass of this phase has added the waits"
    assert emitted == {(1, 2, 1)}, "one call for the region, with one wait"
