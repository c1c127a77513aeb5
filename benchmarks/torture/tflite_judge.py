"""Judge of TFLite models: TensorFlow Lite Micro or TensorFlow, then the ladder."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators import judging
from benchmarks.operators.drawing import Drawn
from benchmarks.operators.nodes import nodes_as_models
from benchmarks.operators.reference import Reference, Refusal, tflite_micro
from benchmarks.torture.case import Case, Outcome, Verdict
from benchmarks.torture.compiling import compiled, ladder_verdict, refusal
from penstock import api
from penstock.errors import PenstockError
from penstock.frontends import tflite
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.simulators.graph import initial_states, run_graph

ARENA_BYTES = 32 << 20
SETS = 2


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on a TFLite model."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"model{case.suffix}"
        path.write_bytes(case.raw)
        try:
            done = compiled(path, case.target, deep)
            sets = api.drawn_sets(done, SETS)
            return reference_verdict(case.raw, done, sets[0]) or ladder_verdict(done, sets, deep)
        except PenstockError as error:
            return refusal(error)


def reference_verdict(raw: bytes, done: Compilation, inputs: Mapping[str, Array]) -> Verdict | None:
    """A verdict if the operators' arithmetic differs from the reference; operator by operator where
    the model as a whole differs, since documented deviations are right.  TensorFlow has the last
    word: TensorFlow Lite Micro misreads weights that are dequantised by channel."""
    answer = reference().run(raw, tuple(inputs.values()))
    values = values_of(done, inputs)
    if isinstance(answer, Refusal):
        return operators_verdict(raw, values)[0]
    found = tuple(
        values[v.name] if v.data is None else v.data.array(v.type) for v in done.model.outputs
    )
    ulps = tolerance(done.model)
    difference = judging.first_difference(found, answer, ulps=ulps)
    if not difference:
        return None
    wrong, deviates = operators_verdict(raw, values)
    if wrong is None and not deviates:
        last = by_tensorflow(raw, tuple(inputs.values()))
        if last is not None and not judging.first_difference(found, last, ulps=ulps):
            return None
        return Verdict(Outcome.WRONG, "reference", "", difference)
    return wrong


def tolerance(model: Graph) -> int:
    """The largest sum of tolerances of nodes on a path (`REFERENCE_ULPS`)."""
    sums: dict[str, int] = {}
    for node in model.nodes:
        before = max((sums.get(value.name, 0) for value in node.inputs), default=0)
        sums[node.name] = before + node.op.REFERENCE_ULPS
    return max(sums.values(), default=0)


def values_of(done: Compilation, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Every tensor by the operators' own arithmetic."""
    return run_graph(done.model, {**inputs, **initial_states(done.model)})


def operators_verdict(raw: bytes, values: Mapping[str, Array]) -> tuple[Verdict | None, bool]:
    """A verdict if an operator by itself differs from the reference; and whether one deviates as
    documented.  TensorFlow judges those that TensorFlow Lite Micro lacks; where that crashes, the
    result is not defined."""
    deviates = False
    for drawn in nodes_as_models(tflite.decode(raw, "model.tflite"), values):
        name, verdict = drawn.operator.name, judging.judge(drawn, reference())
        note = verdict.note if verdict.outcome is judging.Outcome.MISMATCH else ""
        if verdict.outcome is judging.Outcome.REFERENCE_REFUSES:
            note = _differs_from_tensorflow(drawn)
        if note and not _is_undefined(drawn):
            return Verdict(Outcome.WRONG, "reference", name, f"{name}: {note}"), deviates
        deviates |= bool(note) or verdict.outcome is judging.Outcome.DEVIATES
    return None, deviates


def _is_undefined(drawn: Drawn) -> bool:
    """Whether real numbers are quantised to more than 32 bits hold: the runtimes convert them to
    int32 before they saturate (`reference/quantize.h`), which C leaves undefined."""
    if drawn.operator.name != "QUANTIZE" or drawn.values[0].dtype != np.float32:
        return False
    scales = drawn.tensors[drawn.outputs[0]].scales
    return bool((np.abs(drawn.values[0]) / np.float32(min(scales)) >= 2.0**31).any())


def tensorflow_verdict(raw: bytes, values: Mapping[str, Array]) -> tuple[Verdict | None, bool]:
    """As `operators_verdict`, for uint8 operators: TensorFlow judges all of them, since TensorFlow
    Lite Micro runs some without computing anything."""
    for drawn in nodes_as_models(tflite.decode(raw, "model.tflite"), values):
        name, note = drawn.operator.name, _differs_from_tensorflow(drawn)
        if note:
            return Verdict(Outcome.WRONG, "reference", name, f"{name}: {note}"), False
    return None, False


@cache
def reference() -> Reference:
    """The process of this process that runs TensorFlow Lite Micro."""
    return Reference(tflite_micro(ARENA_BYTES))


def _differs_from_tensorflow(drawn: Drawn) -> str:
    """How an operator differs from TensorFlow; empty if it does not, or TensorFlow gives nothing to
    compare."""
    if drawn.operator.name == "SVDF" and "int16" not in {spec.dtype for spec in drawn.tensors}:
        return ""  # TensorFlow reads a state of int8 as int16, beyond its end
    answer = by_tensorflow(drawn.tflite(), drawn.values)
    if answer is None:
        return ""
    return judging.first_difference(judging.evaluated(drawn), answer, 0, judging.ulps_of(drawn))


def by_tensorflow(raw: bytes, inputs: Sequence[Array]) -> tuple[Array, ...] | None:
    """The outputs by TensorFlow's reference kernels; None if it is missing, refuses the model, or
    ends its process."""
    if importlib.util.find_spec("tensorflow") is None:
        return None
    answer = _tensorflow().run(raw, tuple(inputs))
    return None if isinstance(answer, Refusal) else answer


@cache
def _tensorflow() -> Reference:
    return Reference(_by_reference_kernels)


def _by_reference_kernels(raw: bytes, inputs: Sequence[Array]) -> tuple[Array, ...]:
    import tensorflow

    lite: Any = tensorflow.lite
    kernels = lite.experimental.OpResolverType.BUILTIN_REF
    with warnings.catch_warnings(action="ignore"):  # the class will move to another package
        running = lite.Interpreter(model_content=raw, experimental_op_resolver_type=kernels)
    running.allocate_tensors()
    for detail, array in zip(running.get_input_details(), inputs, strict=True):
        running.set_tensor(detail["index"], array.reshape(detail["shape"]))
    running.invoke()
    return tuple(np.array(running.get_tensor(d["index"])) for d in running.get_output_details())
