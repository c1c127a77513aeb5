"""Judge of ONNX models: onnxruntime without graph optimisations, slice by slice, then the ladder.

A slice is the part of the model between integer tensors.  onnxruntime computes it on penstock's
elements, so that differences do not accumulate.  The first slices start from inputs of the model
that are drawn in the model's own types, so real inputs are not multiples of a scale.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from benchmarks.torture.case import Case, Outcome, Verdict
from benchmarks.torture.compiling import compiled, ladder_verdict, refusal
from benchmarks.torture.onnx_graph import inferred, sliced
from penstock.errors import PenstockError
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.importer import ImportedModel, import_onnx
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, DType
from penstock.pipeline.compilation import Compilation
from penstock.simulators.graph import run_graph

MOST_STEPS = 1
SETS = 2
REAL_TOLERANCE = 2.0**-16
"""Of real results, relative to the largest of the tensor or 1: both sides sum in single precision,
in different orders."""
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear", "Identity")
INTEGERS = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on an ONNX model; one that onnxruntime does not run is only compiled."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"model{case.suffix}"
        path.write_bytes(case.raw)
        reason = not_run(case.raw)
        try:
            done = compiled(path)
            if reason:
                return Verdict(Outcome.NOT_A_MODEL, note=reason)
            verdict, sets = _judged(case.raw, path, done)
            return verdict or ladder_verdict(done, sets, deep)
        except PenstockError as error:
            found = refusal(error)
            if reason and found.outcome is not Outcome.INTERNAL:
                return Verdict(Outcome.NOT_A_MODEL, note=reason)
            return found


def session(model: onnx.ModelProto | bytes) -> onnxruntime.InferenceSession:
    """A session that runs each node of the model as it stands."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    raw = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def not_run(raw: bytes) -> str:
    """Why onnxruntime does not take the model; empty if it does."""
    try:
        session(raw)
    except Exception as error:  # its exceptions have no common class
        return str(error).splitlines()[0]
    return ""


@dataclass(frozen=True, slots=True)
class _Known:
    """The tensors of the model that penstock computes, in the model's types and axis order."""

    understood: ImportedModel
    values: Mapping[str, Value]
    arrays: Mapping[str, Array]

    def find(self, name: str) -> tuple[Array, Value] | None:
        """Elements as penstock stores them, in the model's axis order, and the stored value."""
        place, order = self.understood.places.get(name, ("", ()))
        if place not in self.arrays:
            return None
        back = tuple(order.index(axis) for axis in range(len(order)))
        return self.arrays[place].transpose(back), self.values[place]


def _judged(
    raw: bytes, path: Path, done: Compilation
) -> tuple[Verdict | None, Sequence[Mapping[str, Array]]]:
    """A verdict if a slice is wrong, and the sets of inputs by penstock's names."""
    model = onnx.ModelProto.FromString(raw)
    understood = import_onnx(decode(raw, path.name, path.parent), done.request.reading)
    graph = understood.graph
    types = inferred(model)
    values = {v.name: v for v in (*graph.variables(), *graph.inputs)}
    sets: list[Mapping[str, Array]] = []
    for number in range(SETS):
        given = drawn(model, number)
        inputs = {
            name: _stored(given, understood, values[name])
            for name in (v.name for v in graph.inputs)
        }
        sets.append(inputs)
        arrays = {**inputs, **run_graph(graph, inputs)}
        for value in graph.outputs:
            if value.data is not None:
                arrays[value.name] = value.data.array(value.type)
        known = _Known(understood, values, arrays)
        for verdict in _slices(model, types, given, known, [v.name for v in graph.outputs]):
            return verdict, sets
    return None, sets


def drawn(model: onnx.ModelProto, number: int) -> dict[str, Array]:
    """Inputs of the model, reals off the grid of any scale.  Set 0 is normal, set 1 wide."""
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
            spread = 1.0 if number == 0 else 4.0
            found[border.name] = rng.normal(0, spread, shape).astype(kind)
        elif kind.kind == "b":
            found[border.name] = rng.integers(0, 2, shape).astype(kind)
        else:
            limits = np.iinfo(kind)
            wide = limits.max > 255
            least, most = (0, 3) if wide else (limits.min, limits.max)
            found[border.name] = rng.integers(least, most, shape, endpoint=True).astype(kind)
    return found


