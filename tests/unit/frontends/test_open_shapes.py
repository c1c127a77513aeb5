"""TFLite files with an open batch state wrong extents of tensors; the import infers them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock import api
from penstock.errors import ModelError, ToolError
from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = np.arange(12, dtype=np.int8).reshape(1, 4, 3)


def tensor(name: str, *shape: int, is_open: bool = True) -> TensorSpec:
    """An int8 tensor, whose batch is open."""
    return TensorSpec(name, shape, scales=(0.5,), zero_points=(0,), is_open=is_open)


def numbers(name: str, *elements: int, shape: tuple[int, ...] | None = None) -> TensorSpec:
    """Constant int32."""
    array = np.array(elements, np.int32).reshape((len(elements),) if shape is None else shape)
    return TensorSpec(name, array.shape, "int32", data=array)


def dilated(*, is_open: bool) -> bytes:
    """Two phases of a signal as a batch, their ReLU, and back, as for dilated convolutions."""
    tensors = (
        tensor("x", 1, 4, 3),
        numbers("blocks", 2),
        numbers("nothing", 0, 0, shape=(1, 2)),
        tensor("phases", 1, 2, 3, is_open=is_open),
        tensor("clamped", 1, 2, 3, is_open=is_open),
        tensor("y", 1, 4, 3, is_open=is_open),
    )
    operators = (
        OperatorSpec("SPACE_TO_BATCH_ND", (0, 1, 2), (3,)),
        OperatorSpec("RELU", (3,), (4,)),
        OperatorSpec("BATCH_TO_SPACE_ND", (4, 1, 2), (5,)),
    )
    return write_tflite(tensors, operators, (0,), (5,))


def test_the_batch_of_a_dilated_layer_is_inferred() -> None:
    graph = parse(dilated(is_open=True), "m.tflite")
    assert [node.output.type.shape for node in graph.nodes] == [(2, 2, 3), (2, 2, 3), (1, 4, 3)]
    found = run_graph(graph, {"x": X - 5})["y"]
    np.testing.assert_array_equal(found, np.maximum(X - 5, 0))


def test_a_reference_that_keeps_the_stated_extents_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    model = tmp_path / "m.tflite"
    model.write_bytes(dilated(is_open=True))
    with pytest.raises(ToolError) as caught:
        api.golden(str(model), tmp_path / "m.npz")
    assert 'elements of "phases", must be 12' in caught.value.what


def test_extents_that_are_stated_must_be_right() -> None:
    with pytest.raises(ModelError):
        parse(dilated(is_open=False), "m.tflite")


def test_a_shape_that_is_computed_from_the_batch_is_known() -> None:
    tensors = (
        tensor("x", 1, 4, 3),
        TensorSpec("shape", (3,), "int32"),
        *(numbers(name, number) for name, number in (("begin", 0), ("end", 1), ("step", 1))),
        TensorSpec("batch", (), "int32"),
        numbers("twelve", 12, shape=()),
        TensorSpec("wanted", (2,), "int32"),
        tensor("y", 1, 1),
    )
    operators = (
        OperatorSpec("SHAPE", (0,), (1,)),
        OperatorSpec("STRIDED_SLICE", (1, 2, 3, 4), (5,), {"shrink_axis_mask": 1}),
        OperatorSpec("PACK", (5, 6), (7,), {"values_count": 2}),
        OperatorSpec("RESHAPE", (0, 7), (8,)),
    )
    graph = parse(write_tflite(tensors, operators, (0,), (8,)), "m.tflite")
    assert graph.outputs[0].type.shape == (1, 12)


@pytest.mark.parametrize(
    ("name", "operands", "options", "shape"),
    [
        ("EXPAND_DIMS", (numbers("axis", -1, shape=()),), {}, (1, 4, 3, 1)),
        ("SQUEEZE", (), {"squeeze_dims": (0,)}, (4, 3)),
        ("SQUEEZE", (), {}, (4, 3)),
        ("RESHAPE", (numbers("to", -1, 2),), {}, (6, 2)),
        (
            "STRIDED_SLICE",
            (numbers("b", 0, 1, 0), numbers("e", 1, 3, 2), numbers("s", 1, 1, 1)),
            {"shrink_axis_mask": 1},
            (2, 2),
        ),
        ("GATHER", (numbers("rows", 0, 1, 1, 2, shape=(2, 2)),), {"axis": 1}, (1, 2, 2, 3)),
    ],
)
def test_open_views_have_the_shape_that_their_operands_ask_for(
    name: str, operands: tuple[TensorSpec, ...], options: dict[str, int], shape: tuple[int, ...]
) -> None:
    tensors = (tensor("x", 1, 4, 3), tensor("y", 1, 1), *operands)
    reads = (0, *range(2, 2 + len(operands)))
    raw = write_tflite(tensors, (OperatorSpec(name, reads, (1,), options),), (0,), (1,))
    assert parse(raw, "m.tflite").outputs[0].type.shape == shape


def test_the_rows_of_a_layer_with_dequantised_weights_are_inferred() -> None:
    """Keras' dense layers on sequences make rows of all steps; weights may be smaller numbers."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(2, 3)).astype(np.float32)
    tensors = (
        TensorSpec("x", (1, 4, 3), "float32"),
        numbers("rows", -1, 3),
        TensorSpec("flat", (1, 3), "float32", is_open=True),
        TensorSpec("w", (2, 3), "float32", data=weights),
        TensorSpec("real", (2, 3), "float32"),
        TensorSpec("y", (1, 2), "float32", is_open=True),
    )
    operators = (
        OperatorSpec("DEQUANTIZE", (3,), (4,)),
        OperatorSpec("RESHAPE", (0, 1), (2,)),
        OperatorSpec("FULLY_CONNECTED", (2, 4, -1), (5,), {"keep_num_dims": False}),
    )
    graph = parse(write_tflite(tensors, operators, (0,), (5,)), "m.tflite")
    x = rng.normal(size=(1, 4, 3)).astype(np.float32)
    found = run_graph(graph, {"x": x})["y"]
    np.testing.assert_allclose(found, x[0] @ weights.T, rtol=1e-5)


