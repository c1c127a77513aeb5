"""Decoder of TFLite files: bytes -> ForeignModel, without knowledge of operators.

Source: TensorFlow Lite schema, version 3, with its enumerations and tables of options (package
`tflite`).  The flatbuffers runtime for Python does not verify its input, so every count is checked
against the size of the file, and any exception of its accessors becomes a ModelError.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import tflite
from flatbuffers import flexbuffers, number_types

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.causes import STATE, STATELESS
from penstock.frontends.control_flow import CONTROL_FLOW
from penstock.frontends.reading import printable
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.ir.foreign import Attribute, ForeignModel, ForeignNode, ForeignSubgraph
from penstock.ir.graph import Value
from penstock.ir.tensor import FILE_TYPES, Data, DType, Quantisation, TensorType
from penstock.limits import ENTRY_BYTES, NODE_BYTES, take


def builtin_code(code: Any) -> int:
    """The operator of an OperatorCode: the larger of its two fields, of which a file may set one.

    Both accessors of the package read the older field.
    Source: TensorFlow Lite, `GetBuiltinCode` (schema_utils.cc)."""
    deprecated = code._tab.GetSlot(4, 0, number_types.Int8Flags)
    return max(deprecated, code._tab.GetSlot(10, 0, number_types.Int32Flags))


def schema_class(name: str) -> Any:
    """A class of the schema; the package collects them at run time."""
    return getattr(tflite, name)


@cache
def enumeration(name: str) -> dict[int, str]:
    """Value -> name of an enumeration of the schema."""
    members = vars(schema_class(name))
    return {v: k for k, v in members.items() if isinstance(v, int) and not k.startswith("_")}


# A flatbuffer with an empty table, and the table's position.
EMPTY_TABLE = bytearray(struct.pack("<HHi", 4, 4, 4)), 4

# Options tables of operators whose table is not named after the operator.
#
# Source: TensorFlow Lite, `flatbuffer_conversions.cc`.
_SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"),
        "ReducerOptions",
    ),
}


@cache
def options_table(operator: str) -> str | None:
    """Name of the table of an operator's options; None if it has none.

    >>> options_table("CONV_2D"), options_table("MEAN"), options_table("RELU")
    ('Conv2DOptions', 'ReducerOptions', None)
    """
    every = (*enumeration("BuiltinOptions").values(), *enumeration("BuiltinOptions2").values())
    tables = {table.lower(): table for table in every}
    own = f"{operator.replace('_', '')}options".lower()
    return _SHARED_OPTIONS.get(operator, tables.get(own))


_ACCESSOR = re.compile("[A-Z][A-Za-z0-9]*")
_DERIVED = re.compile("(Length|AsNumpy|IsNone|BufferHasIdentifier)$|^(GetRootAs|Init$|InitFromObj)")


@cache
def accessors(options: type) -> tuple[str, ...]:
    """Names of the accessors of an options table."""
    every: dict[str, Callable[..., Any]] = {
        k: v for k, v in vars(options).items() if callable(v) and _ACCESSOR.fullmatch(k)
    }
    return tuple(k for k in every if not _DERIVED.search(k))


def snake_case(name: str) -> str:
    """A camel-case name in snake case.

    >>> snake_case("DilationHFactor"), snake_case("FusedActivationFunction")
    ('dilation_h_factor', 'fused_activation_function')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
TENSOR_BYTES = 2**10  # Memory that a tensor takes as Python objects, at least.
MAIN = 0  # Index of the subgraph that an inference runs.


_HANDLES = ("RESOURCE", "VARIANT")  # Element types of handles to persistent state.
_INT8 = (
    "quantise weights and activations to int8: set converter.representative_dataset and "
    f"converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8] "
    f"({guide('from-keras')})"
)
_FLOAT16 = (
    "the network computes with numbers of 16 bits; constants may have them",
    f"convert it with float32 inputs and outputs, or {_INT8}",
)
_FOUR_BITS = (
    "the weights have 4 bits or fewer, which this version does not support",
    "quantise to 8-bit weights, such as by the converter without options for 4 bits",
)
_COMPLEX = (
    "the network computes with complex numbers, such as in an FFT",
    "compute the spectrum in your application, and begin the network after it",
)
_OTHER_TYPES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("FLOAT16", "BFLOAT16"), _FLOAT16),
    "FLOAT64": ("the network computes with real numbers", _INT8),
    **dict.fromkeys(("INT4", "UINT4", "INT2"), _FOUR_BITS),
    **dict.fromkeys(("COMPLEX64", "COMPLEX128"), _COMPLEX),
    "STRING": (
        "the network processes text",
        "prepare the text in your application, and begin the network with numbers",
    ),
    **dict.fromkeys(_HANDLES, (STATE, STATELESS)),
}
# Causes and remedies by element type.
_ANY_TYPE = (
    "",
    "convert the model without operators that need this type (`penstock ops` lists others)",
)


