"""Law: `parse(show(x)) == x` for every noun with a text form; malformed text is a ModelError."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascades import EVERY_PROGRAM
from found import every_sample
from lowered import lower
from penstock.errors import ModelError
from penstock.ir.graph import Graph
from penstock.ir.op import Sample
from penstock.ir.tensor import Data
from penstock.program.program import Buffer, Kind
from penstock.program.text import parse, show
from programs import Example
from strategies import graphs


@every_sample
def test_an_operator_reads_back(sample: Sample) -> None:
    assert parse(show(sample.op)) == sample.op


@every_sample
def test_a_site_reads_back(sample: Sample) -> None:
    assert parse(show(sample.site)) == sample.site


@given(graph=graphs())
def test_a_graph_reads_back(graph: Graph) -> None:
    assert parse(show(graph)) == graph


@given(graph=graphs())
def test_a_lowered_program_reads_back(graph: Graph) -> None:
    program = lower(graph).program
    assert parse(show(program)) == program


@pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda example: example.name)
def test_a_program_with_loops_and_copies_reads_back(example: Example) -> None:
    assert parse(show(example.program)) == example.program


@given(
    name=st.text(max_size=30),
    numbers=st.lists(st.integers(-(2**40), 2**40), max_size=40).map(tuple),
    reals=st.lists(st.floats(allow_nan=False), max_size=40).map(tuple),
)
def test_names_and_numbers_read_back(
    name: str, numbers: tuple[int, ...], reals: tuple[float, ...]
) -> None:
    for noun in (name, numbers, reals, (Fraction(1, 3), None, True, name), ((), (numbers,))):
        assert parse(show(noun)) == noun


@given(raw=st.binary(max_size=60))
def test_bytes_read_back(raw: bytes) -> None:
    buffer = Buffer("w", Kind.CONSTANT, "rom", 0, len(raw), Data(raw))
    assert parse(show(buffer)) == buffer


def test_equal_data_is_written_once() -> None:
    twice = (Data(b"12345678" * 9), Data(b"12345678" * 9))
    assert show(twice).count("\ndata ") == 1
    assert parse(show(twice)) == twice


def test_bytes_that_read_like_numbers_are_not_taken_for_them() -> None:
    numbers = tuple(range(40))
    noun = (Data(" ".join(map(str, numbers)).encode()), numbers)
    assert parse(show(noun)) == noun


def test_text_without_its_data_cannot_be_read_back() -> None:
    with pytest.raises(ModelError, match="left out"):
        parse(show(Data(b"1234"), with_data=False))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Region(",
        "Region((0,), (1,), (2,))",
        "Region(lower=(0,), upper=(1,), (2,))",
        "NoSuchThing()",
        "Kind.NONE_SUCH",
        "Kind.__class__",
        "Region.whole",
        "NoSuchThing.MEMBER",
        "Fraction(1, 0)",
        "Fraction('x')",
        "Region(**{'lower': (0,)})",
        "[1, 2]",
        "-'x'",
        "1 + 1",
        "__import__('os')",
        "lambda: 0",
        '"\0"',
        "(" * 5000,
        "-" * 20000 + "1",
        'Data("00")\ndata 00 not base85 \\"',
        'Data("00")\ndata 00 \x80',
        'Numbers("00")\nnumbers 00 1 x',
        'Numbers("00")\nnumbers 00 1 (',
        'Numbers("00")\ndata 00 00',
        'Numbers("00", "01")',
        "Data(b'12')",
        "data",
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(ModelError):
        parse(text)


@given(data=st.data(), graph=graphs(most_nodes=2))
def test_damaged_text_is_read_or_refused(data: st.DataObject, graph: Graph) -> None:
    text = show(graph)
    for _ in range(10):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.sampled_from((0, 1, 5, len(text))))
        extra = data.draw(st.sampled_from(("", "0", "(", ")", '"', "\\", "\n", "-", ".", " ", "é")))
        try:
            parse(text[:at] + extra + text[at + gone :])
        except ModelError as error:
            assert error.code.startswith("text-")  # noqa: PT017  (both outcomes are right)
