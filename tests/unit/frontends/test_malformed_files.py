"""Malformed and inconsistent TFLite files are refused with a reason."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from benchmarks.file_fields import Field, file_fields
from minimal_tflite import ints, model_bytes, table
from penstock.errors import ModelError, PenstockError
from penstock.frontends.open import parse, read_bytes
from penstock.frontends.tflite import decode
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.ops.unary import Relu
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = TensorSpec("x", (1, 4), scales=(0.1,), zero_points=(0,))
Y = TensorSpec("y", (1, 4), scales=(0.1,), zero_points=(-128,))
RELU = OperatorSpec("RELU", (0,), (1,))
INTACT = write_tflite((X, Y), (RELU,), (0,), (1,))


def fields(label: str) -> list[Field]:
    return [field for field in file_fields(INTACT) if field.label == label]


def changed(label: str, value: float, k: int = 0) -> bytes:
    """The intact file with field `k` of a label changed."""
    place = fields(label)[k]
    raw = bytearray(INTACT)
    struct.pack_into(place.format, raw, place.position, value)
    return bytes(raw)


def message(raw: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        parse(raw, "m.tflite")
    assert "m.tflite" in caught.value.where
    return str(caught.value)


def is_taken_or_refused_in_words(raw: bytes) -> bool:
    """Whether the file is taken, or refused with an error that says what and where."""
    try:
        parse(raw, "m.tflite")
    except PenstockError as error:
        return bool(error.what and error.where)
    return True


def test_the_intact_file_is_taken() -> None:
    assert parse(INTACT, "m.tflite").nodes[0].kind == "Relu"


@pytest.mark.parametrize("size", range(0, len(INTACT), 7))
def test_a_truncated_file_never_ends_in_a_python_error(size: int) -> None:
    assert is_taken_or_refused_in_words(INTACT[:size])


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "the file is empty"),
        (b"a text file, that is", "the file is neither a TFLite nor an ONNX model"),
        (b"\xff\xff\xff\xffTFL3" + bytes(8), "its root table is at byte 4294967295"),
        (INTACT[:100], "it ends at byte 100, before data that it refers to: it may be truncated"),
        (changed("version", 2), "schema version is 2, must be 3"),
        (changed("scale", float("nan")), 'tensor "x" has scale nan, must be a positive number'),
        (changed("scale", 0.0), 'tensor "x" has scale 0.0, must be a positive number'),
        (changed("scale", float("inf")), 'tensor "x" has scale inf, must be a positive number'),
        (changed("extent", -1), 'tensor "x" has shape [-1, 4]; extents must not be negative'),
        (changed("extent", 2**30), "the tensor must be smaller than 2 GiB"),
        (changed("type", 99), "has element type 99, which does not exist"),
        (changed("type", 3), "input is uint8, must be int8"),
        (changed("builtin", 131), "RFFT2D: operator is not supported"),
        (changed("builtin", 9999), "operator 9999 is not one of TFLite's"),
        (changed("zero", 300), "has zero point 300, must be within [-128, 128)"),
        (changed("length", 2**31), "has 2147483648 entries"),
        (changed("tensor", 7), "tensor 7 is named, must be within [0, 2)"),
        (changed("tensor", 1), '"y" is written twice'),
        (changed("tensor", 1, 2), '"y" is read before it is written'),
    ],
)
def test_invalid_values_are_refused_with_the_value_found(raw: bytes, words: str) -> None:
    assert words in message(raw)


def test_names_cannot_steer_a_terminal() -> None:
    raw = write_tflite((X, TensorSpec("\x1b[31my\n", (1, 4))), (RELU,), (0,), (1,))
    assert message(raw).splitlines()[1] == '  --> m.tflite: node 0 RELU "?[31my?"'


def test_tensors_of_one_name_are_told_apart_whatever_they_are_called() -> None:
    names = ("t#2", "t", "t", "t#2#2")
    tensors = tuple(TensorSpec(n, (1, 4), scales=(0.1,), zero_points=(0,)) for n in names)
    chain = tuple(OperatorSpec("RELU", (k,), (k + 1,)) for k in range(3))
    graph = parse(write_tflite(tensors, chain, (0,), (3,)), "m.tflite")
    assert len({value.name for value in graph.variables()}) == 4


def test_every_byte_of_a_small_file_can_be_wrong_without_a_python_error() -> None:
    for place in range(len(INTACT)):
        for value in (0x00, 0x7F, 0xFF):
            raw = bytearray(INTACT)
            raw[place] = value
            assert is_taken_or_refused_in_words(bytes(raw)), (place, value)


def test_a_model_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="directory"):
        read_bytes(tmp_path)


INT8 = TensorType((4,), DType.INT8, Quantisation((0.5,), (0,)))


def test_two_values_of_one_name_are_found() -> None:
    x, y = Value("x", INT8), Value("y", INT8)
    other = Value("x", INT8, Data(bytes(4)))
    nodes = (Node(Relu(), (x,), y), Node(Relu(), (other,), Value("z", INT8)))
    with pytest.raises(ModelError, match='two values are called "x"'):
        verify(Graph("g", (x,), (y,), nodes))


def test_a_constant_input_of_a_graph_is_found() -> None:
    x, y = Value("x", INT8, Data(bytes(4))), Value("y", INT8)
    with pytest.raises(ModelError, match='input "x" is constant'):
        verify(Graph("g", (x,), (y,), (Node(Relu(), (x,), y),)))


def test_channels_may_share_a_zero_point() -> None:
    """Optimisers of files store it once; TensorFlow Lite Micro reads it for every channel."""
    q = table(
        "QuantizationParameters",
        Scale=np.array([0.5, 0.25], np.float32),
        ZeroPoint=np.array([3]),
        QuantizedDimension=1,
    )
    tensor = table("Tensor", Shape=ints(1, 2), Type=9, Quantization=q)
    graph = table("SubGraph", Tensors=[tensor], Inputs=ints(0), Outputs=ints(0))
    raw = model_bytes(
        table("Model", Version=3, Subgraphs=[graph], Buffers=[table("Buffer")], OperatorCodes=[])
    )
    (value,) = decode(raw, "m.tflite").inputs
    assert value.type.quantisation == Quantisation((0.5, 0.25), (3, 3), 1)
