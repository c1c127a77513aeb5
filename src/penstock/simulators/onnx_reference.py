"""Compares penstock's results with the reference evaluator of the package `onnx`, node by node.

The evaluator computes each node in real arithmetic on penstock's inputs.  Its result is quantised
with the scale of penstock's tensor and compared.  The next node starts from penstock's elements
again, so that differences do not accumulate.  QuantizeLinear and DequantizeLinear are implemented
here: real arithmetic, round half to even (ONNX operator specification).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

from penstock.errors import ToolError
from penstock.ir.tensor import Array, DType, TensorType
from penstock.simulators.compare import Comparison, Difference
from penstock.simulators.judgement import Judgement

MOST_STEPS = 1
"""Largest accepted difference from real arithmetic, in quantisation steps of the output."""
MOST_REAL_ERROR = 2.0**-16
"""Largest accepted difference of real numbers, which are states of recurrent layers, relative to
the largest number of the tensor or 1.  Both sides compute in single precision, and sum in another
order."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One of penstock's tensors: elements in the model's axis order, and their type."""

    elements: Array
    type: TensorType

    @property
    def reals(self) -> Array:
        if self.type.dtype is DType.FLOAT32:
            return self.elements
        return _reals(self.elements, self.type.scale, self.type.zero_point)


Find = Callable[[str], Seen | None]


def judge(raw: bytes, folder: Path, find: Find, set_number: int = 0) -> Judgement:
    """Compares every tensor of an ONNX model that `find` knows by name.

    `folder` holds the external data of the model.  Raises ToolError if the evaluator fails."""
    model: Any = onnx.ModelProto.FromString(raw)
    load_external_data_for_model(model, str(folder))
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for value in model.graph.input:
        seen = find(value.name)
        if seen is not None:
            kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            values[value.name] = _as(seen, kind)
    found = Judgement()
    for node in model.graph.node:
        outputs = _outputs(node, values, model, found)
        for name, real in zip(node.output, outputs, strict=False):
            seen = find(name)
            values[name] = real
            if seen is not None and real is not None:
                _compare(found, name, seen, np.asarray(real), set_number)
            if seen is not None:
                values[name] = _as(seen, _kind(node, values) if real is None else real.dtype)
    return found


def _outputs(node: Any, values: Mapping[str, Any], model: Any, found: Judgement) -> tuple[Any, ...]:
    """The outputs of a node in real arithmetic; None for nodes that the evaluator lacks."""
    inputs: list[Any] = [values.get(name) if name else None for name in node.input]
    if node.op_type == "QuantizeLinear":
        return (_quantised(*inputs),)
    if node.op_type == "DequantizeLinear":
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        return (_dequantised(axis, *inputs),)
    names = [name for name in node.input if name]
    if any(values.get(name) is None for name in names):
        found.unjudged.add(node.op_type)
        return (None,) * len(node.output)
    graph = helper.make_graph(
        [node],
        "node",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names)],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    opsets = [helper.make_opsetid(o.domain, _version(node, o)) for o in model.opset_import]
    single = helper.make_model(graph, opset_imports=opsets)
    try:
        evaluator = ReferenceEvaluator(single)
    except (RuntimeError, NotImplementedError):
        found.unjudged.add(node.op_type)
        return (None,) * len(node.output)
    try:
        answers = iter(evaluator.run(None, {name: values[name] for name in names}))
    except (
        Exception
    ) as error:  # any exception of the evaluator means that it cannot evaluate the node
        raise ToolError(
            "tool-043",
            f"the reference evaluator of onnx failed: {error}",
            where=f'node {node.op_type} "{node.output[0]}"',
            help="verify the model without --reference",
        ) from error
    return tuple(next(answers) if name else None for name in node.output)


def _kind(node: Any, values: Mapping[str, Any]) -> np.dtype[Any]:
    """Element type of the output of an unjudged node: that of its last zero point."""
    found = [values.get(name) for name in node.input]
    bytes_ = (np.dtype("int8"), np.dtype("uint8"))
    kinds = [x.dtype for x in found if x is not None and x.dtype in bytes_ and x.size == 1]
    return kinds[-1] if kinds else np.dtype("float32")


def _version(node: Any, opset: Any) -> int:
    """The operator set version used to evaluate a node.

    The evaluator treats BatchNormalization before version 14 as training, which is wrong for nodes
    with one output."""
    least = 14 if node.op_type == "BatchNormalization" and opset.domain == "" else 0
    return max(opset.version, least)


def _compare(found: Judgement, name: str, seen: Seen, real: Array, set_number: int) -> None:
    """Compares penstock's elements with real numbers, quantised if they are, and records the
    result."""
    if seen.type.dtype is DType.FLOAT32:
        _compare_reals(found, name, seen.elements, real, set_number)
        return
    if real.dtype.kind == "f":
        expected = _rounded(real, seen.type.scale, seen.type.zero_point, -128, 127)
    else:
        expected = real.astype(np.int64) - (128 if real.dtype == np.uint8 else 0)
    mine = seen.elements.astype(np.int64)
    off = np.abs(mine - expected.reshape(mine.shape))
    wrong = np.argwhere(off > MOST_STEPS)
    found.near += int((off == 1).sum())
    first = None
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        wanted = int(expected.reshape(mine.shape)[index])
        first = Difference(name, set_number, index, wanted, int(mine[index]), len(wrong))
    found.comparison += Comparison(1, mine.size, len(wrong), first)


def _compare_reals(found: Judgement, name: str, mine: Array, real: Array, set_number: int) -> None:
    expected = real.reshape(mine.shape)
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    off = np.abs(mine.astype(np.float64) - expected)
    wrong = np.argwhere(~(off <= MOST_REAL_ERROR * largest))
    first = None
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        first = Difference(
            name, set_number, index, float(expected[index]), float(mine[index]), len(wrong)
        )
    found.comparison += Comparison(1, mine.size, len(wrong), first)


def _as(seen: Seen, kind: np.dtype[Any]) -> Array:
    """Penstock's tensor in the model's element type: real numbers, int8 or uint8."""
    if kind.kind == "f":
        return seen.reals.astype(kind)
    return (seen.elements.astype(np.int64) + (128 if kind == np.uint8 else 0)).astype(kind)


def _quantised(x: Array, scale: Array, zero: Array | None = None) -> Array:
    kind = np.dtype("uint8") if zero is None else zero.dtype
    limits = np.iinfo(kind)
    point = 0 if zero is None else int(zero.ravel()[0])
    steps = _rounded(x, float(scale.ravel()[0]), point, limits.min, limits.max)
    return steps.astype(kind)


def _rounded(x: Array, scale: float, zero: int, least: int, most: int) -> Array:
    """Quantises real numbers: round half to even, saturate."""
    steps = np.rint(x.astype(np.float32) / np.float32(scale)) + zero
    return np.clip(steps, least, most).astype(np.int64)


def _dequantised(axis: int, x: Array, scale: Array, zero: Array | None = None) -> Array:
    shape = [1] * x.ndim
    if scale.size > 1:
        shape[axis] = -1
    zeros = 0 if zero is None else zero.astype(np.int64).reshape(shape if zero.size > 1 else ())
    by = scale.reshape(shape) if scale.size > 1 else scale.reshape(())
    return ((x.astype(np.int64) - zeros) * by.astype(np.float64)).astype(np.float32)


def _reals(x: Array, scale: float, zero: int) -> Array:
    return ((x.astype(np.int64) - zero) * scale).astype(np.float32)
