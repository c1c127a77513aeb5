"""Columns that parts read: a result is reused for the part itself only, not for its name."""

from __future__ import annotations

import pytest

from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from penstock.opkit.selection import ListedMap, StridedMap
from penstock.scheduling.bands.columns import PartColumnReads
from penstock.scheduling.model.part import Part
from texts.graph_reader import graph_from_text

POOLED = """
graph g
input x: int8[1,4,9,2] scale 0.5
y: int8[1,4,COUNT,2] scale 0.5 = MaxPool2D(x, rows=Window(size=1), columns=Window(size=SIZE))
output y
"""


def part(size: int) -> Part:
    """The part `y` of a network: a pool with windows of some columns."""
    text = POOLED.replace("SIZE", str(size)).replace("COUNT", str(10 - size))
    (found,) = assign(graph_from_text(text), load_target("host")).parts
    return found


def test_graphs_whose_parts_have_the_same_names_can_share_the_reads() -> None:
    reads = PartColumnReads()
    for size in (2, 3, 2):
        assert reads.columns(part(size), (1, 3)) == (("x", (1, 2 + size)),)


@pytest.mark.parametrize("step", [-3, -2, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("start", range(-5, 8))
def test_an_axis_needs_the_hull_of_the_indices_inside_that_it_lists(start: int, step: int) -> None:
    for extent, lower, upper in ((6, 0, 5), (6, 2, 3), (1, 1, 4), (6, 3, 3)):
        listed = [o for k in range(lower, upper) if 0 <= (o := start + step * k) < extent]
        expected = (min(listed), max(listed) + 1) if listed else (0, 0)
        assert StridedMap(start, step).needs((lower, upper), extent) == expected
        entries = tuple(start + step * k for k in range(upper))
        assert ListedMap(entries).needs((lower, upper), extent) == expected
