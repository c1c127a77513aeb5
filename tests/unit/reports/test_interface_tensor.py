"""The inputs and outputs of compiled models in Python: names, types, conversions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock.errors import UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.reports.report import InterfaceTensor
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

REAL = TensorSpec("reals", (1, 4), "float32")
INSIDE = TensorSpec("inside", (1, 4), scales=(0.5,), zero_points=(-3,))
DOUBLED = TensorSpec("doubled", (1, 4), scales=(1.0,), zero_points=(-3,))
RESULT = TensorSpec("result", (1, 4), "float32")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network that quantises a float32 input, doubles it, and dequantises the output."""
    path = tmp_path / "real.tflite"
    operators = (
        OperatorSpec("QUANTIZE", (0,), (1,)),
        OperatorSpec("ADD", (1, 1), (2,), {"fused_activation_function": 0}),
        OperatorSpec("DEQUANTIZE", (2,), (3,)),
    )
    path.write_bytes(write_tflite((REAL, INSIDE, DOUBLED, RESULT), operators, (0,), (3,)))
    return path


def test_real_numbers_pass_through_a_model(model: Path) -> None:
    compiled = penstock.compile(model, "host")
    (x,), (y,) = compiled.inputs, compiled.outputs
    assert x == InterfaceTensor("reals", (1, 4), "int8", 0.5, -3)
    assert (y.shape, y.element_type, y.scale, y.zero_point) == ((1, 4), "int8", 1.0, -3)
    interface = json.loads(json.dumps(compiled.report.as_json()["interface"]))
    quantisation = {"element_type": "int8", "scale": 0.5, "zero_point": -3}
    given = {"name": "reals", "shape": [1, 4], **quantisation}
    given |= {"channels_first": False, "order": []}
    assert interface["inputs"] == [given]
    assert [y["scale"] for y in interface["outputs"]] == [1.0]
    reals = np.array([[0.5, -1.0, 10.0, 62.0]])
    (found,) = penstock.run(model, "host", [{x.name: x.quantize(reals)}]).outputs
    np.testing.assert_array_equal(y.dequantize(found[y.name]), 2 * reals)


def test_the_types_of_the_model_have_no_quantisation(model: Path) -> None:
    (x,) = penstock.compile(model, "host", io="model").inputs
    assert x == InterfaceTensor("reals", (1, 4), "float32", None, None)


def test_tensors_that_cannot_be_converted() -> None:
    scales = Quantisation((1.0, 2.0), (0, 0), 1)
    for type in (TensorType((2,), DType.FLOAT32), TensorType((1, 2), DType.INT8, scales)):
        tensor = InterfaceTensor.of("x", type)
        assert (tensor.scale, tensor.zero_point) == (None, None)
        for convert in (tensor.quantize, tensor.dequantize):
            with pytest.raises(UsageError, match="cannot be converted"):
                convert(np.zeros(2, np.float32))


def test_streamed_inputs_are_listed() -> None:
    builder = GraphBuilder("net")
    x = builder.input((1, 4, 4, 1))
    graph = builder.build(builder.max_pool2d(x, (2, 2)))
    streamed = penstock.compile(graph, "host", stream_input=True)
    assert streamed.inputs == penstock.compile(graph, "host").inputs
    assert streamed.inputs[0].shape == (1, 4, 4, 1)
