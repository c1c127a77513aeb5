"""Input and output arrays: seeded inputs, and .npy files with those of one run or several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from penstock.api.arguments import SEQUENCE_STEPS
from penstock.choices import InterfaceTypes
from penstock.errors import ModelError, OutputError, UsageError
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, TensorType
from penstock.ladder import with_interface
from penstock.ops.conversions import QuantizeReal
from penstock.passes.quantised_interface import quantised_interface
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.graphs import read
from penstock.quoting import each_quoted, typed
from penstock.simulators.drawn_inputs import InputType, draw_inputs

NPY_MAGIC = b"\x93NUMPY"


def sequence_steps(model: Graph) -> int | None:
    """The number of runs of each random sequence; None for a model without state, whose runs are
    independent of each other."""
    return SEQUENCE_STEPS if model.states else None


def drawn_steps(model: Graph) -> int:
    """The number of the runs of `drawn_sets` that belong to one sequence."""
    return sequence_steps(model) or 1


def drawn_sets(compilation: Compilation, count: int) -> tuple[Mapping[str, Array], ...]:
    """Sets of random inputs by name; the seed is fixed, so equal models have equal inputs.

    For a model with state, `count` sequences of `SEQUENCE_STEPS` sets each."""
    steps = drawn_steps(compilation.model)
    return _drawn(compilation, ((k, step) for k in range(count) for step in range(steps)))


def drawn_hops(compilation: Compilation, hops: int) -> tuple[Mapping[str, Array], ...]:
    """The random inputs of a sequence of runs; they are of all kinds in turn."""
    return _drawn(compilation, ((hop, 0) for hop in range(hops)))


def drawn_inputs(model: Graph, count: int) -> tuple[Mapping[str, Array], ...]:
    """As `drawn_sets`, for a model as it is read, with the element types of its inputs."""
    steps = drawn_steps(model)
    return _drawn_of(model, ((k, step) for k in range(count) for step in range(steps)))


def _drawn(
    compilation: Compilation, numbers: Iterable[tuple[int, int]]
) -> tuple[Mapping[str, Array], ...]:
    sets = _drawn_of(compilation.model, numbers)
    return tuple(with_interface(compilation, arrays) for arrays in sets)


def _drawn_of(model: Graph, numbers: Iterable[tuple[int, int]]) -> tuple[Mapping[str, Array], ...]:
    drawn = (draw_inputs(input_types(model.inputs), number, seed) for number, seed in numbers)
    names = [value.name for value in model.inputs]
    sets = (dict(zip(names, arrays, strict=True)) for arrays in drawn)
    return tuple(_in_range(model, arrays) for arrays in sets)


def _in_range(model: Graph, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The inputs with real numbers of [-1, 1) scaled to the range of the quantisation that reads
    them."""
    found = dict(inputs)
    for node in model.nodes:
        name = node.inputs[0].name if node.inputs else ""
        if isinstance(node.op, QuantizeReal) and name in found:
            y = node.output.type
            reals = (inputs[name] * -float(y.dtype.lower) - y.zero_point) * y.scale
            found[name] = reals.astype(np.float32)
    return found


def input_types(inputs: Sequence[Value]) -> list[InputType]:
    """Shape, element type and zero point of each input."""
    return [(v.shape, v.dtype.value, v.zero_point) for v in inputs]


def read_inputs(
    model: str,
    paths: Sequence[Path],
    reading: Reading = AS_IT_IS,
    io: InterfaceTypes = InterfaceTypes.QUANTISED,
) -> tuple[Mapping[str, Array], ...]:
    """The inputs of each run of a model from .npy files, given in the model's order.

    The elements of each file have the type of the model's input or that of the generated code,
    which `io` decides.  The files contain a single run.  For a model with state, they may contain a
    sequence of runs: arrays with one more axis, the first, whose index is the run.

    Raises ModelError if number, shape or element type do not match."""
    graph = read(model, reading)
    values = graph.inputs
    if len(paths) != len(values):
        raise ModelError(
            "input-001",
            f"{len(paths)} inputs are given, the model has {len(values)}",
            where=model,
            help="use --input once for each of: " + each_quoted(v.name for v in values),
        )
    within = _generated_inputs(graph, io)
    runs = [
        read_runs(path, value, other.type, index, stateful=bool(graph.states))
        for index, (path, value, other) in enumerate(zip(paths, values, within, strict=True))
    ]
    lengths = [len(arrays) for arrays in runs]
    if len(set(lengths)) > 1:
        raise ModelError(
            "input-004",
            f"the inputs have {', '.join(map(str, lengths))} runs, must have as many",
            where=model,
            help="the first axis of each sequence is the run",
        )
    names = [value.name for value in values]
    return tuple(dict(zip(names, arrays, strict=True)) for arrays in zip(*runs, strict=True))


