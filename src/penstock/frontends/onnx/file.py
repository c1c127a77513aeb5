"""File: an ONNX model as records.  Decodes the protobuf without knowledge of operators.

The memory that parsing takes is computed before: two bytes of a protobuf may stand for an object of
a hundred.

Sources: ONNX IR specification and `onnx.proto` (package `onnx`); Protocol Buffers documentation,
"Encoding".
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.onnx.operators import operator_schema
from penstock.frontends.reading import Reading, printable
from penstock.frozen import frozen
from penstock.ir.foreign import Attribute
from penstock.ir.tensor import Array
from penstock.limits import ENTRY_BYTES, NODE_BYTES, SizeLimitError, take

# External data: elements of constants in files beside the model.
#
# A model names these files, and may come from a stranger, so that they are read only inside the
# model's folder, links included.  Source: ONNX, docs/ExternalData.md.


_DRIVE = re.compile(r"[A-Za-z]:")


def with_elements(tensor: onnx.TensorProto, model: str, folder: Path | None) -> onnx.TensorProto:
    """A TensorProto with the elements that are stored in a file of the model's folder.

    Raises ModelError if the file is missing, outside the folder, or too short; SizeLimitError."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    try:
        raw = _content(_inside(location, folder), said, _size_bytes(tensor), model)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            "onnx-003",
            f'the data of "{printable(tensor.name)}" is missing',
            where=model,
            why=f"it is stored in {printable(location)!r}: {why}",
            help="put the file with the external data beside the model; a link must lead to a file "
            "in the folder of the model",
        ) from error
    found = onnx.TensorProto()
    found.CopyFrom(tensor)
    del found.external_data[:]
    found.data_location = onnx.TensorProto.DEFAULT
    found.raw_data = raw
    return found


def load_all(model: onnx.ModelProto, name: str, folder: Path | None) -> None:
    """Replace each constant of a model that is stored in a file, see `with_elements`."""
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(with_elements(tensor, name, folder))


def external_files(raw: bytes, folder: Path) -> tuple[Path, ...] | None:
    """The files in a folder to which the constants of an ONNX file refer; None if the file is
    damaged, or refers to other files."""
    try:
        take_messages(raw, "")
        entries = (
            e for t in _tensors(onnx.ModelProto.FromString(raw).graph) for e in t.external_data
        )
        return tuple(_inside(e.value, folder) for e in entries if e.key == "location")
    except Exception:  # the protobuf runtime has classes of its own, which differ
        return None


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def _inside(location: str, folder: Path | None) -> Path:
    """The path of a file in the folder of the model.  Raises OSError for any other location."""
    parts = re.split(r"[/\\]", location)
    is_relative = bool(location) and parts[0] != "" and not _DRIVE.match(location)
    if folder is None or not is_relative or ".." in parts or "\0" in location:
        raise OSError("it must be a file in the model's folder")
    path = folder.joinpath(location).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise OSError("it is a link that leads out of the model's folder")
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    return path


def _content(path: Path, said: dict[str, str], size_bytes: int, model: str) -> bytes:
    """The bytes of a constant.  Raises OSError or ValueError if they are not there."""
    offset, length = int(said.get("offset", 0)), int(said.get("length", size_bytes))
    if length != size_bytes or offset < 0:
        raise ValueError(f"offset {offset} and length {length}, must have {size_bytes} bytes")
    with path.open("rb") as file:
        end = file.seek(0, 2)
        if offset + length > end:
            raise ValueError(f"the file ends at byte {end}, the data at {offset + length}")
        take(length, f"external data of {length} bytes", model)
        file.seek(offset)
        return file.read(length)


