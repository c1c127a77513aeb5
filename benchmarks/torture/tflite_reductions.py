"""Smaller TFLite models that a model yields: slices and bypassed operators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.operators.nodes import specs_of
from penstock.errors import PenstockError
from penstock.frontends import tflite
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite


@dataclass(frozen=True, slots=True)
class _Model:
    """The main subgraph of a model, as the writer takes it."""

    tensors: Sequence[TensorSpec]
    operators: Sequence[OperatorSpec]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def raw(self) -> bytes:
        """The file, without tensors that nothing refers to."""
        used = {k for o in self.operators for k in (*o.inputs, *o.outputs)}
        kept = [k for k in range(len(self.tensors)) if k in used]
        new = {k: n for n, k in enumerate(kept)} | {-1: -1}
        operators = [
            replace(
                o, inputs=tuple(new[k] for k in o.inputs), outputs=tuple(new[k] for k in o.outputs)
            )
            for o in self.operators
        ]
        tensors = [replace(self.tensors[k], name=f"t{new[k]}") for k in kept]
        inputs = [new[k] for k in self.inputs if k in used]
        return write_tflite(tensors, operators, inputs, [new[k] for k in self.outputs])

    def part(self, cuts: Collection[int], wanted: Sequence[int]) -> _Model:
        """The operators that compute tensors from others, which become inputs."""
        missing, kept = set(wanted), list[OperatorSpec]()
        for operator in reversed(self.operators):
            if missing & set(operator.outputs):
                kept.append(operator)
                missing |= {k for k in operator.inputs if k not in cuts}
        read = {k for operator in kept for k in operator.inputs}
        inputs = [k for k in (*self.inputs, *cuts) if k in read]
        return replace(self, operators=kept[::-1], inputs=inputs, outputs=wanted)


def tflite_reductions(raw: bytes) -> Iterator[bytes]:
    """The reductions, the most promising first; none for a model that the writer cannot write."""
    try:
        found = specs_of(tflite.decode(raw, "model.tflite"))
    except PenstockError:
        return
    if found is None:
        return
    model = _Model(*found)
    yield model.raw()
    made = [k for operator in model.operators for k in operator.outputs]
    for k in made:  # what is computed first needs least
        yield model.part((), (k,)).raw()
    for k in reversed(made):  # cutting late removes most
        if k not in model.outputs:
            yield model.part((k,), model.outputs).raw()
    if len(model.outputs) > 1:
        yield model.part((), model.outputs[:1]).raw()
    for index, operator in enumerate(model.operators):
        for source in operator.inputs:
            if _alike(model, source, operator.outputs[0]):
                yield _bypassed(model, index, source)


def _alike(model: _Model, a: int, b: int) -> bool:
    if a < 0:
        return False
    x, y = model.tensors[a], model.tensors[b]
    return (x.shape, x.dtype, x.scales, x.zero_points) == (
        y.shape,
        y.dtype,
        y.scales,
        y.zero_points,
    )


def _bypassed(model: _Model, index: int, source: int) -> bytes:
    """The model without an operator: its readers read one of its operands."""
    target = model.operators[index].outputs[0]
    operators = [
        replace(o, inputs=tuple(source if k == target else k for k in o.inputs))
        for k, o in enumerate(model.operators)
        if k != index
    ]
    outputs = [source if k == target else k for k in model.outputs]
    changed = replace(model, operators=operators)
    return changed.part((), list(dict.fromkeys(outputs))).raw()
