"""Post-training quantisation of float models, by onnxruntime (decision 22).

The result is a model in QDQ format: int8 activations with one scale and zero point per tensor, int8
weights with one scale per output channel and zero point 0.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from penstock.errors import ModelError, ToolError, UsageError, did_you_mean
from penstock.frontends.onnx.file import Border, File, decode, load_all
from penstock.frontends.onnx.operators import DEQUANTISE, QUANTISE
from penstock.frontends.reading import Reading, refused_calibration
from penstock.ir.array_archive import ArchiveError, read_array, read_arrays
from penstock.ir.tensor import Array
from penstock.quoting import each_quoted, typed

LOGGER: Final = logging.getLogger("penstock.quantise")

# Calibration samples: inputs of a float model, in an .npz archive with one array per input.


REALS = ("float16", "float32", "float64")
# The arrays of each sample, by the name of the input, in the element types of the model.
Samples = tuple[dict[str, Array], ...]
LABELS: Final = "labels"
"""The array in an archive with what is expected of the only output."""


def read_samples(path: Path, inputs: Sequence[Border], limit_bytes: int) -> Samples:
    """The samples in an archive, for inputs with these names, element types and shapes.

    The first axis of each array is the sample; an axis of extent 1 with which the input begins, the
    batch, may be missing.  Arrays are named after the inputs, or in their order arr_0, arr_1, .. as
    numpy.savez names them.  Raises ModelError."""
    return _samples(path, _by_name(_arrays(path, inputs, limit_bytes), inputs), inputs)


def read_labelled(
    path: Path, inputs: Sequence[Border], outputs: Sequence[str], limit_bytes: int
) -> tuple[Samples, dict[str, Array]]:
    """The samples in an archive as `read_samples`, and what is expected of outputs: arrays that are
    named after them, or "labels" for a single one.  Raises ModelError."""
    arrays = _arrays(path, inputs, limit_bytes)
    names = [border.name for border in inputs]
    keys = {name: name for name in outputs if name in arrays and name not in names}
    if len(outputs) == 1 and not keys and LABELS in arrays and LABELS not in names:
        keys = {outputs[0]: LABELS}
    expected = {name: arrays.pop(key) for name, key in keys.items()}
    return _samples(path, _by_name(arrays, inputs), inputs), expected


def _samples(path: Path, arrays: Mapping[str, Array], inputs: Sequence[Border]) -> Samples:
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
            f"the samples cannot be read: {error.strerror or error}",
            where=str(path),
            help=how,
        ) from error
    except ArchiveError as error:
        raise ModelError(
            "calibration-001",
            "the samples are no .npz archive of arrays",
            where=str(path),
            why=str(error),
            help=how,
        ) from error


def _by_name(arrays: dict[str, Array], inputs: Sequence[Border]) -> dict[str, Array]:
    """The arrays by the names of the inputs, if they are numbered."""
    numbered = [f"arr_{k}" for k in range(len(inputs))]
    if arrays.keys() != set(numbered):
        return arrays
    return {border.name: arrays[name] for border, name in zip(inputs, numbered, strict=True)}


def read_constants(file: File, reading: Reading) -> dict[str, Array]:
    """The arrays that become constants of a model, by the names of its inputs.

    Raises ModelError for files that cannot be read, and for arrays that are not as the input."""
    borders, found = {border.name: border for border in file.inputs}, dict[str, Array]()
    for name, path in reading.constants:
        border = borders[name]
        try:
            array = read_array(path, reading.size_limit_bytes)
        except (OSError, ArchiveError) as error:
            raise ModelError(
                "calibration-005",
                f'the constant for input "{name}" cannot be read: {error}',
                where=str(path),
                help="write the array with numpy.save",
            ) from error
        is_alike = border.dtype in REALS if array.dtype.kind == "f" else False
        if not (is_alike or array.dtype.name == border.dtype) or not _fits(
            array.shape, border.shape
        ):
            raise ModelError(
                "calibration-006",
                f'"{name}" is {typed(array.dtype.name, array.shape)}, must be '
                f"{typed(border.dtype, border.shape)}",
                where=str(path),
                help="write an array with the shape and the element type of the input",
            )
        found[name] = array
    return found


def _keyword(name: str) -> str:
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
    accepted = (typed(border.dtype, ("samples", *shape)) for shape in shapes)
    return ModelError(
        "calibration-003",
        f'"{border.name}" is {typed(array.dtype.name, array.shape)}, must be '
        + " or ".join(accepted),
        where=str(path),
        why="the samples are inputs of the float model, in its element type",
        help="preprocess the samples as for the float model, and stack them along a new first axis",
    )


def _unusable(path: Path, what: str, why: str) -> ModelError:
    return ModelError(
        "calibration-004",
        what,
        where=str(path),
        why=why,
        help="store the same number of representative inputs, at least one, for every input",
    )


def _listed(names: Iterable[str]) -> str:
    return each_quoted(names) or "no arrays"


# Nodes of which neither input nor output is an activation.
NOT_QUANTISED = ("Constant", "ConstantOfShape", "Shape")


def quantised(raw: bytes, file: File, reading: Reading, folder: Path | None) -> tuple[bytes, File]:
    """The model to import, encoded and decoded: quantised if `reading` names calibration samples.

    Raises UsageError for a quantised model, ModelError for unusable samples, ToolError if
    onnxruntime is missing or fails."""
    if reading.calibration is None:
        return raw, file
    if reading.assume_int8:
        raise UsageError(
            "usage-146",
            "--quantise and --assume-int8 exclude each other",
            where=file.name,
            why="one computes scales from samples, the other one invents them",
            help="leave --assume-int8 out",
        )
    if any(node.name in (QUANTISE, DEQUANTISE) or "QLinear" in node.name for node in file.nodes):
        raise refused_calibration(file.name, "this model is quantised already")
    model = onnx.ModelProto.FromString(raw)
    load_all(model, file.name, folder)
    inputs = _with_extents(model, file, dict(reading.dimensions))
    samples = read_samples(reading.calibration, inputs, reading.size_limit_bytes)
    require_onnxruntime("--quantise uses its post-training quantisation")
    try:
        made = _quantised(model, samples)
    except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
        raise ToolError(
            "tool-046",
            "onnxruntime cannot quantise the model",
            where=file.name,
            why=" ".join(str(error).split())[:300] or type(error).__name__,
            help="check that onnxruntime runs the model on the samples",
        ) from error
    return made, decode(made, file.name, None)


def require_onnxruntime(why: str) -> None:
    """Raises ToolError with installation instructions if onnxruntime is not installed.

    why: what needs it."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolError(
            "tool-045",
            "onnxruntime is not installed",
            where="Python package onnxruntime",
            why=why,
            help="pip install 'penstock[quantise]'",
        )


