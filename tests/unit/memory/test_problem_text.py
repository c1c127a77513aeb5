"""Text of problems: round trips, and errors with the line of malformed text."""

import pytest

from penstock.errors import UsageError
from penstock.memory.greedy import place_greedily
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.memory.text import parse, show, show_placement

TEXT = "id,lower,upper,size\na,0,3,4\nb,2,5,6\n"


def test_the_plain_format_reads_and_writes() -> None:
    problem = parse(TEXT, capacity_bytes=10)
    assert problem == PlacementProblem((LiveBuffer("a", 0, 3, 4), LiveBuffer("b", 2, 5, 6)), 10)
    assert show(problem) == TEXT


def test_columns_may_be_in_any_order() -> None:
    assert parse("size,offset,id,upper,lower\n4,8,a,3,0\n") == PlacementProblem(
        (LiveBuffer("a", 0, 3, 4, fixed_offset=8),)
    )


def test_alignments_and_fixed_offsets_survive_the_round_trip() -> None:
    problem = PlacementProblem((LiveBuffer("a, quoted", 0, 3, 4, 8, 16), LiveBuffer("b", 2, 5, 6)))
    assert parse(show(problem)) == problem


def test_ties_survive_the_round_trip() -> None:
    problem = PlacementProblem(
        (LiveBuffer("r0", 0, 3, 4), LiveBuffer("r1", 2, 5, 4, anchor="r0", distance_bytes=4))
    )
    assert "r1,2,5,4,r0,4" in show(problem)
    assert parse(show(problem)) == problem


def test_a_placement_reads_back_as_a_problem_without_choice() -> None:
    problem = parse(TEXT)
    placement = place_greedily(problem)
    fixed = parse(show_placement(problem, placement))
    assert place_greedily(fixed).offsets == placement.offsets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the header is empty"),
        ("id,lower,upper\n", "the header is id, lower, upper"),
        ("id,lower,upper,size,colour\n", "colour"),
        ("id,lower,upper,size\na,0,3,4\nb,0,three,4\n", "line 3"),
        ("id,lower,upper,size\na,0,3\n", "line 2"),
        ("id,lower,upper,size\na,3,0,4\n", "at least one tick"),
        ("id,lower,upper,size\na,0,3,4\na,0,3,4\n", "same name"),
        ("id,lower,upper,size\na,0,3,4,5\n", "line 2"),
        ("id,lower,upper,size,anchor\na,0,3,4,b\n", "a is tied to b"),
        ("id,lower,upper,size,distance\na,0,3,4,8\n", "without an anchor"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)
