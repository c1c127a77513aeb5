"""Law: `read_program(print_program(p, c), c) == p`; malformed text is a ModelError."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascades import EVERY_PROGRAM
from lowered import lower
from penstock.errors import InternalError, ModelError
from penstock.ir.graph import Graph
from penstock.ir.text.constants import ConstantReader, ConstantTable
from penstock.program.expr import OPERATORS, Binary, Expr, TableEntry, Var
from penstock.program.program import Program
from penstock.program.steps import steps
from penstock.program.text.context import ProgramContext
from penstock.program.text.expressions import ExprReader, print_expr
from penstock.program.text.printer import print_program, program_constants
from penstock.program.text.reader import read_program
from penstock.scanner import Scanner
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from programs import Example
from strategies import graphs

NUMBERS = st.integers(-(2**40), 2**40)
NAMES = st.sampled_from(("r", "min", "max", "table", "nan", "x[0:2]", "", "a.b")) | st.text(
    max_size=5
)
EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(
    NUMBERS | st.builds(Var, NAMES),
    lambda inner: (
        st.builds(Binary, st.sampled_from(sorted(OPERATORS)), inner, inner)
        | st.builds(TableEntry, st.lists(NUMBERS, min_size=1, max_size=12).map(tuple), inner)
    ),
    max_leaves=12,
)


def reads_back(program: Program, context: ProgramContext) -> None:
    """The text with its data, and the text together with the constants, are the program again."""
    with_data = print_program(program, context, with_data=True)
    assert read_program(with_data, context) == program
    constants = program_constants(program, context)
    assert read_program(print_program(program, context), context, constants) == program


@given(expr=EXPRESSIONS)
def test_an_expression_reads_back(expr: Expr) -> None:
    table = ConstantTable()
    scanner = Scanner(print_expr(expr, table))
    assert ExprReader(scanner, ConstantReader(scanner, table.found)).expr() == expr
    assert scanner.at_end


@given(graph=graphs())
def test_a_lowered_program_reads_back(graph: Graph) -> None:
    lowered = lower(graph)
    reads_back(lowered.program, ProgramContext.of(lowered.schedule))


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


@pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda example: example.name)
def test_a_program_with_loops_and_copies_reads_back(example: Example) -> None:
    reads_back(example.program, context_of(example))


def test_a_call_that_no_part_makes_has_no_text() -> None:
    example = EVERY_PROGRAM[0]
    with pytest.raises(InternalError, match="is not one of a part"):
        print_program(example.program, ProgramContext(Parts(example.graph, ())))


@given(data=st.data(), example=st.sampled_from(EVERY_PROGRAM))
def test_damaged_text_is_read_or_refused(data: st.DataObject, example: Example) -> None:
    context = context_of(example)
    text = print_program(example.program, context, with_data=True)
    for _ in range(10):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.sampled_from((0, 1, 5, len(text))))
        extra = data.draw(st.sampled_from(("", "0", "(", ")", "{", "}", "\n", ":", ",", "@", "é")))
        try:
            read_program(text[:at] + extra + text[at + gone :], context)
        except ModelError as error:
            assert error.code.startswith("text-")  # noqa: PT017  (both outcomes are right)


PROGRAM = """\
program hand
memory far 4096 writable
buffer x: io far 0..60
view x:2: in x rows 0..3
inputs x
run {
  for r in 0..3 step 2 {
    pull x:2 rows r..r + 1
  }
  wait dma "token"
}
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ("program hand", "program", "text-001", (1, 8)),
        ("io far", "inout far", "text-001", (3, 11)),
        ("0..60", "0.60", "text-001", (3, 18)),
        ("view x:2: in x", "view w: in x", "text-001", (4, 9)),
        ("inputs x", "inputs w", "text-002", (5, 8)),
        ("pull x:2", "pull x:3", "text-002", (8, 10)),
        ("pull x:2", "call x:2()", "text-004", (8, 10)),
        ("r + 1", "r +", "text-001", (8, 25)),
        ("step 2", "step r", "text-001", (7, 22)),
        ("wait dma", "invoke wait on dma() #", "text-004", (10, 10)),
        ("wait dma", "sleep dma", "text-001", (10, 3)),
        ("}\n", "", "text-001", (10, 1)),
        ("run {", "runs {", "text-001", (6, 1)),
    ],
)
def test_malformed_text_is_refused_at_its_place(
    old: str, new: str, code: str, place: tuple[int, int]
) -> None:
    context = ProgramContext(Parts(EVERY_PROGRAM[0].graph, ()))
    assert read_program(PROGRAM, context).run
    with pytest.raises(ModelError) as caught:
        read_program(PROGRAM.replace(old, new), context)
    line, column = place
    assert (caught.value.code, caught.value.where) == (
        code,
        f"line {line}, column {column} of the text",
    )