@frozen
class Handle:
    """A tensor that refers to a state variable.  `index`: its index in the subgraph."""

    name: str
    index: int
    subgraph: int


class _Malformed(Exception):
    """The flatbuffer is readable but inconsistent; the text describes the problem."""


_DAMAGE = (
    struct.error,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    KeyError,
    MemoryError,
    RecursionError,
)


def looks_like_tflite(raw: bytes) -> bool:
    """Whether the bytes have the identifier of a TFLite file."""
    return raw[4:8] == IDENTIFIER


def decode(raw: bytes, name: str) -> ForeignModel:
    """The model in a TFLite file.

    Raises ModelError if the file is damaged, UnsupportedError if its version, number of subgraphs
    or element types are not supported."""
    try:
        return _Reader(raw, name).model()
    except _Malformed as error:
        raise _damaged(name, str(error)) from error
    except struct.error as error:
        text = f"it ends at byte {len(raw)}, before data that it refers to: it may be truncated"
        raise _damaged(name, text) from error
    except _DAMAGE as error:
        text = f"reading its flatbuffer failed ({type(error).__name__}: {error})"
        raise _damaged(name, text) from error


def operator_count(raw: bytes) -> int | None:
    """The number of operators in a TFLite file's main subgraph; None if the file is damaged."""
    try:
        return _Reader(raw, "").operator_count()
    except (_Malformed, *_DAMAGE):
        return None


def _damaged(name: str, why: str) -> ModelError:
    return ModelError(
        "model-002",
        "the TFLite file is damaged",
        where=name,
        why=why,
        help="check that the file was copied whole; convert the model again",
    )


def _widened(name: str, shape: tuple[int, ...], halves: Data) -> Value:
    """A constant of float16, as float32."""
    elements = halves.array(TensorType(shape, DType.INT16)).view(np.float16)
    return Value.constant(name, elements.astype(np.float32))


