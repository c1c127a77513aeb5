from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tflite

from penstock.errors import ToolError
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OPERATORS, OperatorSpec, TensorSpec, write_tflite

X = TensorSpec("x", (1, 4), scales=(0.5,), zero_points=(0,))
Y = TensorSpec("y", (1, 4), scales=(0.5,), zero_points=(-128,))
RELU = OperatorSpec("RELU", (0,), (1,))


def test_the_runtime_takes_what_is_written(runtime: None) -> None:
    values = np.array([[-3, 2, 5, 127]], np.int8)
    answer = run_tflite_micro(write_tflite((X, Y), (RELU,), (0,), (1,)), (values,))
    assert answer.outputs[0].tolist() == [[-128, -126, -123, -1]]
    assert [index for index, _ in answer.tensors] == [0, 1]


def test_the_runtimes_own_words_say_which_operator_it_does_not_know(runtime: None) -> None:
    gelu = OperatorSpec("GELU", (0,), (1,), {"approximate": True})
    with pytest.raises(ToolError) as caught:
        run_tflite_micro(write_tflite((X, Y), (gelu,), (0,), (1,)), (np.zeros((1, 4), np.int8),))
    assert str(caught.value) == (
        "error[tool-041]: TensorFlow Lite Micro refuses this model or its inputs\n"
        "  --> the reference runtime, in its own process\n"
        "  why: Didn't find op for builtin opcode 'GELU'; "
        "Failed to get registration from op code GELU; TFLM failed to allocate tensors\n"
        "  help: if the inputs are right, pass goldens of another runtime to "
        "`penstock verify --goldens`"
    )


@pytest.mark.parametrize("operands", [((0,), (100_000,)), ((100_000,), (1,))])
def test_operands_that_do_not_exist_never_end_our_process(
    runtime: None, operands: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    model_bytes = write_tflite((X, Y), (OperatorSpec("RELU", *operands),), (0,), (1,))
    # TFLite Micro reads past its tensors: it refuses, crashes in its own process, or gets away.
    with contextlib.suppress(ToolError):
        run_tflite_micro(model_bytes, (np.zeros((1, 4), np.int8),))


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ((), "0 inputs given, the model takes 1"),
        ((np.zeros((1, 5), np.int8),), "Got 5 but expected 4 for dimension 1 of input 0"),
        ((np.zeros((1, 4), np.float32),), "Got value of type FLOAT32 but expected type INT8"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    runtime: None, inputs: tuple[np.ndarray, ...], why: str
) -> None:
    with pytest.raises(ToolError) as caught:
        run_tflite_micro(write_tflite((X, Y), (RELU,), (0,), (1,)), inputs)
    assert why in caught.value.why


def test_a_file_reads_back_as_it_was_described() -> None:
    weights = np.arange(6, dtype=np.int8).reshape(2, 3)
    tensors = (
        X,
        TensorSpec("w", (2, 3), "int8", (0.5, 0.25), (0, 0), 0, weights),
        TensorSpec("b", (2,), "int32", (0.5, 0.25), (0, 0), 0, np.array([7, -9], np.int32)),
        Y,
    )
    dense = OperatorSpec("FULLY_CONNECTED", (0, 1, 2), (3,), {"fused_activation_function": "RELU6"})
    model_bytes = write_tflite(tensors, (dense, RELU, dense), (0,), (3,), description="mine")
    model: Any = tflite.Model.GetRootAs(model_bytes, 0)
    graph = model.Subgraphs(0)
    assert model_bytes[4:8] == b"TFL3"
    assert model.Description() == b"mine"
    assert graph.TensorsLength() == 4
    assert [graph.Tensors(1).Quantization().Scale(i) for i in range(2)] == [0.5, 0.25]
    data = model.Buffers(graph.Tensors(2).Buffer()).DataAsNumpy()
    assert data.view(np.int32).tolist() == [7, -9]
    assert graph.OperatorsLength() == 3
    codes = [model.OperatorCodes(i).BuiltinCode() for i in range(model.OperatorCodesLength())]
    assert codes == [tflite.BuiltinOperator.FULLY_CONNECTED, tflite.BuiltinOperator.RELU]
    options = tflite.FullyConnectedOptions()
    table = graph.Operators(2).BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    assert options.FusedActivationFunction() == tflite.ActivationFunctionType.RELU6


def test_constant_data_is_aligned_to_16_bytes() -> None:
    for size in (1, 3, 17, 40):
        data = np.full((size,), 77, np.int8)
        tensors = (X, Y, TensorSpec("c", (size,), data=data))
        model_bytes = write_tflite(tensors, (RELU,), (0,), (1,))
        assert model_bytes.find(bytes(data)) % 16 == 0


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_operator_in_the_table_exists_in_the_schema(operator: str) -> None:
    model_bytes = write_tflite((X, Y), (OperatorSpec(operator, (0,), (1,)),), (0,), (1,))
    model: Any = tflite.Model.GetRootAs(model_bytes, 0)
    assert model.OperatorCodes(0).BuiltinCode() == getattr(tflite.BuiltinOperator, operator)
    node = model.Subgraphs(0).Operators(0)
    written = node.BuiltinOptionsType(), node.BuiltinOptions2Type()
    assert any(written) == bool(OPERATORS[operator][0])


def test_data_of_another_shape_than_its_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match=r'tensor "c" is int8 \(3,\), its data int8 \(2,\)'):
        TensorSpec("c", (3,), data=np.zeros(2, np.int8))


def test_options_for_an_operator_that_has_none_are_refused() -> None:
    with pytest.raises(ValueError, match="RELU has no options"):
        write_tflite((X, Y), (OperatorSpec("RELU", (0,), (1,), {"beta": 1.0}),), (0,), (1,))
