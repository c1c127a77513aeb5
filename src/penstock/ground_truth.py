"""Ground truth: the inputs in an archive of goldens, and comparison of the reference with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from penstock.errors import ModelError
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, DType
from penstock.quoting import typed
from penstock.simulators.compare import Comparison, Difference, compare_tensor
from penstock.simulators.goldens import Goldens, array_crc32
from penstock.simulators.graph import evaluate_node, initial_states, next_states
from penstock.simulators.tflite_deviations import Deviating


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
    if inputs < len(model.inputs) and outputs < len(model.outputs):
        return (
            "pass --state INPUT=OUTPUT for each state, if the goldens were recorded with states; "
            "otherwise, use goldens of this model"
        )
    if inputs > len(model.inputs) and model.states:
        return "record the goldens with the same --state options, or use goldens of this model"
    return "use goldens of this model, recorded with the same options"


def _misfit(model: Graph, goldens: Goldens, what: str, help: str = "") -> ModelError:
    return ModelError(
        "golden-010",
        what,
        where=model.name,
        why=f'the goldens were recorded from "{goldens.model}"' if goldens.model else "",
        help=help or "use goldens of this model, recorded with the same options",
    )


def _type(array: Array) -> str:
    return typed(array.dtype.name, array.shape)


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


def as_recorded(
    model: Graph,
    runs: Sequence[Mapping[str, Array]],
    steps: int,
    goldens: Goldens,
    deviating: Sequence[Deviating],
) -> tuple[Mapping[str, Array], ...]:
    """All values of each run, as `run_sequences`, with the outputs of nodes on which the runtime of
    the goldens deviates as it hands them on (`Deviating.handed_on`).

    Values that depend on an undefined element that was not recorded are masked."""
    of_name = {one.node.y.name: one for one in deviating}
    found: list[Mapping[str, Array]] = []
    states = initial_states(model)
    for k, inputs in enumerate(runs):
        states = initial_states(model) if k % steps == 0 else states
        recorded = _recorded(model, goldens, k)
        values: dict[str, Array] = {**inputs, **states}
        for node in model.nodes:
            operands = [values[v.name] for v in node.inputs if v.data is None]
            if any(map(np.ma.is_masked, operands)):
                values[node.name] = _unknown(node.output)
                continue
            values[node.name] = evaluate_node(node, values)
            if (one := of_name.get(node.name)) is not None:
                handed_on = one.handed_on(values, recorded.get(node.name, ()))
                values[node.name] = _unknown(node.output) if handed_on is None else handed_on
        states = next_states(model, values)
        found.append(values)
    return tuple(found)


def _unknown(value: Value) -> Array:
    return np.ma.MaskedArray(np.zeros(value.type.shape, value.type.dtype.value), mask=True)


def _recorded(model: Graph, goldens: Goldens, number: int) -> Mapping[str, Sequence[Array]]:
    found: dict[str, list[Array]] = {}
    for golden in (goldens.sets[number], *goldens.tflm_sets[number : number + 1]):
        tensors = dict(golden.tensors)
        for value in model.variables():
            if value.origin in tensors:
                found.setdefault(value.name, []).append(tensors[value.origin])
        for value, array in zip(model.outputs, golden.outputs, strict=False):
            found.setdefault(value.name, []).append(array)
    return found


def unknown(results: Sequence[Mapping[str, Array]]) -> tuple[int, int]:
    """The number of masked tensors, by name, and of runs that have some."""
    names = [{name for name, x in values.items() if np.ma.is_masked(x)} for values in results]
    return len(set[str]().union(*names)), sum(map(bool, names))


def against_goldens(
    model: Graph,
    reference: Sequence[Mapping[str, Array]],
    goldens: Goldens,
    kept: Collection[str] = (),
) -> Comparison:
    """Compare every tensor of the archive, by array or by CRC, and every output of every set,
    except masked ones.

    Tensors that depend on functions of the C library are compared with a tolerance, and not by
    CRC; those whose operands are in the archive are computed from these (`_on_recorded`).
    `kept`: nodes whose outputs in `reference` are not computed again."""
    total = Comparison()
    for number, (values, golden) in enumerate(zip(reference, goldens.sets, strict=True)):
        mine, ulps = _on_recorded(model, values, _recorded(model, goldens, number), kept)
        if number == goldens.tensor_set or golden.tensors:
            total += _against_tensors(model, mine, goldens, number, ulps)
        variants = [golden, *goldens.tflm_sets[number : number + 1]]
        for k, value in enumerate(model.outputs):
            accepted = [v.outputs[k] for v in variants if k < len(v.outputs)]
            found = _elements(value, mine)
            if accepted and not np.ma.is_masked(found):
                wrong = next((array for array in accepted if array.size != found.size), None)
                if wrong is not None:
                    what = f'output "{value.name}" is {_type(wrong)}, must be {value.type}'
                    raise _misfit(model, goldens, what)
                allowed = ulps.get(value.name, 0)
                total += compare_tensor(value.name, number, found, *accepted, ulps=allowed)
    return total


def _on_recorded(
    model: Graph,
    mine: Mapping[str, Array],
    recorded: Mapping[str, Sequence[Array]],
    kept: Collection[str],
) -> tuple[Mapping[str, Array], Mapping[str, int]]:
    """The values of a run in which every tensor with a tolerance is handed on as the archive
    records it, so that no tolerance is amplified; and the tolerance of each value.

    Tolerances (`REFERENCE_ULPS`) are summed along paths of tensors that are not recorded."""
    found, handed_on = dict(mine), dict(mine)
    allowed: dict[str, int] = {}
    inherited: dict[str, int] = {}
    for node in model.nodes:
        name = node.name
        operands = [v.name for v in node.inputs if v.data is None]
        is_altered = any(handed_on[x] is not mine[x] for x in operands) and name not in kept
        if is_altered and not any(np.ma.is_masked(handed_on[x]) for x in operands):
            found[name] = handed_on[name] = evaluate_node(node, handed_on)
        own = found[name]
        ulps = max((inherited.get(x, 0) for x in operands), default=0) + node.op.REFERENCE_ULPS
        allowed[name] = inherited[name] = ulps
        alike = [a for a in recorded.get(name, ()) if (a.dtype, a.size) == (own.dtype, own.size)]
        if ulps and alike and not np.ma.is_masked(own):
            inherited[name] = 0
            handed_on[name] = alike[0].reshape(own.shape)
    return found, allowed


def _against_tensors(
    model: Graph,
    mine: Mapping[str, Array],
    goldens: Goldens,
    number: int,
    ulps: Mapping[str, int],
) -> Comparison:
    arrays = [dict(s.tensors) for s in (goldens.sets[number], *goldens.tflm_sets[number:][:1])]
    crcs = [dict(goldens.tensor_crc32), dict(goldens.tflm_tensor_crc32)]
    total = Comparison()
    for value in model.variables():
        if value.origin is None or np.ma.is_masked(mine[value.name]):
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
    # The tensor may be uint8 in the file and int8 here.
    if found.dtype == np.int8 and array_crc32(found.view(np.uint8) ^ np.uint8(128)) in expected:
        return Comparison(1, found.size)
    return Comparison(1, found.size, 1, Difference(name, number, None, expected[0], mine, 1))


def _elements(value: Value, tensors: Mapping[str, Array]) -> Array:
    return value.array if value.data is not None else tensors[value.name]
