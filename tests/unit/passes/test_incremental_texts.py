"""The pass `incremental` on texts: `hops/incremental.txt` holds cases.

    case a description
    hop 1
    before:
      graph g
      ..
    after:
      graph g
      ..

A near miss has a line `error CODE` instead of the graph after the pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ir.text.printer import print_graph
from penstock.passes.incremental import incremental
from texts.graph_reader import graph_from_text

TEXT = (Path(__file__).parent / "hops" / "incremental.txt").read_text("utf-8")
CASE = re.compile(
    r"^case (?P<name>.*)\nhop (?P<hop>\d+)\nbefore:\n(?P<before>(?:  .*\n)+)"
    r"(?:after:\n(?P<after>(?:  .*\n)+)|error (?P<error>.*)\n)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Case:
    """A graph's text, the hop, and the text of the incremental graph or the code of an error."""

    name: str
    hop: int
    before: str
    after: str | None
    error: str | None


CASES = [
    Case(m["name"], int(m["hop"]), m["before"], m["after"], m["error"]) for m in CASE.finditer(TEXT)
]


def test_every_case_is_understood() -> None:
    assert len(CASES) == len(re.findall("^case ", TEXT, re.MULTILINE))
    assert {case.after is None for case in CASES} == {True, False}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_pass_produces_the_expected_graph_or_error(case: Case) -> None:
    before = graph_from_text(case.before)
    if case.after is not None:
        expected = print_graph(graph_from_text(case.after))
        assert print_graph(incremental(before, case.hop)) == expected
        return
    with pytest.raises(PenstockError) as raised:
        incremental(before, case.hop)
    assert raised.value.code == case.error
