"""Goldens: outputs of a reference runtime for sets of inputs.

`goldens.py` stores them in files; `make_goldens` obtains them from TensorFlow Lite Micro.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.brief import Brief
from penstock.errors import ModelError, OutputError
from penstock.frontends.variables import Feedback
from penstock.frozen import frozen
from penstock.ir.array_archive import ArchiveError, pack_arrays, read_arrays
from penstock.ir.tensor import Array
from penstock.limits import DEFAULT_SIZE_LIMIT_BYTES, SizeLimitError
from penstock.simulators.drawn_inputs import KINDS, InputType, draw_inputs
from penstock.simulators.tflite_micro import GoldenSet, run_tflite_micro_sets, tflite_micro_version

Crcs = tuple[tuple[int, int], ...]  # (tensor index, CRC-32), in ascending order of the index.


@frozen(eq=False, repr=False)
class Goldens(Brief):
    """All sets of one archive, in ascending order of their numbers in the archive.

    `tensor_crc32` belongs to `sets[tensor_set]`, in archives the only set with `tensors`.  An
    archive that holds tensors only has one set without inputs and outputs; its inputs are among its
    tensors, under their indices in the model.  If TensorFlow Lite Micro differs from `runtime`,
    `tflm_sets` (parallel to `sets`) and `tflm_tensor_crc32` hold its results; otherwise they are
    empty.
    """

    model: str
    runtime: str
    set_numbers: tuple[int, ...]
    kinds: tuple[str, ...]
    sets: tuple[GoldenSet, ...]
    tensor_set: int | None
    tensor_crc32: Crcs
    tflm_sets: tuple[GoldenSet, ...] = ()
    tflm_tensor_crc32: Crcs = ()
    stateful: bool = False
    model_crc32: int | None = None


def unrolled(goldens: Goldens) -> Goldens:
    """The goldens with one set for each run of a sequence."""
    if not goldens.stateful:
        return goldens
    steps = sequence_length(goldens)

    def apart(sets: tuple[GoldenSet, ...]) -> tuple[GoldenSet, ...]:
        return tuple(
            GoldenSet(
                tuple(array[step] for array in golden.inputs),
                tuple(array[step] for array in golden.outputs),
                golden.tensors if step == 0 else (),
            )
            for golden in sets
            for step in range(steps)
        )

    return replace(
        goldens,
        set_numbers=tuple(range(len(goldens.sets) * steps)),
        kinds=tuple(kind for kind in goldens.kinds for _ in range(steps)),
        sets=apart(goldens.sets),
        tflm_sets=apart(goldens.tflm_sets),
        tensor_set=None if goldens.tensor_set is None else goldens.tensor_set * steps,
        stateful=False,
    )


def sequence_length(goldens: Goldens) -> int:
    """The number of runs of each set: 1 unless the model has state."""
    return len(goldens.sets[0].inputs[0]) if goldens.stateful else 1


def array_crc32(values: Array) -> int:
    """CRC-32 (zlib) of the raw little-endian values, the last axis fastest."""
    return zlib.crc32(np.asarray(values, values.dtype.newbyteorder("<")).tobytes())


@frozen
class Replaced:
    """Operators that TensorFlow Lite Micro does not run: their indices in the model, and a function
    from the inputs of all sets to the outputs of these operators in each set."""

    operators: tuple[int, ...]
    outputs: Callable[[Sequence[tuple[Array, ...]]], Sequence[tuple[Array, ...]]]


def make_goldens(
    model_bytes: bytes,
    types: Sequence[InputType],
    model: str,
    set_count: int = len(KINDS),
    steps: int | None = None,
    feedbacks: Sequence[Feedback] = (),
    replaced: Replaced | None = None,
) -> Goldens:
    """Outputs of TensorFlow Lite Micro for `set_count` random sets, and all tensors of the first
    run of each; an archive holds those of the first set alone.

    `types` are the types of the model's inputs, except those of `feedbacks`, which receive outputs
    of the previous run; the seed is the CRC-32 of the model.  `steps`: for a model with state, the
    number of runs of each set, which follow a reset; None for others.  `replaced`: operators that
    are left out.
    Raises ToolError if the runtime is missing or rejects the model."""
    seed = zlib.crc32(model_bytes)
    if steps is None:
        drawn = [draw_inputs(types, number, seed) for number in range(set_count)]
    else:
        drawn = [_drawn_sequence(types, number, seed, steps) for number in range(set_count)]
    outputs = ((),) * set_count if replaced is None else replaced.outputs(drawn)
    answers = run_tflite_micro_sets(
        model_bytes,
        [(*arrays, *more) for arrays, more in zip(drawn, outputs, strict=True)],
        feedbacks,
        stateful=steps is not None,
        removed=() if replaced is None else replaced.operators,
    )
    sets = tuple(
        GoldenSet(arrays, found.outputs, found.tensors)
        for arrays, found in zip(drawn, answers, strict=True)
    )
    return Goldens(
        model=model,
        runtime=tflite_micro_version(),
        set_numbers=tuple(range(set_count)),
        kinds=tuple(KINDS[number % len(KINDS)] for number in range(set_count)),
        sets=sets,
        tensor_set=0,
        tensor_crc32=tuple((index, array_crc32(values)) for index, values in sets[0].tensors),
        stateful=steps is not None,
        model_crc32=seed,
    )


def _drawn_sequence(
    types: Sequence[InputType], number: int, seed: int, steps: int
) -> tuple[Array, ...]:
    runs = (draw_inputs(types, number, seed + step) for step in range(steps))
    return tuple(np.stack(arrays) for arrays in zip(*runs, strict=True))


# Reads and writes goldens as `.npz` archives.  Members, with numbers that start at 0:
#
#     in<k>_set<s>        input k of set s           out<k>_set<s>   output k of set s
#     t<tensor index>     values of one tensor for the set that `meta` names
#     tflm_out<k>_set<s>  output k of TensorFlow Lite Micro, if it differs from out<k>_set<s>
#     meta                a JSON object, as text
#
# Keys of `meta`, all of them optional: `model`, `runtime`, `kinds` (of the sets), `stateful` (then
# the first axis of every input and output is the step), `model_crc32`, `tensor_crc32` and
# `tflm_tensor_crc32` (tensor index -> CRC-32 of the raw little-endian values), `tensor_crc32_set`
# or `input_set` (the set to which CRCs and `t` members belong).  Other members and keys are
# ignored.
#
# Reading a written archive yields equal goldens, byte for byte.


Members = Mapping[str, Array]
Meta = Mapping[str, Any]  # JSON of a foreign file; it does not leave this module
ArraysBySet = dict[int, tuple[Array, ...]]


def goldens_to_members(goldens: Goldens) -> dict[str, Array]:
    """The members by name, in the order of the file."""
    members: dict[str, Array] = {"meta": np.array(json.dumps(_meta(goldens), sort_keys=True))}
    for s, (number, golden_set) in enumerate(zip(goldens.set_numbers, goldens.sets, strict=True)):
        members |= {f"in{k}_set{number}": values for k, values in enumerate(golden_set.inputs)}
        members |= {f"out{k}_set{number}": values for k, values in enumerate(golden_set.outputs)}
        if s == goldens.tensor_set:
            members |= {f"t{index}": values for index, values in golden_set.tensors}
    tflm_sets = goldens.tflm_sets
    for number, golden_set in zip(goldens.set_numbers, tflm_sets, strict=bool(tflm_sets)):
        members |= {
            f"tflm_out{k}_set{number}": values for k, values in enumerate(golden_set.outputs)
        }
    return members


def _meta(goldens: Goldens) -> dict[str, object]:
    """The object stored as member `meta`, without unknown values."""
    owner = None if goldens.tensor_set is None else goldens.set_numbers[goldens.tensor_set]
    meta: dict[str, object] = {
        "kinds": goldens.kinds,
        "model": goldens.model,
        "model_crc32": goldens.model_crc32,
        "runtime": goldens.runtime,
        "stateful": goldens.stateful,
        "tensor_crc32": dict(goldens.tensor_crc32),
        "tensor_crc32_set": owner,
        "tflm_tensor_crc32": dict(goldens.tflm_tensor_crc32),
    }
    return {key: value for key, value in meta.items() if value not in (None, {}, ())}


def goldens_from_members(members: Members) -> Goldens:
    """The goldens that the members describe.

    Raises ModelError if the members are inconsistent or contain no goldens."""
    meta = _read_meta(members)
    crcs = _crcs(meta, "tensor_crc32")
    tensors = _tensors(members)
    owner = _integer(meta, "tensor_crc32_set", _integer(meta, "input_set", 0))
    inputs, outputs = _by_set(members, "in"), _by_set(members, "out")
    numbers = _set_numbers(inputs, outputs, owner if tensors else None)
    if (tensors or crcs) and owner not in numbers:
        raise _contradiction(f"tensors belong to set {owner}", f"the sets are {numbers}")
    sets = tuple(
        GoldenSet(inputs.get(n, ()), outputs.get(n, ()), tensors if n == owner else ())
        for n in numbers
    )
    tflm_sets = _tflm_sets(_by_set(members, "tflm_out"), numbers, sets)
    stateful = bool(meta.get("stateful", False))
    if stateful:
        _check_sequences((*sets, *tflm_sets))
    return Goldens(
        model=str(meta.get("model", "")),
        runtime=str(meta.get("runtime", "")),
        set_numbers=numbers,
        kinds=_kinds(meta, len(numbers)),
        sets=sets,
        tensor_set=numbers.index(owner) if tensors or crcs else None,
        tensor_crc32=crcs,
        tflm_sets=tflm_sets,
        tflm_tensor_crc32=_crcs(meta, "tflm_tensor_crc32"),
        stateful=stateful,
        model_crc32=_integer(meta, "model_crc32", 0) if "model_crc32" in meta else None,
    )


def _check_sequences(sets: Sequence[GoldenSet]) -> None:
    """Raises ModelError unless all inputs and outputs are sequences of one length."""
    arrays = [array for golden in sets for array in (*golden.inputs, *golden.outputs)]
    lengths = {array.shape[0] if array.ndim else 0 for array in arrays}
    if len(lengths) != 1 or 0 in lengths or not all(golden.inputs for golden in sets):
        raise _contradiction(
            'key "stateful" of "meta" is true, but the sets are no sequences of one length',
            f"the lengths of the first axes are {sorted(lengths)}",
        )


def _contradiction(what: str, why: str) -> ModelError:
    return ModelError(
        "golden-004", what, why=why, help="create it again with: penstock golden MODEL -o FILE.npz"
    )


def _read_meta(members: Members) -> Meta:
    """The object in the member `meta`; empty if there is no such member."""
    if "meta" not in members:
        return {}
    try:
        meta = json.loads(str(members["meta"]))
    except ValueError as error:
        raise _contradiction('member "meta" is not JSON', str(error)) from error
    if not isinstance(meta, dict):
        raise _contradiction('member "meta" is not a JSON object', f"it is {meta!r:.40}")
    return cast(Meta, meta)


def _integer(meta: Meta, key: str, default: int) -> int:
    value = meta.get(key, default)
    if type(value) is not int or value < 0:
        raise _contradiction(f'key "{key}" of "meta" is no natural number', f"it is {value!r:.40}")
    return value


def _crcs(meta: Meta, key: str) -> Crcs:
    """The CRCs under one key of meta, in ascending order of the tensor index."""
    found: object = meta.get(key, {})
    try:
        pairs = cast(Mapping[str, Any], found).items()
        return tuple(sorted((int(index), int(crc)) for index, crc in pairs))
    except (AttributeError, TypeError, ValueError) as error:
        raise _contradiction(
            f'key "{key}" of "meta" does not map tensor indices to CRCs', f"it is {found!r:.60}"
        ) from error


def _kinds(meta: Meta, set_count: int) -> tuple[str, ...]:
    """The kind of each set; empty strings if the archive does not state kinds."""
    kinds: object = meta.get("kinds", [""] * set_count)
    if not isinstance(kinds, list) or len(cast(Sequence[object], kinds)) != set_count:
        raise _contradiction(
            'key "kinds" of "meta" does not name the kind of each set',
            f"there are {set_count} sets; it is {kinds!r:.60}",
        )
    return tuple(str(kind) for kind in cast(Sequence[object], kinds))


def _by_set(members: Members, role: str) -> ArraysBySet:
    """The arrays of one role ("in", "out", "tflm_out"), by set, each set in order of position."""
    found: dict[int, dict[int, Array]] = {}
    for name, values in members.items():
        if match := re.fullmatch(rf"{role}(\d+)_set(\d+)", name):
            found.setdefault(int(match[2]), {})[int(match[1])] = values
    for number, arrays in found.items():
        if sorted(arrays) != list(range(len(arrays))):
            raise _contradiction(
                f'members "{role}<k>_set{number}" have a gap', f"k is one of {sorted(arrays)}"
            )
    return {n: tuple(arrays[k] for k in sorted(arrays)) for n, arrays in found.items()}


def _tensors(members: Members) -> tuple[tuple[int, Array], ...]:
    """The `t` members in ascending order.  They are not compared with their CRCs here: the
    verification ladder does so and names the layer that differs."""
    matches = ((re.fullmatch(r"t(\d+)", name), values) for name, values in members.items())
    tensors = {int(match[1]): values for match, values in matches if match}
    return tuple(sorted(tensors.items(), key=lambda item: item[0]))


def _set_numbers(inputs: ArraysBySet, outputs: ArraysBySet, owner: int | None) -> tuple[int, ...]:
    """The numbers of all sets; `owner` is the set of the tensors, if the archive has tensors."""
    if inputs.keys() != outputs.keys():
        odd = sorted(inputs.keys() ^ outputs.keys())
        raise _contradiction(
            f"sets {odd} have inputs or outputs, but not both", "a golden set needs both"
        )
    numbers = tuple(sorted(inputs)) or (() if owner is None else (owner,))
    if not numbers:
        raise _contradiction("there are no goldens in it", "no member in<k>_set<s> or t<index>")
    return numbers


def _tflm_sets(
    outputs: ArraysBySet, numbers: tuple[int, ...], sets: tuple[GoldenSet, ...]
) -> tuple[GoldenSet, ...]:
    """The outputs of TensorFlow Lite Micro for the same inputs; empty if they agree."""
    if not outputs:
        return ()
    if sorted(outputs) != list(numbers):
        raise _contradiction(
            f'members "tflm_out<k>_set<s>" are of sets {sorted(outputs)}',
            f"the sets are {list(numbers)}",
        )
    return tuple(
        GoldenSet(golden_set.inputs, outputs[n])
        for n, golden_set in zip(numbers, sets, strict=True)
    )


def read_goldens(path: Path, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> Goldens:
    """The goldens in an archive.

    Raises ModelError if the file is missing, damaged or inconsistent, or exceeds the limit."""
    try:
        return goldens_from_members(_read_members(path, limit_bytes))
    except SizeLimitError:
        raise
    except ModelError as error:
        raise error.at(str(path)) from error


def write_goldens(goldens: Goldens, path: Path) -> None:
    """Writes an archive; equal goldens yield equal bytes.

    Raises OutputError if the file cannot be written."""
    try:
        path.write_bytes(golden_bytes(goldens))
    except OSError as error:
        raise OutputError(
            "golden-006",
            "the golden archive cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            help="choose a file in a folder that exists and may be written to",
        ) from error


def golden_bytes(goldens: Goldens) -> bytes:
    """The archive as bytes."""
    return pack_arrays(goldens_to_members(goldens))


def _read_members(path: Path, limit_bytes: int) -> dict[str, Array]:
    """The members of the archive by name.  Raises ModelError."""
    try:
        return read_arrays(path, limit_bytes)
    except FileNotFoundError as error:
        raise ModelError(
            "golden-002",
            "the golden archive does not exist",
            why="goldens are read from an .npz file",
            help="create it with: penstock golden MODEL -o FILE.npz",
        ) from error
    except (OSError, ArchiveError) as error:
        raise ModelError(
            "golden-003",
            "the golden archive is damaged, or not an archive",
            why=str(error) or type(error).__name__,
            help="create it again with: penstock golden MODEL -o FILE.npz",
        ) from error
