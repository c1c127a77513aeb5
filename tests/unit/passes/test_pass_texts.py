"""Passes on texts: each `NAME.txt` beside this file holds cases for the pass NAME.

    case a description
    before:
      graph g
      ..
    after:
      graph g
      ..

A case with `unchanged:` instead of `before:` and `after:` is a graph that the pass must leave as it
is: a near miss, which fulfils all conditions of the pass but one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from lowered import inputs_of_graph
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.ir.text.printer import print_graph
from penstock.ir.verify import verify
from penstock.passes import exchange_axes as exchange
from penstock.passes import matrix_rows as matrices
from penstock.passes.accumulate import accumulate
from penstock.passes.order import PASSES
from penstock.passes.quantised_interface import quantised_interface
from penstock.passes.single_rounding import with_single_rounding
from penstock.passes.states import own_results, queue_sections, queues
from penstock.passes.streamed_rows import streamed_rows
from penstock.simulators.graph import run_graph, run_sequences
from texts.graph_reader import graph_from_text

FOLDER = Path(__file__).parent


def exchange_axes(graph: Graph) -> Graph:
    """The alternative, or the graph itself if there is none."""
    return exchange.exchange_axes(graph) or graph


def matrix_rows(graph: Graph) -> Graph:
    """The alternative, or the graph itself if there is none."""
    return matrices.matrix_rows(graph) or graph


OTHERS = (
    exchange_axes,
    matrix_rows,
    queue_sections,
    accumulate,
    quantised_interface,
    own_results,
    queues,
    streamed_rows,
    with_single_rounding,
)
REWRITES: Mapping[str, Callable[[Graph], Graph]] = {
    rewrite.__name__: rewrite for rewrite in (*PASSES, *OTHERS)
}
MAX_ELEMENTS = 1 << 16
"""Larger graphs are not executed."""
RUNS = 3
"""Number of runs of each graph, which matters if it has state."""


@dataclass(frozen=True)
class Case:
    """A graph's text before a pass, and after it."""

    rewrite: str
    name: str
    before: str
    after: str

    @property
    def unchanged(self) -> bool:
        return self.before == self.after


def cases(rewrite: str, text: str) -> list[Case]:
    """The cases of a file's text."""
    _, *blocks = re.split(r"^case (.*)\n", text, flags=re.MULTILINE)
    found: list[Case] = []
    for name, block in zip(blocks[::2], blocks[1::2], strict=True):
        pieces = re.split(r"^(before|after|unchanged):\n", block, flags=re.MULTILINE)
        texts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        assert set(texts) in ({"before", "after"}, {"unchanged"}), f"{rewrite}: {name}"
        before = texts.get("before") or texts["unchanged"]
        found.append(Case(rewrite, name, before, texts.get("after") or before))
    return found


CASES = [
    case for path in sorted(FOLDER.glob("*.txt")) for case in cases(path.stem, path.read_text())
]


every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rewrite}: {c.name}")


@every_case
def test_the_pass_produces_the_expected_graph(case: Case) -> None:
    before, expected = graph_from_text(case.before), graph_from_text(case.after)
    for graph in (before, expected):
        verify(graph)
        for node in graph.nodes:
            stated, found = node.output.type, node.op.result_type(node.site.inputs)
            assert (stated.shape, stated.dtype) == (found.shape, found.dtype), node.name
    after = REWRITES[case.rewrite](before)
    assert print_graph(after) == print_graph(expected)
    assert after == expected


@every_case
def test_outputs_are_the_same(case: Case) -> None:
    """Bit for bit, but for the pass that changes the rounding."""
    before, after = graph_from_text(case.before), graph_from_text(case.after)
    if case.unchanged or case.rewrite == with_single_rounding.__name__:
        return
    if max(v.type.elements for v in before.variables()) > MAX_ELEMENTS:
        return
    for seed in range(3):
        inputs = inputs_of_graph(before, seed)
        if case.rewrite == quantised_interface.__name__:
            assert_inner_tensors_are_the_same(before, after, inputs)
            continue
        for old, new in zip(outputs(before, inputs), outputs(after, inputs), strict=True):
            np.testing.assert_array_equal(new, old)


def assert_inner_tensors_are_the_same(
    before: Graph, after: Graph, inputs: Mapping[str, Array]
) -> None:
    """For a pass that moves inputs and outputs: each is a tensor of the graph before it."""
    values = run_graph(before, inputs)
    found = run_graph(after, {value.name: values[value.name] for value in after.inputs})
    for value in after.outputs:
        np.testing.assert_array_equal(found[value.name], values[value.name])


def outputs(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Elements of the graph's outputs, constant ones too, in several runs from a reset."""
    return [
        values[v.name] if v.data is None else v.data.array(v.type)
        for values in run_sequences(graph, [inputs] * RUNS, RUNS)
        for v in graph.outputs
    ]


@pytest.mark.parametrize("name", REWRITES)
def test_every_pass_has_a_change_and_a_near_miss(name: str) -> None:
    mine = {case.unchanged for case in CASES if case.rewrite == name}
    assert mine == {True, False}, f"write {name}.txt"


def test_every_file_is_of_a_pass() -> None:
    assert {case.rewrite for case in CASES} == set(REWRITES)


def test_the_how_to_page_shows_a_pass_that_passes_its_cases() -> None:
    page = (FOLDER.parents[2] / "docs" / "how-to" / "add-a-pass.md").read_text("utf-8")
    (text,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Callable[[Graph], Graph]] = {}
    exec(compile(source, "drop_clamp.py", "exec"), names)
    shown = cases("drop_clamp", text)
    assert {case.unchanged for case in shown} == {True, False}
    for case in shown:
        after = names[case.rewrite](graph_from_text(case.before))
        assert print_graph(after) == print_graph(graph_from_text(case.after))