def _stored(given: Mapping[str, Array], understood: ImportedModel, value: Value) -> Array:
    """An input of the model as penstock stores it."""
    place = next(n for n, (v, _) in understood.places.items() if v == value.name and n in given)
    _, order = understood.places[place]
    return stored(given[place].transpose(order), value)


def stored(array: Array, value: Value) -> Array:
    """Elements of the model as penstock's value holds them: quantised, or uint8 shifted."""
    type = value.type
    if type.dtype is DType.FLOAT32 or array.dtype == np.dtype(type.dtype.value):
        return np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        steps = np.rint(array.astype(np.float32) / np.float32(type.scale)) + type.zero_point
        limits = np.iinfo(type.dtype.value)
        return np.clip(steps, limits.min, limits.max).astype(type.dtype.value)
    shift = 128 if array.dtype == np.uint8 else 0
    return (array.astype(np.int64) - shift).astype(type.dtype.value)


def _slices(
    model: onnx.ModelProto,
    types: Mapping[str, int],
    given: Mapping[str, Array],
    known: _Known,
    names: Sequence[str],
) -> Iterator[Verdict]:
    """Verdicts on slices that differ, in the order of the model."""
    ends = [output.name for output in model.graph.output]
    cuts: dict[str, Array] = dict(given)
    for node in model.graph.node:
        for name in node.output:
            if not name or (name not in ends and types.get(name) not in INTEGERS):
                continue
            seen = known.find(name)
            if seen is None and name in ends:
                index = ends.index(name)
                seen = known.arrays[names[index]], known.values.get(names[index])
            if seen is None or seen[1] is None:
                continue
            part, needed = sliced(model, cuts, name)
            wanted = _answer(part, {n: cuts[n] for n in needed}, name)
            if wanted is not None:
                note = _difference(seen[0], seen[1], wanted)
                if note:
                    kinds = _operators(part)
                    yield Verdict(Outcome.WRONG, "node", kinds, f'{kinds}: "{name}": {note}')
                if types.get(name) in INTEGERS:
                    shift = 128 if types[name] == onnx.TensorProto.UINT8 else 0
                    cuts[name] = (seen[0].astype(np.int64) + shift).astype(wanted.dtype)


def _operators(part: onnx.ModelProto) -> str:
    """The operators of a slice; conversions only if there is nothing else."""
    every = sorted({node.op_type for node in part.graph.node})
    return ", ".join(k for k in every if k not in CONVERSIONS) or ", ".join(every)


def _answer(part: onnx.ModelProto, given: Mapping[str, Array], name: str) -> Array | None:
    """A tensor as onnxruntime computes it from others; None if it cannot."""
    try:
        return np.asarray(session(part).run([name], dict(given))[0])
    except Exception:  # its exceptions have no common class; the whole model was accepted
        return None


def _difference(mine: Array, value: Value, wanted: Array) -> str:
    """How penstock's elements differ from the model's by more than a step; empty if not."""
    if mine.size != wanted.size:
        return f"shape {mine.shape}, must be {wanted.shape}"
    mine = mine.reshape(wanted.shape)
    if value.type.dtype is DType.FLOAT32:
        largest = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
        with np.errstate(invalid="ignore"):
            off = np.abs(mine.astype(np.float64) - wanted) / (REAL_TOLERANCE * largest)
        off = np.where((mine == wanted) | (np.isnan(mine) & np.isnan(wanted)), 0, off)
        off = np.where(np.isnan(off), np.inf, off)
    elif wanted.dtype.kind == "f":
        reals = (mine.astype(np.int64) - value.type.zero_point) * float(value.type.scale)
        with np.errstate(invalid="ignore"):
            off = np.abs(reals - wanted) / value.type.scale - 1e-3
        off = np.where(np.isnan(off), np.inf, off)
    else:
        shift = 128 if wanted.dtype == np.uint8 and value.type.dtype is DType.INT8 else 0
        off = np.abs(mine.astype(np.int64) + shift - wanted.astype(np.int64))
    wrong = np.argwhere(off > MOST_STEPS)
    if not len(wrong):
        return ""
    at = tuple(int(i) for i in wrong[0])
    return (
        f"{len(wrong)} of {mine.size} elements differ by up to {float(off.max()):.4g} steps; at "
        f"{list(at)} it is {mine[at]}, onnxruntime computes {wanted[at]}"
    )
