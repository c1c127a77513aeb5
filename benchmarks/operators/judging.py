"""Judging: a drawn model by penstock's arithmetic and by TensorFlow Lite Micro, every element."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from benchmarks.operators.drawing import Array, Drawn
from benchmarks.operators.reference import Reference, Refusal
from penstock import api
from penstock.errors import PenstockError
from penstock.execution import run_on_host
from penstock.frontends import tflite
from penstock.frontends.open import parse
from penstock.simulators.compare import is_near
from penstock.simulators.graph import initial_states, run_graph
from penstock.simulators.tflite_deviations import deviation_of
from tools.tflite_writer import OperatorSpec


class Outcome(Enum):
    """What came of a model; the value heads a column of the table."""

    AGREES = "agrees"
    DEVIATES = "deviates as documented"
    BOTH_REFUSE = "both refuse"
    PENSTOCK_REFUSES = "penstock refuses"
    REFERENCE_REFUSES = "TFLM refuses"
    REFERENCE_CRASHES = "TFLM crashes"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """An outcome, what explains it, and the outputs where both agree."""

    outcome: Outcome
    note: str = ""
    outputs: tuple[Array, ...] = ()

    @property
    def is_telling(self) -> bool:
        """Whether some output is not the same element everywhere."""
        return any(np.unique(output).size > 1 for output in self.outputs)


def judge(drawn: Drawn, reference: Reference) -> Verdict:
    """The outcome of one model."""
    try:
        found = evaluated(drawn)
    except PenstockError as error:
        answer = reference.run(drawn.tflite(), drawn.values)
        both = isinstance(answer, Refusal)
        outcome = Outcome.BOTH_REFUSE if both else Outcome.PENSTOCK_REFUSES
        return Verdict(outcome, f"{error.code}: {error.what}")
    *_, node = tflite.decode(drawn.tflite(), drawn.operator.name).nodes
    deviation = deviation_of(node)
    if deviation is None:
        answer = reference.run(drawn.tflite(), drawn.values)
    else:
        given = dict(zip(drawn.inputs, drawn.values, strict=True))
        inputs = [
            None if k < 0 else given.get(k, drawn.tensors[k].data) for k in drawn.operator.inputs
        ]
        answer = (deviation.expected(node, inputs),)
    if isinstance(answer, Refusal):
        crashed = Outcome.REFERENCE_CRASHES if answer.crashed else Outcome.REFERENCE_REFUSES
        return Verdict(crashed, answer.reason)
    tolerance = deviation.tolerance if deviation else 0
    difference = first_difference(found, answer, tolerance, ulps_of(drawn))
    if difference:
        return Verdict(Outcome.MISMATCH, difference)
    return Verdict(Outcome.DEVIATES if deviation else Outcome.AGREES, outputs=found)


def evaluated(drawn: Drawn) -> tuple[Array, ...]:
    """Outputs by the operators' own arithmetic.  Raises PenstockError where it is not taken."""
    graph = parse(drawn.tflite(), drawn.operator.name)
    inputs = {v.name: x for v, x in zip(graph.inputs, drawn.values, strict=True)}
    values = run_graph(graph, {**inputs, **initial_states(graph)})
    return tuple(
        v.data.array(v.type) if v.data is not None else values[v.name] for v in graph.outputs
    )


def ulps_of(drawn: Drawn) -> int:
    """The stated tolerance of the operator under test for real-valued results."""
    graph = parse(drawn.tflite(), drawn.operator.name)
    return max((node.op.REFERENCE_ULPS for node in graph.nodes), default=0)


def first_difference(
    found: Sequence[Array], expected: Sequence[Array], tolerance: int = 0, ulps: int = 0
) -> str:
    """The first outputs that differ by more than the allowed steps; empty if none does.

    `ulps`: tolerance of real numbers, see `is_near`."""
    for k, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if mine.shape != theirs.shape:
            return f"output {k} has shape {mine.shape}, must be {theirs.shape}"
        if mine.dtype.kind == "f":
            wrong = np.argwhere(~is_near(mine, theirs, ulps))
        else:
            off = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
            wrong = np.argwhere(off > tolerance)
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            return f"{len(wrong)} of {mine.size} elements of output {k} differ; at {at} it is " + (
                f"{mine[at]}, must be {theirs[at]}"
            )
    return ""


def difference_in_c(models: Sequence[tuple[Drawn, Verdict]]) -> str:
    """The first difference of the generated C, for all models compiled as one; empty if none."""
    whole = side_by_side([drawn for drawn, _ in models])
    expected = [output for _, verdict in models for output in verdict.outputs]
    with tempfile.TemporaryDirectory(prefix="penstock-operators-") as folder:
        path = Path(folder) / "operators.tflite"
        path.write_bytes(whole.tflite())
        done = api.compile(path).compilation
    names = [value.name for value in done.model.inputs]
    (tensors,) = run_on_host(done, [dict(zip(names, whole.values, strict=True))]).tensors
    found = [
        tensors[v.name] if v.data is None else v.data.array(v.type) for v in done.model.outputs
    ]
    return first_difference(found, expected)


def side_by_side(models: Sequence[Drawn]) -> Drawn:
    """One model of which the given ones are parts that share nothing."""
    tensors, operators = [], []
    inputs: list[int] = []
    outputs: list[int] = []
    values: list[Array] = []
    for number, model in enumerate(models):
        first = len(tensors)
        tensors += [replace(t, name=f"m{number}_{k}") for k, t in enumerate(model.tensors)]
        operators += [_moved(operator, first) for operator in model.operators]
        inputs += [first + k for k in model.inputs]
        outputs += [first + k for k in model.outputs]
        values += model.values
    return Drawn(tuple(tensors), tuple(operators), tuple(inputs), tuple(outputs), tuple(values))


def _moved(operator: OperatorSpec, first: int) -> OperatorSpec:
    """The operator with indices of tensors that begin at `first`; -1 stays."""
    inputs = tuple(k + first if k >= 0 else k for k in operator.inputs)
    outputs = tuple(k + first for k in operator.outputs)
    return replace(operator, inputs=inputs, outputs=outputs)
