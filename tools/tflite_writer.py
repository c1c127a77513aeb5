"""Writes `.tflite` files from plain records, for test models and the demo.

A model has a main subgraph, and others that CALL_ONCE and control flow name. Operators refer to
tensors by index; -1 is an omitted operand, as in the file. Example, an int8 ReLU of four values:

    x = TensorSpec("x", (1, 4), scales=(0.1,), zero_points=(0,))
    y = TensorSpec("y", (1, 4), scales=(0.1,), zero_points=(-128,))
    model_bytes = write_tflite((x, y), (OperatorSpec("RELU", (0,), (1,)),), (0,), (1,))

Source: the TFLite schema, version 3 (tensorflow/compiler/mlir/lite/schema/schema.fbs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import NDArray

Builder = Any  # flatbuffers has no annotations
Offset = int  # of a table or vector, from the end of the file
OptionValue = int | float | bool | str | tuple[int, ...]

TENSOR_TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "int16": tflite.TensorType.INT16,
    "int8": tflite.TensorType.INT8,
    "resource": tflite.TensorType.RESOURCE,
}

# Enumerations of options whose values may be given by name.
ENUMS = {
    "padding": tflite.Padding,
    "fused_activation_function": tflite.ActivationFunctionType,
    "mode": tflite.MirrorPadMode,
    "output_type": tflite.TensorType,
    "out_type": tflite.TensorType,
}

WITHOUT_OPTIONS = ("", 1)
"""Options table and version of operators that `OPERATORS` does not list."""
OPERATORS: dict[str, tuple[str, int]] = {
    "ABS": ("", 2),
    "ADD": ("AddOptions", 2),
    "ARG_MAX": ("ArgMaxOptions", 2),
    "ARG_MIN": ("ArgMinOptions", 2),
    "AVERAGE_POOL_2D": ("Pool2DOptions", 2),
    "BATCH_MATMUL": ("BatchMatMulOptions", 2),
    "BATCH_TO_SPACE_ND": ("", 2),
    "BROADCAST_TO": ("", 2),
    "CAST": ("CastOptions", 1),
    "CALL_ONCE": ("CallOnceOptions", 1),
    "CONCATENATION": ("ConcatenationOptions", 2),
    "CONV_2D": ("Conv2DOptions", 3),
    "CUMSUM": ("CumsumOptions", 1),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", 3),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", 2),
    "DEQUANTIZE": ("", 2),
    "DIV": ("DivOptions", 1),
    "EQUAL": ("", 2),
    "EXP": ("", 2),
    "FULLY_CONNECTED": ("FullyConnectedOptions", 4),
    "GATHER": ("GatherOptions", 2),
    "GELU": ("GeluOptions", 2),
    "GREATER": ("", 2),
    "GREATER_EQUAL": ("", 2),
    "IF": ("IfOptions", 1),
    "L2_NORMALIZATION": ("L2NormOptions", 2),
    "LEAKY_RELU": ("LeakyReluOptions", 2),
    "LESS": ("", 2),
    "LESS_EQUAL": ("", 2),
    "LOGISTIC": ("", 2),
    "LOG_SOFTMAX": ("", 2),
    "MAXIMUM": ("", 2),
    "MAX_POOL_2D": ("Pool2DOptions", 2),
    "MEAN": ("ReducerOptions", 2),
    "MINIMUM": ("", 2),
    "MIRROR_PAD": ("MirrorPadOptions", 2),
    "MUL": ("MulOptions", 2),
    "NOT_EQUAL": ("", 2),
    "ONE_HOT": ("OneHotOptions", 1),
    "PACK": ("PackOptions", 2),
    "PAD": ("PadOptions", 2),
    "PADV2": ("PadV2Options", 2),
    "REDUCE_MAX": ("ReducerOptions", 2),
    "REDUCE_MIN": ("ReducerOptions", 2),
    "RELU": ("", 2),
    "RELU6": ("", 2),
    "RESHAPE": ("ReshapeOptions", 1),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", 3),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", 3),
    "REVERSE_SEQUENCE": ("ReverseSequenceOptions", 1),
    "REVERSE_V2": ("", 3),
    "RSQRT": ("", 2),
    "SHAPE": ("ShapeOptions", 1),
    "SLICE": ("", 2),
    "SOFTMAX": ("SoftmaxOptions", 2),
    "SPACE_TO_BATCH_ND": ("", 3),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", 2),
    "SPLIT": ("SplitOptions", 2),
    "SPLIT_V": ("SplitVOptions", 2),
    "SQUARED_DIFFERENCE": ("", 2),
    "SQUEEZE": ("SqueezeOptions", 1),
    "STABLEHLO_COMPOSITE": ("StableHLOCompositeOptions", 1),
    "STRIDED_SLICE": ("StridedSliceOptions", 2),
    "SUB": ("SubOptions", 2),
    "SUM": ("ReducerOptions", 2),
    "SVDF": ("SVDFOptions", 3),
    "TANH": ("", 2),
    "TILE": ("", 2),
    "TRANSPOSE": ("", 2),
    "TRANSPOSE_CONV": ("TransposeConvOptions", 3),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("UnidirectionalSequenceLSTMOptions", 3),
    "UNPACK": ("UnpackOptions", 2),
    "VAR_HANDLE": ("VarHandleOptions", 1),
    "WHILE": ("WhileOptions", 1),
}
"""Options table ("" if there is none) of each operator, and the version that the converter of
TensorFlow 2.19 writes for int8."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """A tensor; with `data`, a constant.  Raises ValueError if `data` has another shape or type.

    is_variable: whether it keeps its elements from one invocation to the next.
    is_open: whether the file leaves its first extent open."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    quantized_dimension: int = 0
    data: NDArray[Any] | None = None
    is_variable: bool = False
    is_open: bool = False

    def __post_init__(self) -> None:
        data = self.data
        if data is not None and (data.shape != self.shape or data.dtype.name != self.dtype):
            raise ValueError(
                f'tensor "{self.name}" is {self.dtype} {self.shape}, '
                f"its data {data.dtype.name} {data.shape}"
            )
        if len(self.scales) != len(self.zero_points):
            raise ValueError(f'tensor "{self.name}" has as many scales as zero points')


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """An operator.  Options have the schema's field names; enumerators may be given by name.

    A custom operator is named "CUSTOM:NAME"; its options are a map in the format FlexBuffers."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])


@dataclass(frozen=True, slots=True)
class SubgraphSpec:
    """A subgraph that CALL_ONCE runs before the first invocation, or that control flow runs."""

    tensors: tuple[TensorSpec, ...]
    operators: tuple[OperatorSpec, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


def write_tflite(
    tensors: Sequence[TensorSpec],
    operators: Sequence[OperatorSpec],
    inputs: Sequence[int],
    outputs: Sequence[int],
    description: str = "",
    others: Sequence[SubgraphSpec] = (),
) -> bytes:
    """The file's bytes, a deterministic function of the arguments; `others` are the subgraphs from
    number 1."""
    builder: Builder = flatbuffers.Builder(1024)
    main = SubgraphSpec(tuple(tensors), tuple(operators), tuple(inputs), tuple(outputs))
    every = (main, *others)
    names = sorted({operator.name for spec in every for operator in spec.operators})
    # Buffer 0 is empty and belongs to all tensors without data.
    constants = [t.data for spec in every for t in spec.tensors if t.data is not None]
    buffers = [_buffer(builder, b"")]
    buffers += [_buffer(builder, _little_endian(data)) for data in constants]
    codes = [_operator_code(builder, name) for name in names]
    numbers = iter(range(1, len(buffers)))
    subgraphs = [_subgraph(builder, spec, names, numbers) for spec in every]
    model = _table(
        builder,
        "Model",
        {
            "version": 3,
            "operator_codes": _offsets(builder, codes),
            "subgraphs": _offsets(builder, subgraphs),
            "description": builder.CreateString(description),
            "buffers": _offsets(builder, buffers),
        },
    )
    builder.Finish(model, file_identifier=b"TFL3")
    return bytes(builder.Output())


def _subgraph(
    builder: Builder,
    spec: SubgraphSpec,
    names: Sequence[str],
    buffers: Iterator[int],
) -> Offset:
    """Writes a subgraph, whose constants are in the next of the `buffers`."""
    tensors = [_tensor(builder, t, 0 if t.data is None else next(buffers)) for t in spec.tensors]
    return _table(
        builder,
        "SubGraph",
        {
            "tensors": _offsets(builder, tensors),
            "inputs": _int32s(builder, spec.inputs),
            "outputs": _int32s(builder, spec.outputs),
            "operators": _offsets(builder, [_operator(builder, o, names) for o in spec.operators]),
            "name": builder.CreateString("main"),
        },
    )


def _little_endian(data: NDArray[Any]) -> bytes:
    return np.asarray(data, data.dtype.newbyteorder("<")).tobytes()


def _camel(field_name: str) -> str:
    """`stride_h` -> `StrideH`, the spelling in generated functions of the schema."""
    return "".join(part[:1].upper() + part[1:] for part in field_name.split("_"))


def _table(builder: Builder, table: str, fields: Mapping[str, Any]) -> Offset:
    """Writes a table; fields are numbers or offsets of objects that are already written."""
    getattr(tflite, f"{table}Start")(builder)
    for name, value in fields.items():
        getattr(tflite, f"{table}Add{_camel(name)}")(builder, value)
    return getattr(tflite, f"{table}End")(builder)


def _offsets(builder: Builder, offsets: Sequence[Offset]) -> Offset:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _int32s(builder: Builder, values: Sequence[int]) -> Offset:
    return builder.CreateNumpyVector(np.array(values, np.int32))


def _buffer(builder: Builder, data: bytes) -> Offset:
    """Constant data, aligned to 16 bytes as the schema requires (force_align)."""
    if not data:
        return _table(builder, "Buffer", {})
    builder.Prep(16, len(data))
    return _table(builder, "Buffer", {"data": builder.CreateByteVector(data)})


CUSTOM = "CUSTOM:"


def _operator_code(builder: Builder, name: str) -> Offset:
    if name.startswith(CUSTOM):
        code = tflite.BuiltinOperator.CUSTOM
        text = builder.CreateString(name.removeprefix(CUSTOM))
        fields = {"deprecated_builtin_code": code, "builtin_code": code, "custom_code": text}
        return _table(builder, "OperatorCode", fields)
    code = getattr(tflite.BuiltinOperator, name)
    fields = {
        "deprecated_builtin_code": min(code, 127),  # an int8; 127 refers to builtin_code
        "version": OPERATORS.get(name, WITHOUT_OPTIONS)[1],
        "builtin_code": code,
    }
    return _table(builder, "OperatorCode", fields)


def _tensor(builder: Builder, spec: TensorSpec, buffer: int) -> Offset:
    fields = {
        "shape": _int32s(builder, spec.shape),
        "type": TENSOR_TYPES[spec.dtype],
        "buffer": buffer,
        "name": builder.CreateString(spec.name),
        "is_variable": spec.is_variable,
    }
    if spec.is_open:
        fields["shape_signature"] = _int32s(builder, (-1, *spec.shape[1:]))
    if spec.scales:
        quantization = {
            "scale": builder.CreateNumpyVector(np.array(spec.scales, np.float32)),
            "zero_point": builder.CreateNumpyVector(np.array(spec.zero_points, np.int64)),
            "quantized_dimension": spec.quantized_dimension,
        }
        fields["quantization"] = _table(builder, "QuantizationParameters", quantization)
    return _table(builder, "Tensor", fields)


def _operator(builder: Builder, spec: OperatorSpec, names: Sequence[str]) -> Offset:
    fields = {
        "opcode_index": names.index(spec.name),
        "inputs": _int32s(builder, spec.inputs),
        "outputs": _int32s(builder, spec.outputs),
    }
    table, _ = OPERATORS.get(spec.name, WITHOUT_OPTIONS)
    if spec.name.startswith(CUSTOM):
        fields["custom_options"] = builder.CreateByteVector(flexbuffers.Dumps(dict(spec.options)))
    elif table:
        values = {name: _option(builder, name, value) for name, value in spec.options.items()}
        union = "builtin_options" if hasattr(tflite.BuiltinOptions, table) else "builtin_options2"
        kinds = tflite.BuiltinOptions if union == "builtin_options" else tflite.BuiltinOptions2
        fields[f"{union}_type"] = getattr(kinds, table)
        fields[union] = _table(builder, table, values)
    elif spec.options:
        raise ValueError(f"{spec.name} has no options, {sorted(spec.options)} given")
    return _table(builder, "Operator", fields)


def _option(builder: Builder, name: str, value: OptionValue) -> Any:
    if isinstance(value, str):
        return getattr(ENUMS[name], value) if name in ENUMS else builder.CreateString(value)
    if isinstance(value, tuple):
        return _int32s(builder, value)
    return value
