"""Ground truth: the inputs in an archive of goldens, and comparison of the reference with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from penstock.errors import ModelError
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, DType
from penstock.simulators.compare import Comparison, Difference, compare_tensor
from penstock.simulators.goldens import Goldens, array_crc32


def golden_inputs(model: Graph, goldens: Goldens) -> tuple[Mapping[str, Array], ...]:
    """The inputs of every set of an archive, by name.

    Raises ModelError if the archive belongs to another model."""
    sets: list[Mapping[str, Array]] = []
    for number, golden in enumerate(goldens.sets):
        tensors = dict(golden.tensors)
        arrays = golden.inputs or tuple(
            tensors[v.origin] for v in model.inputs if v.origin in tensors
        )
        if len(arrays) == len(model.inputs):
            arrays = tuple(map(_quantised, arrays, model.inputs))
        if [_type(array) for array in arrays] != [str(v.type) for v in model.inputs]:
            raise _misfit(
                model,
                goldens,
                f"the inputs of set {number} are {_listed(map(_type, arrays))}, must be "
                + _listed(f'{v.type} ("{v.name}")' for v in model.inputs),
                help=_help(model, len(arrays), len(golden.outputs)),
            )
        sets.append({v.name: array for v, array in zip(model.inputs, arrays, strict=True)})
    return tuple(sets)


def _help(model: Graph, inputs: int, outputs: int) -> str:
    """What a user may have forgotten, by the numbers of inputs and outputs of the goldens."""
    if inputs < len(model.inputs) and outputs < len(model.outputs):
        return (
            "pass --state INPUT=OUTPUT for each state, if the goldens were recorded with states; "
            "otherwise, use goldens of this model"
        )
    if inputs > len(model.inputs) and model.states:
        return "record the goldens with the same --state options, or use goldens of this model"
    return "use goldens of this model, recorded with the same options"


def _misfit(model: Graph, goldens: Goldens, what: str, help: str = "") -> ModelError:
    """The error that goldens do not fit a model."""
    return ModelError(
        "golden-010",
        what,
        where=model.name,
        why=f'the goldens were recorded from "{goldens.model}"' if goldens.model else "",
        help=help or "use goldens of this model, recorded with the same options",
    )


def _type(array: Array) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"


def _listed(types: Iterable[str]) -> str:
    return ", ".join(types) or "none"


def _quantised(array: Array, value: Value) -> Array:
    """Quantise floats to the type of an int8 value: round half to even, saturate.  uint8, as ONNX
    models have it, becomes int8."""
    if array.dtype == np.uint8 and value.type.dtype is DType.INT8:
        return (array.astype(np.int16) - 128).astype(np.int8)
    if array.dtype.kind != "f" or value.type.dtype is not DType.INT8:
        return array
    steps = np.rint(array / np.float32(value.type.scale)) + value.type.zero_point
    return np.clip(steps, -128, 127).astype(np.int8)


def golden_reals(model: Graph, goldens: Goldens) -> tuple[Mapping[str, Array], ...]:
    """The inputs of every set of an archive as it states them, by name."""
    names = [value.name for value in model.inputs]
    return tuple(dict(zip(names, golden.inputs, strict=False)) for golden in goldens.sets)


def golden_outputs(model: Graph, goldens: Goldens) -> tuple[Mapping[str, Array], ...]:
    """The outputs of every set of an archive, by name.

    Raises ModelError if the archive belongs to another model."""
    names = [value.name for value in model.outputs]
    for golden in goldens.sets:
        if len(golden.outputs) != len(model.outputs):
            what = f"the goldens have {len(golden.outputs)} outputs, the model {len(model.outputs)}"
            raise _misfit(model, goldens, what)
        for value, array in zip(model.outputs, golden.outputs, strict=True):
            if array.shape != value.type.shape:
                raise _misfit(
                    model,
                    goldens,
                    f'output "{value.name}" is {_type(array)}, must have the shape of {value.type}',
                )
    return tuple(dict(zip(names, golden.outputs, strict=True)) for golden in goldens.sets)


def dependent(model: Graph, names: Collection[str]) -> frozenset[str]:
    """The tensors with these names, and all that are computed from them, in later runs too."""
    found = set(names)
    count = -1
    while count != len(found):
        count = len(found)
        for node in model.nodes:
            if any(value.name in found for value in node.inputs):
                found.add(node.name)
        found |= {state.before.name for state in model.states if state.after.name in found}
    return frozenset(found)


def against_goldens(
    model: Graph,
    reference: Sequence[Mapping[str, Array]],
    goldens: Goldens,
    without: Collection[str] = (),
) -> Comparison:
    """Compare every output of every set, and every tensor of the archive, by array or by CRC,
    without tensors of these names.

    Tensors that depend on functions of the C library are compared with a tolerance, and not by
    CRC."""
    total, ulps = Comparison(), tolerances(model)
    for number, (mine, golden) in enumerate(zip(reference, goldens.sets, strict=True)):
        variants = [golden, *goldens.tflm_sets[number : number + 1]]
        for k, value in enumerate(model.outputs):
            accepted = [v.outputs[k] for v in variants if k < len(v.outputs)]
            if accepted and value.name not in without:
                found = _elements(value, mine)
                wrong = next((array for array in accepted if array.size != found.size), None)
                if wrong is not None:
                    what = f'output "{value.name}" is {_type(wrong)}, must be {value.type}'
                    raise _misfit(model, goldens, what)
                allowed = ulps.get(value.name, 0)
                total += compare_tensor(value.name, number, found, *accepted, ulps=allowed)
        if number == goldens.tensor_set:
            total += _against_tensors(model, mine, goldens, number, ulps, without)
    return total


def tolerances(model: Graph) -> Mapping[str, int]:
    """By name of a value, the sum of tolerances on the worst path to it (`REFERENCE_ULPS`)."""
    found: dict[str, int] = {}
    for node in model.nodes:
        inherited = max((found.get(value.name, 0) for value in node.inputs), default=0)
        found[node.output.name] = inherited + node.op.REFERENCE_ULPS
    return found


def _against_tensors(
    model: Graph,
    mine: Mapping[str, Array],
    goldens: Goldens,
    number: int,
    ulps: Mapping[str, int],
    without: Collection[str],
) -> Comparison:
    arrays = [dict(s.tensors) for s in (goldens.sets[number], *goldens.tflm_sets[number:][:1])]
    crcs = [dict(goldens.tensor_crc32), dict(goldens.tflm_tensor_crc32)]
    total = Comparison()
    for value in model.variables():
        if value.origin is None or value.name in without:
            continue
        accepted = [found[value.origin] for found in arrays if value.origin in found]
        if accepted:
            allowed = ulps.get(value.name, 0)
            total += compare_tensor(value.name, number, mine[value.name], *accepted, ulps=allowed)
            continue
        expected = [found[value.origin] for found in crcs if value.origin in found]
        if expected and not ulps.get(value.name):
            total += _against_crcs(value.name, number, mine[value.name], expected)
    return total


def _against_crcs(name: str, number: int, found: Array, expected: Sequence[int]) -> Comparison:
    mine = array_crc32(found)
    if mine in expected:
        return Comparison(1, found.size)
    return Comparison(1, found.size, 1, Difference(name, number, None, expected[0], mine, 1))


def _elements(value: Value, tensors: Mapping[str, Array]) -> Array:
    return value.data.array(value.type) if value.data is not None else tensors[value.name]