def _with_extents(model: onnx.ModelProto, file: File, extents: Mapping[str, int]) -> list[Border]:
    constants = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in constants]
    found: list[Border] = []
    for value, border in zip(values, file.inputs, strict=True):
        shape = tuple(extents.get(str(extent), extent) for extent in border.shape)
        for dimension, extent in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            if isinstance(extent, int):
                dimension.dim_value = extent
        found.append(replace(border, name=value.name, shape=shape))
    return found


class _Logged(logging.Handler):
    """Logs what others log on the root logger, for --verbose."""

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("penstock"):
            LOGGER.debug("%s", record.getMessage())


@contextmanager
def _warnings_logged() -> Generator[None]:
    """Keeps onnxruntime, which logs on the root logger, from printing on stderr."""
    root, handler = logging.getLogger(), _Logged()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _quantised(model: onnx.ModelProto, samples: Samples) -> bytes:
    # onnxruntime quantises the operators that it has integer kernels for, unless it is told
    # otherwise; penstock computes all operators in integers.
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        rest = iter(samples)

        def get_next(self) -> dict[str, Array] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return next(self.rest, None)

    with tempfile.TemporaryDirectory() as folder, _warnings_logged():
        before, folded, result = (Path(folder) / name for name in ("before", "folded", "result"))
        onnx.save(model, before)
        quant_pre_process(before, folded, skip_symbolic_shape=True)
        quantize_static(
            folded,
            result,
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=sorted(
                {node.op_type for node in onnx.load(folded).graph.node} - set(NOT_QUANTISED)
            ),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "ForceQuantizeNoInputCheck": True},
        )
        return result.read_bytes()
