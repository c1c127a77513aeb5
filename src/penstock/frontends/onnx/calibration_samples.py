"""Calibration samples: inputs of a float model, in an .npz archive with one array per input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from penstock.errors import ModelError, did_you_mean
from penstock.frontends.onnx.file import Border
from penstock.ir.array_archive import ArchiveError, read_arrays
from penstock.ir.tensor import Array

REALS = ("float16", "float32", "float64")
Samples = tuple[dict[str, Array], ...]
"""The arrays of each sample, by the name of the input, in the element types of the model."""


def read_samples(path: Path, inputs: Sequence[Border], limit_bytes: int) -> Samples:
    """The samples in an archive, for inputs with these names, element types and shapes.

    The first axis of each array is the sample; an axis of extent 1 with which the input begins, the
    batch, may be missing.  Raises ModelError."""
    arrays = _arrays(path, inputs, limit_bytes)
    _check_names(path, arrays, inputs)
    per_sample = {b.name: _checked(path, arrays[b.name], b) for b in inputs}
    counts = {name: len(array) for name, array in per_sample.items()}
    if len(set(counts.values())) > 1:
        raise _unusable(
            path,
            "the inputs have different numbers of samples",
            ", ".join(f'"{name}" has {count}' for name, count in counts.items()),
        )
    count = next(iter(counts.values()), 0)
    return tuple({name: array[k] for name, array in per_sample.items()} for k in range(count))


def _arrays(path: Path, inputs: Sequence[Border], limit_bytes: int) -> dict[str, Array]:
    """The arrays in an archive, by name.  Raises ModelError."""
    names = ", ".join(f"{_keyword(border.name)}=.." for border in inputs)
    how = f"write it with numpy.savez(FILE, {names}); the first axis of each array is the sample"
    try:
        return read_arrays(path, limit_bytes)
    except OSError as error:
        raise ModelError(
            "calibration-001",
            f"the calibration data cannot be read: {error.strerror or error}",
            where=str(path),
            help=how,
        ) from error
    except ArchiveError as error:
        raise ModelError(
            "calibration-001",
            "the calibration data is no .npz archive of arrays",
            where=str(path),
            why=str(error),
            help=how,
        ) from error


def _keyword(name: str) -> str:
    """The name of an input as a keyword argument of a call, as far as it can be one."""
    return name if name.isidentifier() else f'**{{"{name}": ..}}'


def _check_names(path: Path, arrays: Mapping[str, Array], inputs: Sequence[Border]) -> None:
    """Raises ModelError unless the archive has an array for each input, and no others."""
    wanted = [border.name for border in inputs]
    for name in arrays:
        if name not in wanted:
            raise ModelError(
                "calibration-002",
                f'the model has no input "{name}"',
                where=str(path),
                why=f"its inputs are {_listed(wanted)}",
                help=did_you_mean(name, wanted) + "name each array after an input",
            )
    for name in wanted:
        if name not in arrays:
            raise ModelError(
                "calibration-002",
                f'there is no array for input "{name}"',
                where=str(path),
                why=f"the archive contains {_listed(arrays)}",
                help="name each array after an input, and add one for every input",
            )


def _checked(path: Path, array: Array, border: Border) -> Array:
    """The array with the sample as first axis, in the element type of the input."""
    with_batch = _fits(array.shape[1:], border.shape)
    if array.ndim == 0 or not (
        with_batch or (border.shape[:1] == (1,) and _fits(array.shape[1:], border.shape[1:]))
    ):
        raise _misfit(path, array, border)
    real = border.dtype in REALS
    if (not real and array.dtype.name != border.dtype) or (real and array.dtype.kind != "f"):
        raise _misfit(path, array, border)
    if not len(array):
        raise _unusable(path, f'"{border.name}" has no samples', "its first axis has extent 0")
    found = array.astype(border.dtype) if real else array
    if real and not np.isfinite(found).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise _unusable(
            path,
            f'"{border.name}" contains numbers that are not finite',
            f"element {list(index)} is {array[index]}",
        )
    return found if with_batch else found[:, np.newaxis]


def _fits(shape: Sequence[int], wanted: Sequence[int | str]) -> bool:
    """Whether a shape has these extents; any extent fits a symbolic one."""
    return len(shape) == len(wanted) and all(
        isinstance(extent, str) or extent == found
        for found, extent in zip(shape, wanted, strict=True)
    )


def _misfit(path: Path, array: Array, border: Border) -> ModelError:
    """The error that an array has the wrong element type or shape."""
    shapes = [border.shape, *([border.shape[1:]] if border.shape[:1] == (1,) else [])]
    accepted = (_written(border.dtype, ("samples", *shape)) for shape in shapes)
    return ModelError(
        "calibration-003",
        f'"{border.name}" is {_written(array.dtype.name, array.shape)}, must be '
        + " or ".join(accepted),
        where=str(path),
        why="the samples are inputs of the float model, in its element type",
        help="preprocess the samples as for the float model, and stack them along a new first axis",
    )


def _unusable(path: Path, what: str, why: str) -> ModelError:
    """The error that calibration with the samples is impossible."""
    return ModelError(
        "calibration-004",
        what,
        where=str(path),
        why=why,
        help="store the same number of representative inputs, at least one, for every input",
    )


def _written(dtype: str, shape: Sequence[int | str]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "no arrays"
