"""Reads a model file into a graph; the format is recognised by content, not by suffix."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from penstock.errors import ModelError, UnsupportedError, UsageError, did_you_mean
from penstock.frontends import tflite
from penstock.frontends.causes import (
    ImportProblem,
    check_foreign,
    check_node,
    check_rows,
    explained,
    most_severe_first,
)
from penstock.frontends.control_flow import without_control_flow
from penstock.frontends.frameworks.framework import framework_of
from penstock.frontends.other_formats import (
    ONNX_BEGIN,
    READ,
    looks_like_onnx,
    refused_file,
    refused_folder,
)
from penstock.frontends.reading import AS_IT_IS, Reading, refused_calibration
from penstock.frontends.suffixes import MODEL_SUFFIXES, SUFFIXES
from penstock.frontends.unsigned import as_signed, is_unsigned, require_exact
from penstock.frontends.variables import (
    Variable,
    as_state,
    assigned,
    updated_variables,
    with_values_before,
    without_variables,
)
from penstock.guides import guide
from penstock.ir.foreign import ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.tensor import Data, DType, TensorType
from penstock.ir.verify import verify
from penstock.limits import DEFAULT_SIZE_LIMIT_BYTES, Allowance, allowed
from penstock.ops.registry import foreign_names

_PART_BYTES = 2**20  # A larger number would be allocated even if the file is small.
GZIP_MARK = b"\x1f\x8b"
FILE_LIKENESS = 0.8  # Of file names that are suggested: all have equal suffixes.


def read_bytes(path: Path, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> bytes:
    """The contents of a file.

    Raises ModelError if it does not exist, cannot be read, or exceeds the limit, UnsupportedError
    if it is a folder of another format."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError("it is a device or a pipe, no file")
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            Allowance(limit_bytes).take(size_bytes, f"a file of {size_bytes} bytes", str(path))
            return file.read(size_bytes)
    except OSError as error:
        if path.is_dir() and (refused := refused_folder(path)) is not None:
            raise refused from error
        raise ModelError(
            "model-001",
            f"the model cannot be read: {error.strerror or error}",
            where=str(path),
            help=_help(path)
            + "MODEL is a .tflite, .onnx, .keras or .pt2 file, or zoo:NAME (`penstock show zoo:` "
            "lists them)",
        ) from error


def _help(path: Path) -> str:
    """What else the user may have meant; empty or a phrase with a separator."""
    if path.is_dir():
        return "`penstock scan` takes a folder; "
    return did_you_mean(path.name, _models_beside(path), FILE_LIKENESS)


def _models_beside(path: Path) -> list[str]:
    try:
        beside = list(path.parent.iterdir())
        return [other.name for other in beside if set(other.suffixes) & set(MODEL_SUFFIXES)]
    except OSError:
        return []


def parse(raw: bytes, name: str, reading: Reading = AS_IT_IS, folder: Path | None = None) -> Graph:
    """The graph in a model file's bytes, which may be packed by gzip; `folder` contains the
    external data of an ONNX model.

    Raises ModelError (malformed), UnsupportedError (well-formed but not supported), or UsageError
    (the reading contradicts the file, such as an extent of a dimension that is not open)."""
    with allowed(reading.size_limit_bytes):
        return _parsed(unpacked(raw, name, reading.size_limit_bytes), name, reading, folder)


def _parsed(raw: bytes, name: str, reading: Reading, folder: Path | None) -> Graph:
    """The graph in the bytes of a model file, see `parse`."""
    if tflite.looks_like_tflite(raw):
        check_is_not_onnx(reading, name, "this is a TFLite model")
        if reading.assume_int8:
            raise UsageError(
                "usage-144",
                "--assume-int8 takes ONNX models only",
                where=name,
                why="this is a TFLite model",
                help="if it is a float model, quantise it "
                f"({guide('from-keras')}); otherwise, leave the option out",
            )
        return import_tflite(tflite.decode(raw, name))
    if not raw:
        raise ModelError(
            "model-031",
            "the file is empty",
            where=name,
            help="check that the file was copied whole",
        )
    refused = refused_file(raw, name)
    if refused is not None:
        raise refused
    if looks_like_onnx(raw, name):
        return _parse_onnx(raw, name, reading, folder)
    raise UnsupportedError(
        "model-005",
        "the file is neither a TFLite nor an ONNX model",
        where=name,
        why=f"bytes 4 to 8 are {raw[4:8]!r}, must be {tflite.IDENTIFIER!r} in TFLite; ONNX begins "
        f"with {ONNX_BEGIN!r}; the file has {len(raw)} bytes",
        help=READ,
    )