class _Reader:
    """Reads one model."""

    def __init__(self, raw: bytes, name: str) -> None:
        self._raw = raw
        self._name = name
        (root,) = struct.unpack_from("<I", raw, 0)
        if not 4 <= root < len(raw):
            raise _Malformed(f"its root table is at byte {root}, the file has {len(raw)} bytes")
        self._model: Any = schema_class("Model").GetRootAsModel(raw, 0)
        self._names: set[str] = set()
        self._variables: set[str] = set()
        self._open: set[str] = set()
        self._buffers: dict[int, bytes] = {}

    def model(self) -> ForeignModel:
        version = self._model.Version()
        if version != SCHEMA_VERSION:
            raise UnsupportedError(
                "model-003",
                f"TFLite schema version is {version}, must be {SCHEMA_VERSION}",
                where=self._name,
                help="convert the model with a current TensorFlow Lite converter",
            )
        main = self._subgraph(MAIN)
        once = [n.integer("init_subgraph_index") for n in main.nodes if n.name == "CALL_ONCE"]
        initial = {number: self._nodes(number, self._values(number)) for number in once}
        inner: dict[int, ForeignSubgraph] = {}
        self._collect_subgraphs(main.nodes, frozenset((MAIN,)), inner)
        return ForeignModel(self._name, main.inputs, main.outputs, main.nodes, initial, inner)

    def _subgraph(self, number: int) -> ForeignSubgraph:
        values, graph = self._values(number), self._graph(number)
        inputs = tuple(self._pick(values, i) for i in self._indices(graph, "Inputs"))
        outputs = tuple(self._pick(values, i) for i in self._indices(graph, "Outputs"))
        return ForeignSubgraph(inputs, outputs, self._nodes(number, values))

    def _collect_subgraphs(
        self,
        nodes: Iterable[ForeignNode],
        callers: frozenset[int],
        found: dict[int, ForeignSubgraph],
    ) -> None:
        for node in nodes:
            for attribute in CONTROL_FLOW.get(node.name, ()):
                number = node.integer(attribute)
                if number in callers:
                    raise _Malformed(f"subgraph {number} runs itself")
                if number not in found:
                    subgraph = self._subgraph(number)
                    self._collect_subgraphs(subgraph.nodes, callers | {number}, found)
                    found[number] = subgraph

    def operator_count(self) -> int:
        return self._count(self._graph(MAIN), "Operators")

    def _graph(self, number: int) -> Any:
        count = self._count(self._model, "Subgraphs")
        if not 0 <= number < count:
            raise _Malformed(f"subgraph {number} is named, it has {count}")
        return self._model.Subgraphs(number)

    def _values(self, number: int) -> list[Value | Handle]:
        graph = self._graph(number)
        count = self._length(graph, "Tensors", TENSOR_BYTES)
        return [self._import_tensor(graph.Tensors(i), i, number) for i in range(count)]

    def _nodes(self, number: int, values: list[Value | Handle]) -> tuple[ForeignNode, ...]:
        graph = self._graph(number)
        count = self._length(graph, "Operators", NODE_BYTES)
        return tuple(self._node(graph.Operators(i), i, values) for i in range(count))

    def _count(self, table: Any, field: str) -> int:
        count = getattr(table, field + "Length")()
        if not 0 <= count <= len(self._raw):
            raise _Malformed(
                f"a list ({snake_case(field)}) has {count} entries, the file {len(self._raw)} bytes"
            )
        return int(count)

    def _length(self, table: Any, field: str, entry_bytes: int = ENTRY_BYTES) -> int:
        """Length of a vector whose entries become objects.  Many tables may share one vector, and
        many entries one table, so that their number is not bounded by the file's size."""
        count = self._count(table, field)
        take(count * entry_bytes, f"a list of {count} {snake_case(field)}", self._name)
        return count

    def _indices(self, table: Any, field: str) -> list[int]:
        read = getattr(table, field)
        return [int(read(i)) for i in range(self._length(table, field))]

    def _pick(self, values: list[Value | Handle], index: int) -> Value:
        """The tensor of an index.  Raises UnsupportedError if it is a handle."""
        found = self._operand(values, index)
        if isinstance(found, Handle):
            raise self._wrong_type("RESOURCE", found.name, (found.subgraph, found.index))
        return found

    def _operand(self, values: list[Value | Handle], index: int) -> Value | Handle:
        if not 0 <= index < len(values):
            raise _Malformed(f"tensor {index} is named, must be within [0, {len(values)})")
        return values[index]

    def _import_tensor(self, tensor: Any, index: int, subgraph: int) -> Value | Handle:
        name = self._unique(printable(tensor.Name()) or f"tensor{index}", index)
        if tensor.IsVariable():
            self._variables.add(name)
        if any(extent < 0 for extent in self._indices(tensor, "ShapeSignature")):
            self._open.add(name)
        if enumeration("TensorType").get(tensor.Type()) == "RESOURCE":
            return Handle(name, index, subgraph)
        shape = tuple(self._indices(tensor, "Shape"))
        place = (subgraph, index)
        if enumeration("TensorType").get(tensor.Type()) == "FLOAT16":
            halves = self._data(tensor, TensorType(shape, DType.INT16), name)
            if halves is None:
                raise self._wrong_type("FLOAT16", name, place)
            return _widened(name, shape, halves)
        dtype = self._dtype(tensor.Type(), name, place)
        size = math.prod(shape) * dtype.size_bytes
        if any(extent < 0 for extent in shape) or size >= 2**31:
            raise _Malformed(
                f'tensor "{name}" has shape {list(shape)}; extents must not be negative, '
                "the tensor must be smaller than 2 GiB"
            )
        if tensor.Sparsity() is not None:
            raise self._unsupported("its elements are stored sparsely", name, place)
        type = TensorType(shape, dtype, self._quantisation(tensor, shape, name, place))
        origin = index if subgraph == MAIN else None
        return Value(name, type, self._data(tensor, type, name), origin)

    def _unique(self, label: str, index: int) -> str:
        """The label, with the tensor's index appended if another tensor has it."""
        name = label
        while name in self._names:
            name = f"{name}#{index}"
        self._names.add(name)
        return name

    def _dtype(self, code: int, name: str, place: tuple[int, int]) -> DType:
        label = enumeration("TensorType").get(code)
        if label is None:
            raise _Malformed(f'tensor "{name}" has element type {code}, which does not exist')
        if label.lower() not in FILE_TYPES:
            raise self._wrong_type(label, name, place)
        return FILE_TYPES[label.lower()]

    def _wrong_type(self, label: str, name: str, place: tuple[int, int]) -> UnsupportedError:
        """The error for a tensor whose element type is not supported there."""
        why, help = _OTHER_TYPES.get(label, _ANY_TYPE)
        return UnsupportedError(
            "model-004",
            f"tensor has element type {label}, must be one of {', '.join(FILE_TYPES).upper()}",
            where=f'{self._name}: {self._first_user(place)}, tensor "{name}"',
            why=why,
            help=help,
            cause=f"element type {label.lower()}",
        )

    def _first_user(self, place: tuple[int, int]) -> str:
        subgraph, tensor = place
        graph = self._graph(subgraph)
        for i in range(self._count(graph, "Operators")):
            operator = graph.Operators(i)
            if tensor in self._indices(operator, "Inputs") + self._indices(operator, "Outputs"):
                return f"node {i} {self._operator_name(operator.OpcodeIndex())}"
        return "no node"

    def _unsupported(self, what: str, name: str, place: tuple[int, int]) -> UnsupportedError:
        return UnsupportedError(
            "model-027",
            f"{what}, which this version of penstock does not read",
            where=f'{self._name}: {self._first_user(place)}, tensor "{name}"',
            help="convert the model with dense tensors and one affine quantisation for each "
            "(post-training integer quantisation)",
        )

    def _quantisation(
        self, tensor: Any, shape: tuple[int, ...], name: str, place: tuple[int, int]
    ) -> Quantisation | None:
        q = tensor.Quantization()
        if q is None:
            return None
        if q.DetailsType() != 0:
            raise self._unsupported("it has a custom or blockwise quantisation", name, place)
        if not self._count(q, "Scale"):
            return None
        self._length(q, "Scale")
        scales = tuple(q.ScaleAsNumpy().tolist())
        zeros = tuple(self._indices(q, "ZeroPoint"))
        wrong = next((s for s in scales if not 0 < s < math.inf), None)
        if wrong is not None:
            raise _Malformed(f'tensor "{name}" has scale {wrong}, must be a positive number')
        if len(zeros) == 1:  # shared by all channels, as in TensorFlow Lite Micro
            zeros *= len(scales)
        if len(zeros) != len(scales):
            raise _Malformed(
                f'tensor "{name}" has {len(scales)} scales and {len(zeros)} zero points, must have '
                "as many"
            )
        if len(scales) == 1:
            return Quantisation(scales, zeros)
        # Files of 2020 have axis 3 for biases of rank 1, which have only one axis.
        axis = q.QuantizedDimension() if len(shape) > 1 else 0
        if not (0 <= axis < len(shape) and shape[axis] == len(scales)):
            raise _Malformed(
                f'tensor "{name}" has {len(scales)} scales along axis {axis} of shape '
                f"{list(shape)}, must have one for each index"
            )
        return Quantisation(scales, zeros, axis)

    def _data(self, tensor: Any, type: TensorType, name: str) -> Data | None:
        index = tensor.Buffer()
        if not 0 <= index < self._count(self._model, "Buffers"):
            raise _Malformed(f'tensor "{name}" lies in buffer {index}, which does not exist')
        if index not in self._buffers:
            self._buffers[index] = self._elements(self._model.Buffers(index), name)
        raw = self._buffers[index]
        if not raw or tensor.IsVariable():
            return None
        if len(raw) != type.size_bytes:
            raise _Malformed(
                f'tensor "{name}" is {type}: {type.size_bytes} bytes; its buffer has {len(raw)}'
            )
        take(len(raw), f'the elements of tensor "{name}"', self._name)
        return Data(raw)

    def _elements(self, buffer: Any, name: str) -> bytes:
        """The data of a buffer, which large models store after the flatbuffer."""
        if self._count(buffer, "Data"):
            return buffer.DataAsNumpy().tobytes()
        lower, size = buffer.Offset(), buffer.Size()
        if lower <= 1 or size <= 1:  # 0 and 1 mean "not used"
            return b""
        if lower + size > len(self._raw):
            raise _Malformed(
                f'the data of tensor "{name}" ends at byte {lower + size}, '
                f"the file has {len(self._raw)} bytes"
            )
        return self._raw[lower : lower + size]

    def _node(self, operator: Any, index: int, values: list[Value | Handle]) -> ForeignNode:
        name = self._operator_name(operator.OpcodeIndex())
        read = [
            None if i == -1 else self._operand(values, i) for i in self._indices(operator, "Inputs")
        ]
        made = [self._operand(values, i) for i in self._indices(operator, "Outputs")]
        inputs = tuple(x for x in read if not isinstance(x, Handle))
        outputs = tuple(y for y in made if not isinstance(y, Handle))
        handles = tuple(h.index for h in (*read, *made) if isinstance(h, Handle))
        label = f' "{outputs[0].name.split(";")[0]}"' if outputs else ""
        where = f"{self._name}: node {index} {name}{label}"
        attributes = self._attributes(operator, name)
        variables = {k: x for k, x in enumerate(inputs) if x and x.name in self._variables}
        left = frozenset(k for k, y in enumerate(outputs) if y.name in self._open)
        return ForeignNode(name, where, inputs, outputs, attributes, handles, variables, open=left)

    def _operator_name(self, index: int) -> str:
        if not 0 <= index < self._count(self._model, "OperatorCodes"):
            raise _Malformed(f"operator code {index} is named, which does not exist")
        code = self._model.OperatorCodes(index)
        builtin = builtin_code(code)
        name = enumeration("BuiltinOperator").get(builtin)
        if name is None:
            raise _Malformed(f"operator {builtin} is not one of TFLite's")
        return f"CUSTOM:{printable(code.CustomCode())}" if name == "CUSTOM" else name

    def _attributes(self, operator: Any, name: str) -> dict[str, Attribute]:
        # Options of another operator are ignored, as in TensorFlow Lite; missing options have their
        # defaults.
        table = options_table(name)
        is_late = table in enumeration("BuiltinOptions2").values()
        field = "BuiltinOptions2" if is_late else "BuiltinOptions"
        code = getattr(operator, f"{field}Type")()
        kind = enumeration(field).get(code)
        union = getattr(operator, field)()
        if kind is None:
            raise _Malformed(f"operator {name} has options of type {code}, which does not exist")
        if table is None:
            count = self._length(operator, "CustomOptions")
            raw = operator.CustomOptionsAsNumpy().tobytes() if count else b""
            return self._custom_attributes(raw) if count else {}
        options: Any = schema_class(table)()
        if kind == table and union is not None:
            options.Init(union.Bytes, union.Pos)
        else:
            options.Init(*EMPTY_TABLE)
        return {
            snake_case(field): self._attribute(options, field) for field in accessors(type(options))
        }

    def _custom_attributes(self, raw: bytes) -> dict[str, Attribute]:
        """The numbers in the options of a custom operator, if these are a map (FlexBuffers); their
        format is the operator's choice."""
        found: dict[str, Attribute] = {}
        try:
            options = flexbuffers.GetRoot(raw).AsMap
            take(len(options) * ENTRY_BYTES, "custom options", self._name)
            for k in range(len(options)):
                key, value = options.Keys[k], options.Values[k]
                if value.IsFloat:
                    found[str(key.AsString)] = float(value.AsFloat)
                elif value.IsInt or value.IsBool:
                    found[str(key.AsString)] = int(value.AsBool if value.IsBool else value.AsInt)
        except _DAMAGE:
            return {}
        return found

    def _attribute(self, options: Any, field: str) -> Attribute:
        if hasattr(options, field + "Length"):
            read = getattr(options, field)
            return tuple(read(i) for i in range(self._length(options, field)))
        value = getattr(options, field)()
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