def _size_bytes(tensor: onnx.TensorProto) -> int:
    """The bytes that the elements of a constant take.  Raises ValueError for odd types."""
    try:
        item_bytes = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:
        raise ValueError(f"element type {tensor.data_type} does not exist") from None
    if any(extent < 0 for extent in tensor.dims):
        raise ValueError(f"shape {list(tensor.dims)} has a negative extent")
    elements = math.prod(tensor.dims)
    bits = 4 if "INT4" in onnx.TensorProto.DataType.Name(tensor.data_type) else 8 * item_bytes
    return -(-elements * bits // 8)


_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
# Bytes in memory of an element of a packed list, which takes at least one byte in the file.
_WIDEST_ELEMENT = 8
_AT_ONCE = 2**20
_NODE: Any = onnx.NodeProto.DESCRIPTOR
_TENSOR: Any = onnx.TensorProto.DESCRIPTOR
# Types of fields whose content takes as many bytes in memory as in the file.
_TEXTS = tuple(_TENSOR.fields_by_name[name].type for name in ("name", "raw_data"))


def take_messages(raw: bytes, model: str) -> None:
    """Take the memory of the fields of a model's messages from the allowance of the context.

    Damaged messages end early: parsing them fails.  Raises SizeLimitError."""
    pending = 0
    rest: list[tuple[Any, int, int]] = [(onnx.ModelProto.DESCRIPTOR, 0, len(raw))]
    while rest:
        message, at, end = rest.pop()
        pending += NODE_BYTES if message is _NODE else ENTRY_BYTES
        while at < end:
            key, at = _varint(raw, at, end)
            size, kind = 0, key & 7
            if kind == _VARINT:
                _, at = _varint(raw, at, end)
            elif kind == _DELIMITED:
                size, at = _varint(raw, at, end)
            else:
                at += {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
            field = message.fields_by_number.get(key >> 3) if at + size <= end else None
            if field is not None and field.message_type is not None:
                rest.append((field.message_type, at, at + size))
            elif field is not None and size and field.type not in _TEXTS:
                pending += size * _WIDEST_ELEMENT
            pending += ENTRY_BYTES
            at += size
            if pending >= _AT_ONCE:
                take(pending, "its nodes and lists", model)
                pending = 0
    take(pending, "its nodes and lists", model)


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """A number and the position after it; the end of the message for a damaged one."""
    value = shift = 0
    while at < end and shift < 64:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, end


LOGGER: Final = logging.getLogger("penstock.onnx")
OLDEST_OPSET = 7  # The first opset with NumPy's broadcasting.
MOST_BYTES = 2**31
_OWN = ("", "ai.onnx")
_CONTRIBUTED = "com.microsoft"
DOMAINS = (*_OWN, _CONTRIBUTED)
NAMESAKES = ("Attention", "RotaryEmbedding")
"""Operators of onnxruntime that take other inputs than those of ONNX with these names."""
_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_UNUSED_INPUTS = ("roi",)  # Of opset 11, which onnxruntime and exporters leave out.
REALS = ("float16", "bfloat16", "float32", "float64")
_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
_HALF_BYTES = {"int4": "int8", "uint4": "uint8"}
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    AttributeError,
    MemoryError,
    RecursionError,
    RuntimeError,
)


@frozen
class Subgraph:
    """A graph in an attribute of a node, such as a branch or the body of a loop."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    nodes: tuple[FileNode, ...]

    def captured(self) -> tuple[str, ...]:
        """Names that the subgraph reads from the graph around it."""
        written = {"", *self.inputs, *self.constants}
        written.update(name for node in self.nodes for name in node.outputs)
        read = (*(name for node in self.nodes for name in node.inputs), *self.outputs)
        return tuple(dict.fromkeys(name for name in read if name not in written))


@frozen
class FileNode:
    """A node; inputs and outputs by name, "" for absent ones.  What its subgraphs read are its last
    inputs."""

    name: str
    where: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    tensors: Mapping[str, Array] = field(default_factory=dict)
    graphs: Mapping[str, Subgraph] = field(default_factory=dict)

    @property
    def x(self) -> str:
        """Input 0."""
        return self.inputs[0]

    @property
    def y(self) -> str:
        """Output 0."""
        return self.outputs[0]


@frozen
class Border:
    """An input or output of the model; `shape` has extents, or names of symbolic dimensions."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@frozen
class File:
    """A model: nodes in the file's order; floating-point constants are float32."""

    name: str
    opset: int
    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    constants: Mapping[str, Array]
    nodes: tuple[FileNode, ...]

    def open_dimensions(self) -> tuple[str, ...]:
        """Names of the symbolic dimensions of inputs, in order."""
        extents = (extent for border in self.inputs for extent in border.shape)
        return tuple(dict.fromkeys(e for e in extents if isinstance(e, str)))

    def batch_dimension(self) -> str | None:
        """The symbolic dimension that is the first of every input which leaves extents open, and no
        other axis of an input; None if there is none."""
        opened = [b.shape for b in self.inputs if any(isinstance(e, str) for e in b.shape)]
        firsts = {shape[0] for shape in opened}
        others = {extent for shape in opened for extent in shape[1:]}
        (name,) = firsts if len(firsts) == 1 else (None,)
        return name if isinstance(name, str) and name not in others else None

    def names(self) -> frozenset[str]:
        """Names of all tensors."""
        borders = (border.name for border in (*self.inputs, *self.outputs))
        written = (name for node in self.nodes for name in node.outputs)
        return frozenset((*self.constants, *borders, *written))


def with_batch_of_one(reading: Reading, file: File) -> Reading:
    """The reading, in which a batch that the model leaves open has one sample unless it says
    otherwise."""
    name = file.batch_dimension()
    if name is None or name in dict(reading.dimensions):
        return reading
    return replace(reading, dimensions=(*reading.dimensions, (name, 1)))


def with_constants(file: File, arrays: Mapping[str, Array]) -> File:
    """The model with some inputs, by name, as constants."""
    inputs = tuple(border for border in file.inputs if border.name not in arrays)
    constants = {name: _of_file(x) for name, x in arrays.items()}
    return replace(file, inputs=inputs, constants={**file.constants, **constants})


def node_of(node: onnx.NodeProto, where: str) -> FileNode:
    """A node of a protobuf; `where` says which."""
    attributes: dict[str, Attribute] = {}
    tensors: dict[str, Array] = {}
    for a in node.attribute:
        if a.type == onnx.AttributeProto.TENSOR:
            tensors[a.name] = _of_file(np.asarray(numpy_helper.to_array(a.t)))
        else:
            attributes[a.name] = _attribute(a)
    return FileNode(node.op_type, where, tuple(node.input), tuple(node.output), attributes, tensors)


def _of_file(elements: Array) -> Array:
    """Elements as a file has them: real numbers are float32."""
    return elements.astype(np.float32) if elements.dtype.kind == "f" else elements


class _Malformed(Exception):
    """The protobuf is readable but inconsistent; the text describes the problem."""


def decode(raw: bytes, name: str, folder: Path | None) -> File:
    """The model in an ONNX file; `folder` contains its external data.

    Raises ModelError if the file is damaged, UnsupportedError if it is too old or uses unsupported
    features."""
    take_messages(raw, name)
    try:
        model: Any = onnx.ModelProto.FromString(raw)
    except Exception as error:  # the protobuf runtime has classes of its own, which differ
        raise _damaged(name, "it is not a protobuf of the ONNX schema") from error
    try:
        return _Reader(model, name, folder).file()
    except SizeLimitError:
        raise
    except _Malformed as error:
        raise _damaged(name, str(error)) from error
    except _DAMAGE as error:
        text = f"reading it failed ({type(error).__name__}: {printable(str(error))[:200]})"
        raise _damaged(name, text) from error


def operator_count(raw: bytes) -> int | None:
    """The number of nodes in an ONNX file; None if the file is damaged."""
    try:
        take_messages(raw, "")
        return len(onnx.ModelProto.FromString(raw).graph.node)
    except Exception:  # the protobuf runtime has classes of its own, which differ
        return None


def _damaged(name: str, why: str) -> ModelError:
    return ModelError(
        "onnx-001",
        "the ONNX file is damaged",
        where=name,
        why=why,
        help="check that the file was copied whole; export the model again",
    )


def _dequantised(graph: onnx.GraphProto) -> frozenset[str]:
    """Names of constants that only DequantizeLinear reads: of the real numbers, it does not matter
    that elements of 4 bits are stored in bytes."""
    if any(a.type == onnx.AttributeProto.GRAPH for node in graph.node for a in node.attribute):
        return frozenset()
    others = {n for node in graph.node if node.op_type != "DequantizeLinear" for n in node.input}
    others |= {output.name for output in graph.output}
    return frozenset(t.name for t in graph.initializer) - others


class _Reader:
    """Reads one model and replaces its names by unique printable ones."""

    def __init__(self, model: Any, name: str, folder: Path | None) -> None:
        self._model, self._name, self._folder = model, name, folder
        self._opset = self._stated_opset()
        self._names: dict[str, str] = {"": ""}
        self._taken: set[str] = {""}
        self._dequantised = _dequantised(model.graph)

    def file(self) -> File:
        graph = self._model.graph
        if not graph.node and not graph.output:
            raise _Malformed("it has no graph")
        constants = {self._unique(t.name): self._array(t, t.name) for t in graph.initializer}
        if graph.sparse_initializer:
            raise UnsupportedError(
                "onnx-002", "sparse constants", where=self._name, help="export without sparsity"
            )
        inputs = tuple(self._border(v) for v in graph.input)
        nodes = tuple(self._node(n, i) for i, n in enumerate(graph.node))
        outputs = tuple(self._border(v) for v in graph.output)
        inputs = tuple(v for v in inputs if v.name not in constants)
        nodes = tuple(node for node in nodes if any(node.outputs))
        double = onnx.TensorProto.DOUBLE
        kinds = (v.type.tensor_type.elem_type for v in (*graph.input, *graph.output))
        if double in (*kinds, *(t.data_type for t in graph.initializer)):
            LOGGER.info("%s: float64 is computed in float32", self._name)
        self._check_written_once(constants, inputs, nodes)
        return File(self._name, self._opset, inputs, outputs, constants, in_order(nodes))

    def _stated_opset(self) -> int:
        found = [o.version for o in self._model.opset_import if o.domain in _OWN]
        if not found and not any(node.domain in _OWN for node in self._model.graph.node):
            return OLDEST_OPSET
        if not found:
            raise _Malformed("it does not say which version of ONNX's operators it uses")
        if not (found[0] >= OLDEST_OPSET or self._is_unchanged(found[0])) or found[0] >= 1000:
            self._model = self._as_oldest(found[0])
            return OLDEST_OPSET
        return int(found[0])

    def _as_oldest(self, opset: int) -> onnx.ModelProto:
        """The model in `OLDEST_OPSET`.  Before it, the slopes of a PRelu belong to the second axis,
        which onnx's converter ignores."""
        sizes = {t.name: math.prod(t.dims) for t in self._model.graph.initializer}
        slopes = [sizes.get(n.input[1]) for n in self._model.graph.node if n.op_type == "PRelu"]
        try:
            if opset != OLDEST_OPSET - 1 or set(slopes) - {1}:
                raise ValueError
            return version_converter.convert_version(self._model, OLDEST_OPSET)
        except Exception:  # the converter's have no common class
            raise UnsupportedError(
                "onnx-002",
                f"the model uses opset {opset}, must be {OLDEST_OPSET} or later",
                where=self._name,
                help="export the model with a later opset_version",
            ) from None

    def _is_unchanged(self, opset: int) -> bool:
        """Whether the operators of an older opset are as in `OLDEST_OPSET`."""
        return bool(self._model.graph.node) and all(
            (schema := operator_schema(node.op_type, OLDEST_OPSET)) is not None
            and schema.since_version <= opset
            for node in self._model.graph.node
        )

    def _unique(self, raw: str) -> str:
        """A printable name, made unique if two names become equal."""
        if raw not in self._names:
            name, number = printable(raw) or "_", 1
            while name in self._taken:
                name, number = f"{printable(raw)}#{number}", number + 1
            self._names[raw] = name
            self._taken.add(name)
        return self._names[raw]

    def _border(self, value: onnx.ValueInfoProto) -> Border:
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type":
            raise UnsupportedError(
                "onnx-002",
                f'"{printable(value.name)}" is no tensor',
                where=self._name,
                help="export the model with tensors as inputs and outputs; with skl2onnx, by "
                "options={'zipmap': False}",
            )
        shape = tuple(_extent(d, k) for k, d in enumerate(kind.shape.dim))
        return Border(self._unique(value.name), self._dtype(kind.elem_type, value.name), shape)

    def _dtype(self, code: int, name: str) -> str:
        try:
            found = onnx.TensorProto.DataType.Name(code).lower()
        except ValueError:
            raise _Malformed(
                f'"{printable(name)}" has element type {code}, which does not exist'
            ) from None
        found = {"float": "float32", "double": "float64"}.get(found, found)
        if name in self._dequantised:
            found = _HALF_BYTES.get(found, found)
        if found not in (*REALS, *_WHOLE):
            raise UnsupportedError(
                "onnx-002",
                f'"{printable(name)}" has element type {found.upper()}',
                where=self._name,
                help=f"it must be one of {', '.join((*REALS, *_WHOLE))}",
            )
        return found

    def _array(self, tensor: onnx.TensorProto, name: str) -> Array:
        """The elements of a constant; floating-point ones as float32."""
        dtype = self._dtype(tensor.data_type, name)
        shape = tuple(tensor.dims)
        if any(d < 0 for d in shape) or math.prod(shape) * np.dtype("float32").itemsize > (
            2 * MOST_BYTES
        ):
            raise _Malformed(
                f'constant "{printable(name)}" has shape {list(shape)}; extents must not be '
                "negative, the tensor must be smaller than 2 GiB"
            )
        size_bytes = math.prod(shape) * np.dtype("float32").itemsize
        take(size_bytes, f'constant "{printable(name)}"', self._name)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor = with_elements(tensor, self._name, self._folder)
        try:
            found = np.asarray(numpy_helper.to_array(tensor))
        except _DAMAGE as error:
            raise _Malformed(
                f'constant "{printable(name)}", {dtype}{list(shape)}, cannot be read '
                f"({printable(str(error))[:120]})"
            ) from error
        if dtype in REALS:
            with np.errstate(over="ignore"):
                found = found.astype(np.float32)
        elif name in self._dequantised:
            found = found.astype(dtype)
        return found.reshape(shape)

    def _node(self, node: onnx.NodeProto, index: int) -> FileNode:
        name = printable(node.op_type)
        inputs = tuple(self._unique(n) for n in node.input)
        outputs = tuple(self._unique(n) for n in node.output)
        named = printable(node.name) or (outputs[0] if outputs else "")
        label = f' "{named}"' if named else ""
        where = f"{self._name}: node {index} {name}{label}"
        is_other = node.domain == _CONTRIBUTED and name in NAMESAKES
        if node.domain not in DOMAINS or is_other:
            name = f"{printable(node.domain)}.{name}"
        elif node.domain in _OWN:
            self._check_inputs(node, where)
        attributes: dict[str, Attribute] = {}
        tensors: dict[str, Array] = {}
        graphs: dict[str, Subgraph] = {}
        for a in node.attribute:
            key = printable(a.name)
            if a.type == onnx.AttributeProto.TENSOR:
                tensors[key] = self._array(a.t, f"{key} of {where}")
            elif a.type == onnx.AttributeProto.GRAPH:
                graphs[key] = self._subgraph(a.g, index)
            else:
                attributes[key] = _attribute(a)
        captured = (name for graph in graphs.values() for name in graph.captured())
        inputs += tuple(name for name in dict.fromkeys(captured) if name not in inputs)
        return FileNode(name, where, inputs, outputs, attributes, tensors, graphs)

    def _check_inputs(self, node: onnx.NodeProto, where: str) -> None:
        """Raises ModelError if an input is absent without which the operator means nothing."""
        schema = operator_schema(node.op_type, self._opset)
        if schema is None:
            return
        for k, formal in enumerate(schema.inputs):
            given = node.input[k:] if formal.option == _VARIADIC else node.input[k : k + 1]
            is_absent = "" in given or (not given and k < schema.min_input)
            if is_absent and formal.option != _OPTIONAL and formal.name not in _UNUSED_INPUTS:
                raise ModelError(
                    "onnx-004",
                    f'input {k}, "{formal.name}", is absent',
                    where=where,
                    why=f"{node.op_type} has no default for it",
                    help="the model file is malformed; export the model again",
                )

    def _subgraph(self, graph: onnx.GraphProto, index: int) -> Subgraph:
        """A subgraph of the node of that number."""
        return Subgraph(
            tuple(self._unique(v.name) for v in graph.input),
            tuple(self._unique(v.name) for v in graph.output),
            {self._unique(t.name): self._array(t, t.name) for t in graph.initializer},
            tuple(self._node(node, index) for node in graph.node),
        )

    def _check_written_once(
        self, constants: Iterable[str], inputs: Iterable[Border], nodes: Sequence[FileNode]
    ) -> None:
        """Raises ModelError unless each name that is read is written, and once."""
        seen = {"", *constants}
        for border in inputs:
            if border.name in seen:
                raise _Malformed(f'input "{border.name}" stands twice')
            seen.add(border.name)
        for node in nodes:
            for name in node.outputs:
                if name in seen and name:
                    raise _Malformed(f'"{name}" is written twice ({node.where})')
                seen.add(name)
        for node in nodes:
            for name in node.inputs:
                if name not in seen:
                    raise ModelError(
                        "onnx-004",
                        f'"{name}" is read, but nothing writes it',
                        where=node.where,
                        help="the model file is malformed; export the model again",
                    )


def in_order(nodes: Sequence[FileNode]) -> tuple[FileNode, ...]:
    """The nodes, each behind those that it reads; in the file's order as far as possible.

    ONNX demands such an order, but many tools write another, and onnxruntime reads it.  Raises
    ModelError if nodes wait for each other."""
    writers = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    before = {
        k: {writers[name] for name in node.inputs if name in writers}
        for k, node in enumerate(nodes)
    }
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        node = nodes[error.args[1][0]]
        name = next(name for name in node.inputs if writers.get(name) in error.args[1])
        raise ModelError(
            "onnx-004",
            f'"{name}" is read before it is written',
            where=node.where,
            why="it depends on the node that reads it",
            help="the model file is malformed; export the model again",
        ) from error
    ready = list(sorter.get_ready())
    heapify(ready)
    found: list[FileNode] = []
    while ready:
        first = heappop(ready)
        found.append(nodes[first])
        sorter.done(first)
        for k in sorter.get_ready():
            heappush(ready, k)
    return tuple(found)


def _extent(dimension: Any, axis: int) -> int | str:
    is_known = dimension.WhichOneof("value") == "dim_value" and dimension.dim_value >= 0
    if is_known:
        return int(dimension.dim_value)
    name = printable(dimension.dim_param)
    return f"axis {axis}" if _NAMELESS.fullmatch(name) else name


_NAMELESS = re.compile(r"(unk__\d+)?")  # Inference of shapes gives each extent a name of its own.


def _attribute(a: onnx.AttributeProto) -> Attribute:
    kinds = onnx.AttributeProto
    match a.type:
        case kinds.INT:
            return int(a.i)
        case kinds.FLOAT:
            return float(a.f)
        case kinds.STRING:
            return printable(a.s)
        case kinds.INTS:
            return tuple(int(i) for i in a.ints)
        case kinds.FLOATS:
            return tuple(float(f) for f in a.floats)
        case kinds.STRINGS:
            return tuple(printable(s) for s in a.strings)
        case _:
            return "a value of another kind"
