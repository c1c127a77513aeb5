"""Judge of ONNX models: onnxruntime without graph optimisations, node by node, then the ladder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from benchmarks.torture.case import Case, Outcome, Verdict
from benchmarks.torture.compiling import compiled, ladder_verdict, refusal
from penstock import api
from penstock.api.verified import onnx_reference
from penstock.errors import PenstockError
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.simulators.compare import JudgedTensor
from penstock.simulators.graph import run_graph

SETS = 3
NOT_RUN = "tool-043"
"""The code of the error that onnxruntime does not run a model, or a part of it."""
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "Identity")


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on an ONNX model; one that onnxruntime does not run is only compiled."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"model{case.suffix}"
        path.write_bytes(case.raw)
        reason = not_run(case.raw)
        try:
            done = compiled(path, case.target, deep)
            if reason:
                return Verdict(Outcome.NOT_JUDGED, note=reason)
            sets = api.drawn_sets(done, SETS)
            tensors = [run_graph(done.model, inputs) for inputs in sets]
            wrong = onnx_reference(done.request).judge(tensors).failure
            if wrong and not _is_as_specified(case.raw, done, sets, tensors):
                return _wrong(wrong)
            return ladder_verdict(done, sets, deep)
        except PenstockError as error:
            if error.code == NOT_RUN:
                return Verdict(Outcome.NOT_JUDGED, note=str(error))
            found = refusal(error)
            if reason and found.outcome is not Outcome.INTERNAL:
                return Verdict(Outcome.NOT_JUDGED, note=reason)
            return found


def _is_as_specified(
    raw: bytes,
    done: Compilation,
    sets: Sequence[Mapping[str, Array]],
    tensors: Sequence[Mapping[str, Array]],
) -> bool:
    """Whether ONNX's own evaluator computes penstock's outputs.  onnxruntime, in single precision,
    misses positions far from the origin of an axis when it resizes real numbers."""
    model = onnx.ModelProto.FromString(raw)
    if not any(node.op_type == "Resize" for node in model.graph.node):
        return False
    try:
        evaluator = ReferenceEvaluator(model)
        expected = [evaluator.run(None, dict(inputs)) for inputs in sets]
    except Exception:  # its exceptions have no common class
        return False
    found = [[every[value.name] for value in done.model.outputs] for every in tensors]
    pairs = zip(chain(*found), chain(*expected), strict=True)
    return all(np.allclose(mine, np.reshape(other, mine.shape)) for mine, other in pairs)


def _wrong(found: JudgedTensor) -> Verdict:
    """The verdict on a tensor; its cause are the operators that compute it."""
    every = sorted({label.split()[0] for label in found.group})
    cause = ", ".join(k for k in every if k not in CONVERSIONS) or ", ".join(every)
    note = f"{cause}: {found.first}, at most {found.steps} steps off"
    return Verdict(Outcome.WRONG, "node", cause, note)


def session(model: onnx.ModelProto | bytes) -> onnxruntime.InferenceSession:
    """A session that runs each node of the model as it stands.  Raises what onnxruntime raises."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    raw = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def not_run(raw: bytes) -> str:
    """Why onnxruntime does not run the model; empty if it does."""
    try:
        session(raw).run(None, drawn(onnx.ModelProto.FromString(raw), 0))
    except Exception as error:  # its exceptions have no common class
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def drawn(model: onnx.ModelProto, number: int) -> dict[str, Array]:
    """Inputs of the model in its own types.  Set 0 of real numbers is normal, others are wide."""
    rng = np.random.default_rng([77, number])
    constants = {t.name for t in model.graph.initializer}
    found: dict[str, Array] = {}
    for border in model.graph.input:
        if border.name in constants:
            continue
        tensor = border.type.tensor_type
        shape = tuple(d.dim_value or 1 for d in tensor.shape.dim)
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if kind.kind == "f":
            found[border.name] = rng.normal(0, 4.0 if number else 1.0, shape).astype(kind)
        elif kind.kind == "b":
            found[border.name] = rng.integers(0, 2, shape).astype(kind)
        else:
            limits = np.iinfo(kind)
            least, most = (limits.min, limits.max) if limits.max < 256 else (0, 3)
            found[border.name] = rng.integers(least, most, shape, endpoint=True).astype(kind)
    return found
