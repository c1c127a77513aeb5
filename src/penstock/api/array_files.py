"""Files of inputs (.npy): the arrays of the runs in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.errors import ModelError
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, TensorType

NPY_MAGIC = b"\x93NUMPY"


def read_runs(
    path: Path, value: Value, within: TensorType, index: int, *, stateful: bool
) -> tuple[Array, ...]:
    """The array of each run in a file.

    value: the input of the model; its type is accepted.
    within: the type of that input in the generated code, which is accepted, too.
    index: the position of the input among those of the model.
    stateful: whether the file may contain a sequence of runs.

    Raises ModelError."""
    where = f'{path}, input "{value.name}"'
    help = "give the files in the order of the model's inputs, with these shapes and element types"
    found = read_array(path)
    runs = accepted_runs(found, value, within, index, stateful=stateful, where=where, help=help)
    return tuple(np.array(array) for array in runs)


def accepted_runs(
    array: Array,
    value: Value,
    within: TensorType,
    index: int,
    *,
    stateful: bool,
    where: str,
    help: str,
) -> tuple[Array, ...]:
    """The array of each run in an array, see `read_runs`.

    where, help: parts of the error.

    Raises ModelError if neither shape nor element type is accepted."""
    accepted = tuple(dict.fromkeys((value.type, within)))
    dtypes = {type.dtype.value for type in accepted}
    if array.dtype.name in dtypes:
        if array.shape == value.type.shape:
            return (array,)
        if stateful and _is_sequence(array, value.type.shape) and len(array):
            return tuple(array)
    raise ModelError(
        "input-003",
        f"the array is {_written(array.dtype.name, array.shape)}, must be "
        + _accepted(accepted, stateful=stateful),
        where=where,
        why=_reason_of_refusal(array, value.type, dtypes, stateful=stateful),
        help=_quantising(index) if _is_unquantised(array, value.type, dtypes) else help,
    )


def read_array(path: Path) -> Array:
    """The array in a file.  Raises ModelError if there is none."""
    try:
        # Mapping the file bounds memory if its header promises more elements than it holds.
        array: object = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, EOFError) as error:
        raise _not_an_array(path, _reason(path, error)) from error
    if not isinstance(array, np.ndarray):
        if isinstance(array, np.lib.npyio.NpzFile):
            array.close()
        raise _not_an_array(path, "it is an archive of arrays (.npz)")
    return array


def _is_sequence(array: Array, shape: Sequence[int]) -> bool:
    """Whether an array has one more axis than `shape`, the first."""
    return array.ndim > 0 and array.shape[1:] == tuple(shape)


def _written(dtype: str, shape: Sequence[int | str]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _accepted(types: Sequence[TensorType], *, stateful: bool) -> str:
    """The element types and shapes that are accepted."""
    found = " or ".join(map(str, types))
    if not stateful:
        return found
    runs = " or ".join(_written(type.dtype.value, ("runs", *type.shape)) for type in types)
    return f"{found}, or {runs} for a sequence"


def _reason_of_refusal(array: Array, type: TensorType, dtypes: set[str], *, stateful: bool) -> str:
    """What a user may have had in mind; empty if there is no guess."""
    if _is_sequence(array, type.shape):
        if not stateful:
            return "the model has no state, so a file holds a single run, not a sequence"
        if not len(array):
            return "the sequence is empty"
    if _is_unquantised(array, type, dtypes):
        scale, zero = float(type.scale), type.zero_point
        return f"the compiled network takes int8 elements q; real = {scale:.9g} * (q - {zero})"
    return ""


def _is_unquantised(array: Array, type: TensorType, dtypes: set[str]) -> bool:
    """Whether an array holds real numbers, but the input their quantised elements."""
    return array.dtype.kind == "f" and dtypes == {"int8"} and type.quantisation is not None


def _quantising(index: int) -> str:
    return (
        "quantise the array; in Python, with compiled = penstock.compile(..): "
        f"compiled.inputs[{index}].quantize(array)"
    )


def _reason(path: Path, error: Exception) -> str:
    """NumPy's message, except for files that NumPy takes for pickled Python objects."""
    begins = path.read_bytes()[: len(NPY_MAGIC)]
    return str(error) if begins == NPY_MAGIC else f"it begins with {begins!r}, not {NPY_MAGIC!r}"


def _unreadable(path: Path, error: OSError) -> ModelError:
    what = ""
    if isinstance(error, FileNotFoundError):
        what = "there is no such file"
    elif path.is_dir():
        what = "this is a folder"
    return ModelError(
        "input-002",
        what or "the file cannot be read",
        where=str(path),
        why="" if what else error.strerror or str(error),
        help="name a .npy file that exists and may be read",
    )


def _not_an_array(path: Path, why: str) -> ModelError:
    return ModelError(
        "input-002",
        "not a .npy file",
        where=str(path),
        why=why,
        help="write it with numpy.save",
    )
