"""Executed cases: cases of TVM's cascader on programs that the reference machine executes.

    python -m benchmarks.executed_cases FILE

For each case of FILE, which `benchmarks.cases` checks on the algebra, a network is built whose
cascade has the stripes of the case; it is scheduled, placed, lowered and executed. The stripes that
the machine counts are compared with those of the case, in number, shape and offset:

    count_stripes    the windows of a tensor that a layer reads, or, for a sliding window, the rows
                     that are computed for each of them
    propagators      the windows that a layer of this transform reads
    op_propagators   the windows of each input that the operator of the case reads, in stripes of
                     two rows and, where possible, three columns

Every program is also compared with its schedule (`TensorConfig`), and its outputs with those of the
operators. Cases without such a network are listed with the reason. Exits with 1 if a case differs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cascader_cases import Config, Counts, Expected, Propagation
from benchmarks.cascader_operators import Operator, Windowed
from benchmarks.case_file import Document, read_as, read_document
from benchmarks.entry import entry
from penstock import cascader
from penstock.errors import UnsupportedError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.affine import Affine
from penstock.ir.graph import Graph, Value
from penstock.ir.region import Region
from penstock.opkit.window import Window
from penstock.ops.abs import Abs
from penstock.ops.add import Add
from penstock.ops.conv2d import Conv2D
from penstock.ops.quantize import Quantize
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

ROWS, COLUMNS = 2, 3
"""Stripe size in which operators are executed."""
Regions = Counter[Region]


class NotExpressible(Exception):
    """A case for which there is no network, with the reason."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The stripes that the machine counted, by tensor: computed ones, and windows read."""

    computed: Mapping[str, Regions]
    read: Mapping[str, Regions]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case: a difference, or how often it was compared, or why it was not."""

    label: str
    compared: str = ""
    difference: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.label}: not executed: {self.reason}"
        return f"{self.label}: {self.difference or f'equal: {self.compared}'}"


def main(arguments: Sequence[str]) -> int:
    """Prints the outcome of every case; returns 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executed_cases")
    parser.add_argument("file", type=Path, metavar="FILE", help="cases, as JSON")
    path: Path = parser.parse_args(arguments).file
    found = tuple(outcomes(read_document(path), str(path)))
    for outcome in found:
        print(outcome)
    wrong = sum(bool(outcome.difference) for outcome in found)
    left = sum(bool(outcome.reason) for outcome in found)
    print(f"{len(found)} cases: {len(found) - wrong - left} equal, {wrong} differ, {left} not executed")
    return 1 if wrong else 0


def outcomes(document: Document, where: str) -> Iterator[Outcome]:
    """Yield the outcome of every case of a file."""
    judges = {
        "count_stripes": _counted,
        "propagators": _propagated,
        "op_propagators": _operator,
    }
    for key, judge in judges.items():
        section = document.get(key)
        cases = section.get("cases") if isinstance(section, Mapping) else section
        for k, case in enumerate(cases or ()):
            names = [str(case[field]) for field in ("name", "op") if field in case]
            label = " ".join((key, f"case {k}", *names))
            try:
                compared, difference = judge(case, f"{where}: {key}, case {k}")
                yield Outcome(label, compared, difference)
            except NotExpressible as error:
                yield Outcome(label, reason=str(error))


def executed(graph: Graph, rows: int | None, columns: int | None) -> Executed:
    """Execute a network as a single cascade in stripes of so many rows and columns.

    Raises AssertionError if an output differs from the operators, or the stripes that the machine
    counts from those of the schedule.
    """
    parts = cascader.parts(graph)
    schedule = cascader.single_cascade(parts, rows, columns)
    machine = Machine(cascader.program(schedule))
    random = np.random.default_rng(1)
    inputs = {v.name: random.integers(-128, 128, v.type.shape, np.int8) for v in graph.inputs}
    outputs, expected = machine.run(inputs), run_graph(graph, inputs)
    for name, elements in outputs.items():
        assert np.array_equal(elements, expected[name]), f"{name} differs from the operators"
    configs = {c.tensor: Counter(c.regions()) for c in cascader.tensor_configs(schedule)}
    assert configs == machine.counts.stripes, "the machine counts other stripes than the schedule"
    return Executed(machine.counts.stripes, machine.counts.windows)


def _counted(found: object, where: str) -> tuple[str, str]:
    """Execute the stripes of a tensor: windows that the last layer reads of an interior tensor."""
    case = read_as(Counts, found, where)
    config = case.stripe_config.value()
    axes = [_window(config, axis) for axis in range(len(config.shape))]
    if len(axes) > 2 and axes[2] != (config.extent[2], 1, config.extent[2]):
        raise NotExpressible(
            "it has stripes of some channels; a call computes all channels of its rows"
        )
    (rows, row, height), (columns, column, width) = (*axes, (1, Window(1), 1))[:2]
    channels = config.extent[2] if len(axes) > 2 else 1
    net = GraphBuilder("stripes")
    x = net.input((1, config.extent[0], width if len(axes) > 1 else 1, channels))
    raise NotImplementedError