def check_is_not_onnx(reading: Reading, model: str, kind: str) -> None:
    """Raises UsageError if the user asks for what only ONNX files have: symbolic dimensions,
    channels before rows, or quantisation.  `kind` says what the model is."""
    check_dimensions((), reading, model)
    check_channels_last((), reading, model)
    check_constants((), reading, model)
    if reading.calibration is not None:
        raise refused_calibration(model, kind)


def check_dimensions(known: Iterable[str], reading: Reading, model: str) -> None:
    """Raises UsageError if the user gives an extent for a dimension that is not in `known`."""
    names = tuple(known)
    wrong = next((name for name, _ in reading.dimensions if name not in names), None)
    if wrong is not None:
        raise UsageError(
            "usage-114",
            f'the model has no open dimension "{wrong}"',
            where=f"{model}, --dimension",
            why="every extent of its inputs is fixed"
            if not names
            else "the dimensions that its inputs leave open are "
            + ", ".join(f'"{name}"' for name in names),
            help="use one of these names" if names else "leave --dimension out",
        )


def check_constants(known: Iterable[str], reading: Reading, model: str) -> None:
    """Raises UsageError if the user gives a constant for an input that is not in `known`."""
    names = tuple(known)
    wrong = next((name for name, _ in reading.constants if name not in names), None)
    if wrong is not None:
        raise UsageError(
            "usage-171",
            f'the model has no input "{wrong}" that may be a constant',
            where=f"{model}, --constant",
            why=f"its inputs are {', '.join(names)}"
            if names
            else "only inputs of ONNX models may become constants",
            help="use one of these names" if names else "leave --constant out",
        )


def check_channels_last(known: Iterable[str], reading: Reading, model: str) -> None:
    """Raises UsageError if the user declares an input channels-last that is not in `known`."""
    names = tuple(known)
    wrong = next((name for name in reading.channels_last if name not in names), None)
    if wrong is not None:
        listed = ", ".join(f'"{name}"' for name in names)
        raise UsageError(
            "usage-164",
            f'the model has no channels-first input "{wrong}"',
            where=f"{model}, --channels-last",
            why=f"its inputs with at least 3 axes are {listed}"
            if names
            else "only inputs of ONNX models with at least 3 axes have their channels first",
            help="use one of these names" if names else "leave --channels-last out",
        )


