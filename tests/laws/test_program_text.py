"""Programs have texts of their own: two that differ do not look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cascades import EVERY_PROGRAM
from penstock.errors import InternalError
from penstock.program.steps import steps
from penstock.program.text import ProgramContext, print_program
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from programs import Example


def context_of(example: Example) -> ProgramContext:
    """The parts that a program written by hand runs."""
    calls = {call.output.tensor: call for call in steps(example.program)}
    parts = (
        Part((replace(node, origin=call.origin),), call.engine, call.kernel)
        for node in example.graph.nodes
        for call in [calls.get(node.name)]
        if call is not None
    )
    return ProgramContext(Parts(example.graph, tuple(parts)))


def test_programs_with_loops_and_copies_have_texts_of_their_own() -> None:
    texts = [print_program(one.program, context_of(one)) for one in EVERY_PROGRAM]
    assert len(set(texts)) == len(EVERY_PROGRAM)


def test_a_call_that_no_part_makes_has_no_text() -> None:
    example = EVERY_PROGRAM[0]
    with pytest.raises(InternalError, match="is not one of a part"):
        print_program(example.program, ProgramContext(Parts(example.graph, ())))
