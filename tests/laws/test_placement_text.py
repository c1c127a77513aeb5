"""Law: the text of a placement reads back, whatever its blocks are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.memory.placement_text import print_placement, read_placement
from penstock.memory.problem import Placement
from penstock.scanner import Scanner

NAMES = (
    st.text(max_size=12)
    | st.from_regex(r"(a|b|placement|in)\[[0-9]{1,2}:[0-9]{1,2}\]", fullmatch=True)
    | st.sampled_from(("placement", "in", "a", "a[٣:4]", "[0:1]"))
)
PLACEMENTS = st.builds(
    Placement,
    st.lists(st.tuples(NAMES, st.integers(0, 2**40)), max_size=30).map(tuple),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.text(max_size=20),
    st.integers(0, 2**40),
)


@given(placements=st.lists(st.tuples(st.text(max_size=5), PLACEMENTS), max_size=3))
def test_placements_read_back(placements: list[tuple[str, Placement]]) -> None:
    scanner = Scanner("".join(print_placement(found, memory) for memory, found in placements))
    read: list[tuple[str, Placement]] = []
    while not scanner.at_end:
        read.append(read_placement(scanner))
    assert read == placements