def test_the_extents_of_a_transposed_convolution_are_those_that_it_is_given() -> None:
    """Keras' Conv1DTranspose computes the length of its output, and the file leaves it open."""
    weights = np.ones((2, 1, 2, 3), np.int8)
    tensors = (
        numbers("shape", 1, 1, 8, 2),
        TensorSpec("w", weights.shape, scales=(0.5,), zero_points=(0,), data=weights),
        tensor("x", 1, 1, 4, 3),
        tensor("y", 1, 1, 1, 2),
    )
    options = {"stride_h": 1, "stride_w": 2, "padding": 1}
    node = OperatorSpec("TRANSPOSE_CONV", (0, 1, 2), (3,), options)
    graph = parse(write_tflite(tensors, (node,), (2,), (3,)), "m.tflite")
    assert graph.outputs[0].type.shape == (1, 1, 8, 2)


@pytest.mark.parametrize("axis", [None, 0])
def test_weights_that_the_file_quantises_are_constants(axis: int | None) -> None:
    """As the converter writes fake-quantised weights, without shapes of the results."""
    weights = np.array([[0.25, -1.25, 100], [0.75, -40, 0.0625]], np.float32)
    scales, zeros = ((0.5,), (0,)) if axis is None else ((0.5, 0.25), (0, 3))
    tensors = (
        TensorSpec("x", (1, 3), "float32"),
        TensorSpec("w", (2, 3), "float32", data=weights),
        TensorSpec("steps", () if axis is None else (2, 3), "int8", scales, zeros, axis or 0),
        TensorSpec("reals", (), "float32"),
        TensorSpec("y", (1, 2), "float32"),
    )
    nodes = (
        OperatorSpec("QUANTIZE", (1,), (2,)),
        OperatorSpec("DEQUANTIZE", (2,), (3,)),
        OperatorSpec("FULLY_CONNECTED", (0, 3, -1), (4,)),
    )
    graph = parse(write_tflite(tensors, nodes, (0,), (4,)), "m.tflite")
    (node,) = graph.nodes
    second = [1, -40, 0] if axis is None else [0.75, -32.75, 0]
    found = [
        run_graph(graph, {"x": row[None]})[node.name][0].tolist()
        for row in np.eye(3, dtype=np.float32)
    ]
    assert found == np.transpose([[0.5, -1.5, 63.5], second]).tolist()
