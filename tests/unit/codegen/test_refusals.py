"""Programs without a C form are errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from by_hand import compilation_of
from cascades import EVERY_PROGRAM, chain, layers
from penstock.codegen.c_program import generate
from penstock.errors import InternalError
from penstock.program.expr import Var
from penstock.program.program import Call, Command, FillTensor, Kind, Loop, Program
from penstock.program.steps import calls
from programs import SAME, Example, cascade, ring_layout, two_convolutions


def refused(program: Program) -> str:
    """The code of the error."""
    with pytest.raises(InternalError) as caught:
        generate(program, "by_hand", "a test", keeps_input=False)
    return caught.value.code


def a_call() -> Call:
    """A call for row m of an image of 8 rows."""
    graph = two_convolutions(8, SAME, SAME)
    return calls(cascade(graph, ring_layout(graph, 3)))[0]


def with_calls(program: Program, **changes: object) -> Program:
    """The program with something else in every call."""

    def changed(command: Command) -> Command:
        if isinstance(command, Loop):
            return replace(command, body=tuple(map(changed, command.body)))
        return replace(command, **changes) if isinstance(command, Call) else command

    return replace(program, run=tuple(map(changed, program.run)))


def test_rows_of_a_kernel_for_whole_tensors_are_refused() -> None:
    graph = two_convolutions(8, SAME, SAME)
    kernel = replace(a_call().kernel, by_rows=False)
    program = with_calls(cascade(graph, ring_layout(graph, 3)), kernel=kernel)
    assert refused(program) == "codegen-002"


@pytest.mark.parametrize("fault", ["a ring", "an offset"])
def test_constants_that_no_array_shows_are_refused(fault: str) -> None:
    graph = layers(5, SAME)
    program = chain(graph, ("near", "near"))
    bias = calls(program)[0].inputs[2]
    wrong = {
        "a ring": replace(bias, rows=replace(bias.rows, pitch=12)),
        "an offset": replace(bias, offset=Var("r")),
    }[fault]
    inputs = (*calls(program)[0].inputs[:2], wrong)
    assert refused(with_calls(program, inputs=inputs)) == "codegen-003"


def test_commands_out_of_place_are_refused() -> None:
    graph = layers(5, SAME)
    program = chain(graph, ("near", "near"))
    assert refused(replace(program, reset=program.run[:1])) == "codegen-007"
    fill = FillTensor(program.inputs[0], 0)
    assert refused(replace(program, run=(fill, *program.run))) == "codegen-006"


@pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda e: e.name)
def test_the_plan_has_every_buffer_once(example: Example) -> None:
    text = compilation_of(example).bundle["by_hand.c"].decode()
    for k, buffer in enumerate(example.program.buffers):
        if buffer.kind is not Kind.CONSTANT:
            assert text.count(f"    at{k:02d}_") == 1, buffer.name