def unpacked(raw: bytes, name: str, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> bytes:
    """The bytes, decompressed if they are in gzip format.

    Raises ModelError for damaged data, and if they are more than the limit."""
    if raw[:2] != GZIP_MARK:
        return raw
    allowance, parts = Allowance(limit_bytes), list[bytes]()
    try:
        with gzip.open(BytesIO(raw)) as file:
            while part := file.read(_PART_BYTES):
                allowance.take(len(part), "unpacking it", name)
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(
            "model-006",
            f"the file cannot be unpacked: {error}",
            where=name,
            help="check that the file was copied whole",
        ) from error
    return b"".join(parts)


def model_bytes(path: Path, reading: Reading = AS_IT_IS) -> bytes:
    """The bytes of a TFLite or ONNX model, decompressed: those of a file, or those into which its
    framework converts it.  Raises ModelError, ToolError."""
    return model_of(path, reading)[0]


def read_file(path: Path, reading: Reading = AS_IT_IS) -> Graph:
    """The graph of a model file.  Raises as `parse`, and ToolError if a framework is missing."""
    raw, reading = model_of(path, reading)
    return parse(raw, path.name, reading, path.parent)


def model_of(path: Path, reading: Reading) -> tuple[bytes, Reading]:
    """The bytes of a TFLite or ONNX model, as `model_bytes`, and how to read them."""
    limit_bytes = reading.size_limit_bytes
    raw = read_bytes(path, limit_bytes)
    framework = framework_of(raw, path.name)
    if framework is None:
        return unpacked(raw, path.name, limit_bytes), reading
    from penstock.frontends.frameworks.conversion import converted  # takes long to import

    made = converted(raw, path, framework, reading)
    if framework.quantises:
        return made, replace(reading, calibration=None)
    return made, replace(reading, free_layout=True)


def _parse_onnx(raw: bytes, name: str, reading: Reading, folder: Path | None) -> Graph:
    """The graph in the bytes of an ONNX model, see `parse`.  Imports its modules only when called,
    since they and the package `onnx` take a tenth of a second to import."""
    from penstock.frontends.onnx.file import decode, with_batch_of_one, with_constants
    from penstock.frontends.onnx.importer import import_onnx
    from penstock.frontends.onnx.post_training import quantised, read_constants

    file = decode(raw, name, folder)
    check_dimensions(file.open_dimensions(), reading, name)
    images = (border.name for border in file.inputs if len(border.shape) > 2)
    check_channels_last(images, reading, name)
    check_constants((border.name for border in file.inputs), reading, name)
    batch = with_batch_of_one(reading, file)
    _, file = quantised(raw, file, batch, folder)
    file = with_constants(file, read_constants(file, batch))
    try:
        return import_onnx(file, batch).graph
    except UnsupportedError:
        raise
    except ModelError as error:
        if batch is reading:
            raise
        taken = f'the file leaves the extent "{file.batch_dimension()}" open, which is taken as 1'
        why = f"{error.why}; {taken}" if error.why else taken
        help = f'if it is not the batch, set it: --dimension "{file.batch_dimension()}=EXTENT"'
        raise error.but(why=why, help=help) from error


def import_tflite(model: ForeignModel) -> Graph:
    """The graph of a decoded TFLite model, nodes in the file's order, verified.

    Raises ModelError or UnsupportedError that lists the problems of all nodes."""
    nodes: list[Node] = []
    # Shapes follow from weights that are constant; bodies of loops have weights of their own.
    plain = with_real_constants(without_control_flow(with_real_constants(model)))
    stateless = without_variables(with_values_before(plain))
    model, variables = stateless.model, list(stateless.variables)
    model = with_quantised_operands(model)
    signed = as_signed(model) if is_unsigned(model) else None
    model = model if signed is None else signed.model
    taken = frozenset(v.name for v in _file_values(model) if v.origin is not None)
    problems: list[ImportProblem] = []
    for foreign in model.nodes:
        try:
            found, updated = _import_node(foreign, taken)
            nodes += found
            variables += updated
        except ModelError as error:
            placed = error if error.where else error.at(foreign.where)
            problems.append(explained(placed, foreign, model))
    if problems:
        raise most_severe_first(problems)
    states = tuple(as_state(variable, nodes, taken) for variable in variables)
    # Some files leave the shapes of outputs of custom operators open.
    computed = {node.name: node.output for node in nodes}
    outputs = tuple(computed.get(value.name, value) for value in model.outputs)
    graph = Graph(model.name, model.inputs, outputs, tuple(nodes), states)
    graph = graph if signed is None else signed.with_borders(graph)
    verify(graph)
    check_rows(graph)
    return graph


# Operators that dequantise their operands themselves, as DEQUANTIZE does.
_DEQUANTISING = ("CUSTOM:TFLite_Detection_PostProcess",)


def with_quantised_operands(model: ForeignModel) -> ForeignModel:
    """The model in which operators that read the results of DEQUANTIZE, and need not, read its
    operands: real numbers take four times the memory."""
    quantised = {node.y.name: node.x for node in model.nodes if _dequantises(node)}

    def rewired(node: ForeignNode) -> ForeignNode:
        return node.reading(quantised) if node.name in _DEQUANTISING else node

    return replace(model, nodes=tuple(map(rewired, model.nodes)))


def _dequantises(node: ForeignNode) -> bool:
    return node.name == "DEQUANTIZE" and node.x.dtype in (DType.INT8, DType.UINT8)


def with_real_constants(model: ForeignModel) -> ForeignModel:
    """The model whose constants are dequantised where a DEQUANTIZE reads them, as converters write
    weights that save space only, and quantised where a QUANTIZE does, as they write weights of
    quantisation-aware training."""
    known: dict[str, Value] = {}
    kept: list[ForeignNode] = []
    for node in model.nodes:
        node = node.reading(known)
        found = _CONVERTED[node.name](node) if node.name in _CONVERTED else None
        if found is not None and found.name not in {value.name for value in model.outputs}:
            known[found.name] = found
        else:
            kept.append(node)
    return replace(model, nodes=tuple(kept))


def _real_constant(node: ForeignNode) -> Value | None:
    """The output of a DEQUANTIZE of a constant; None for one of a computed tensor."""
    x, y = node.x, node.y
    if x.data is None or (x.dtype is not DType.FLOAT32 and x.quantisation is None):
        return None
    elements = x.array
    if x.dtype is not DType.FLOAT32:
        elements = x.type.real_numbers(elements)
    return Value(y.name, TensorType(x.shape, DType.FLOAT32), Data.of(elements), y.origin)


def _quantised_constant(node: ForeignNode) -> Value | None:
    """The output of a QUANTIZE of real constants; None for others."""
    x, q = node.x, node.y.quantisation
    if x.data is None or x.dtype is not DType.FLOAT32 or q is None:
        return None
    type = TensorType(x.shape, node.y.dtype, q)
    return Value(node.y.name, type, Data.of(type.quantised(x.array)), node.y.origin)


_CONVERTED = {"DEQUANTIZE": _real_constant, "QUANTIZE": _quantised_constant}


def _file_values(model: ForeignModel) -> Iterator[Value]:
    yield from (*model.inputs, *model.outputs)
    for node in model.nodes:
        yield from (value for value in (*node.inputs, *node.outputs) if value is not None)


def _import_node(
    foreign: ForeignNode, taken: frozenset[str]
) -> tuple[list[Node], tuple[Variable, ...]]:
    decode_node = foreign_names().get(foreign.name)
    if decode_node is None:
        raise foreign.unsupported("operator is not supported")
    check_foreign(foreign)
    require_exact(foreign)

    def own(value: Value) -> Value:
        if value.origin is not None:
            return value
        return replace(value, name=free_name(value.name, taken))

    made = tuple(decode_node(foreign))
    nodes = [
        Node(m.op, tuple(map(own, m.inputs)), assigned(own(m.output), foreign, m), foreign.where)
        for m in made
    ]
    for node in nodes:
        check_node(node)
    return nodes, updated_variables(foreign, made, nodes)


# Finds the model files of a folder and counts their operators.


_ENDINGS = tuple(f"{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz"))


def model_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and its subfolders that are named as models, sorted within each folder.

    Links to folders are not followed, since they may form a cycle."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(files) if is_model_file(name))


def is_model_file(name: str) -> bool:
    """Whether a file is named as a model.

    >>> is_model_file("kws.TFLITE"), is_model_file("net.onnx.gz"), is_model_file("notes.txt")
    (True, True, False)
    """
    return name.lower().endswith(_ENDINGS)


def operator_count(raw: bytes, name: str, limit_bytes: int) -> int | None:
    """The number of operators in a model file; None if it cannot be read within the limit."""
    try:
        with allowed(limit_bytes):
            return _operator_count(unpacked(raw, name, limit_bytes), name)
    except ModelError:
        return None


def _operator_count(raw: bytes, name: str) -> int | None:
    """The number of operators in unpacked bytes; None if they are damaged."""
    if tflite.looks_like_tflite(raw):
        return tflite.operator_count(raw)
    if not looks_like_onnx(raw, name):
        return None
    from penstock.frontends.onnx import file  # takes long to import

    return file.operator_count(raw)
