"""Which tensors of a cascade can be copied out by rows, and how texts state such copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.backends.processor_parts import assign
from penstock.errors import ModelError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.search import schedule
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.options import Options
from penstock.scheduling.row_copies.conditions import copyable, copyable_in, copyable_out
from penstock.scheduling.text.frontier import print_frontier, read_frontier
from slow_memory import SLOW, TWO_REGIONS


def residual() -> Graph:
    """Two convolutions, a sum with the output of the first one, and a mean over rows."""
    net = GraphBuilder("residual")
    first = net.conv2d(net.input((1, 12, 8, 4)), 4, 3, name="first")
    second = net.conv2d(first, 4, 3, name="second")
    return net.build(net.global_average_pool(net.add(first, second, name="sum"), name="mean"))


def indices(parts: Parts, *names: str) -> tuple[int, ...]:
    return tuple(k for k, part in enumerate(parts.parts) if part.name in names)


def test_only_rows_that_later_cascades_read_are_copied_out() -> None:
    parts = assign(residual(), TWO_REGIONS)
    assert copyable_out(parts, indices(parts, "first"), "first")
    assert not copyable_out(parts, indices(parts, "first", "second"), "first")  # read inside
    assert copyable_out(parts, indices(parts, "first", "second"), "second")
    assert copyable_out(parts, indices(parts, "second", "sum"), "sum")
    assert not copyable_out(parts, indices(parts, "second", "sum"), "first")  # written before
    assert not copyable_out(parts, indices(parts, "sum", "mean"), "mean")  # a single row


def test_a_tensor_is_copied_either_in_or_out() -> None:
    parts = assign(residual(), TWO_REGIONS)
    for names in (("first",), ("first", "second"), ("second", "sum"), ("sum",), ("sum", "mean")):
        cascade = indices(parts, *names)
        for part in parts.parts:
            out = RowCopy(part.name, "tcm", overlapped=True, out=True)
            ways = [copyable(parts, cascade, copy) for copy in (replace(out, out=False), out)]
            assert ways == [f(parts, cascade, part.name) for f in (copyable_in, copyable_out)]
            assert not all(ways)


def chain_text() -> tuple[Parts, str]:
    """A schedule with two cascades, of which the first copies in and out, as text."""
    net = GraphBuilder("chain")
    x = net.conv2d(net.input((1, 24, 16, 8)), 8, 3, name="first")
    parts = assign(net.build(net.conv2d(x, 8, 3, name="second")), SLOW)
    options = Options(copies=False, placement_work=0, max_stripe=4)
    found = schedule(parts, SLOW, options).schedules
    two = next(s for s in found if len(s.plans) == 2 and any(c.out for c in s.plans[0].row_copies))
    return parts, print_frontier(Frontier((two,)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows first from tcm", "rows input from tcm", "cannot write"),
        ("rows first from tcm", "rows second from tcm", "cannot write"),
        ("rows input to tcm overlapped rows first from tcm",
         "rows first from tcm rows input to tcm overlapped", "follows a copy from a ring"),
    ],
)  # fmt: skip
def test_texts_with_impossible_copies_are_rejected(old: str, new: str, message: str) -> None:
    parts, text = chain_text()
    assert read_frontier(text, parts)
    assert text.count(old) == 1
    with pytest.raises(ModelError, match=message):
        read_frontier(text.replace(old, new), parts)
