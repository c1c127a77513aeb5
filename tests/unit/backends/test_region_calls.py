"""Consecutive calls of one compiler region run as one call: one stream, or one invocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import penstock
from examples.uma import regions
from examples.uma.regions import Pools, network
from penstock import api
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError, InternalError
from penstock.pipeline.stages import ASSIGN, LOWER, STAGES, Context, run_stages
from penstock.pipeline.texts import program_context
from penstock.program.steps import calls
from penstock.program.text.printer import print_program
from penstock.program.text.reader import read_program
from penstock.simulators.machine import Machine
from penstock.uma import Command, Graph, Program


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
    context = program_context(outcomes.result(ASSIGN), request.accelerators)
    text = print_program(program, context, with_data=True)
    assert "  region {\n    call pool0(input)\n" in text
    assert read_program(text, context) == program


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