def check_are_sets(sets: object) -> None:
    """Raises UsageError unless `sets` is None or a sequence of mappings."""
    if sets is None:
        return
    if isinstance(sets, Sequence) and all(isinstance(one, Mapping) for one in sets):  # pyright: ignore[reportUnknownVariableType]
        return
    raise UsageError(
        "usage-161",
        f"`sets` is a {type(sets).__name__}, must be a list with a dictionary for each inference",
        where="the argument `sets`",
        help='write sets=[{"input": array}], even for a single inference',
    )


def check_sets(
    model: Graph, sets: Sequence[Mapping[str, Array]], io: InterfaceTypes = InterfaceTypes.QUANTISED
) -> None:
    """Check the inputs of each run, given by name.

    Raises UsageError if a name is missing or unknown, or if an input is no array; ModelError if its
    shape or element type is not accepted."""
    names = [value.name for value in model.inputs]
    for number, given in enumerate(sets):
        if set(given) != set(names):
            raise UsageError(
                "usage-125",
                f"given: {each_quoted(given) or 'none'}; inputs of the model: {each_quoted(names)}",
                where=f"sets[{number}]",
                help="give one array for each input of the model, by its name",
            )
        within_values = _generated_inputs(model, io)
        for index, (value, within) in enumerate(zip(model.inputs, within_values, strict=True)):
            where, array = f'sets[{number}], input "{value.name}"', given[value.name]
            if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(
                    "usage-126",
                    f"the input is a {type(array).__name__}, must be a NumPy array",
                    where=where,
                    help=f"convert it: np.array(.., np.{value.dtype.value})",
                )
            help = "convert the array to this shape and element type"
            accepted_runs(array, value, within.type, index, stateful=False, where=where, help=help)


def _generated_inputs(graph: Graph, io: InterfaceTypes) -> Sequence[Value]:
    return (quantised_interface(graph) if io is InterfaceTypes.QUANTISED else graph).inputs


def check_outputs(model: str, paths: Sequence[Path], reading: Reading = AS_IT_IS) -> None:
    """Check the files that receive the first outputs of a model, before it is compiled.

    Raises UsageError if the model has fewer outputs, or if a name does not end in .npy; OutputError
    if a file cannot be written."""
    for path in paths:
        if path.suffix != ".npy" and not path.is_dir():
            raise UsageError(
                "usage-162",
                f"{path} is not the name of a .npy file",
                where="--output",
                why="outputs are written in NumPy's format",
                help=f"write --output {path.parent / path.stem}.npy",
            )
    outputs = len(read(model, reading).outputs) if paths else 0
    if len(paths) > outputs:
        raise UsageError(
            "usage-017",
            f"{len(paths)} output files are named, the model has {outputs} outputs",
            where="--output",
            help="name a file for each output, or for the first ones only",
        )
    for path in paths:
        folder = path.parent
        if not folder.is_dir():
            raise _unwritable(path, "No such file or directory")
        if path.is_dir():
            raise _unwritable(path, "Is a directory")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _unwritable(path, "Permission denied")


def write_array(path: Path, array: Array) -> None:
    """Write an array as .npy.  Raises OutputError."""
    try:
        with path.open("wb") as file:
            np.save(file, array)
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error


def _unwritable(path: Path, reason: str) -> OutputError:
    return OutputError(
        "output-003",
        f"the output cannot be written: {reason}",
        where=str(path),
        help="use a file in an existing, writable folder",
    )


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
        if array.shape == value.shape:
            return (array,)
        if stateful and _is_sequence(array, value.shape) and len(array):
            return tuple(array)
    raise ModelError(
        "input-003",
        f"the array is {typed(array.dtype.name, array.shape)}, must be "
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


def _accepted(types: Sequence[TensorType], *, stateful: bool) -> str:
    """The element types and shapes that are accepted."""
    found = " or ".join(map(str, types))
    if not stateful:
        return found
    runs = " or ".join(typed(type.dtype.value, ("runs", *type.shape)) for type in types)
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
