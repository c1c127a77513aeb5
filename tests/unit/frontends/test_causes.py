"""Errors about operators and element types name the cause, and a remedy if there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from minimal_tflite import Table, ints, model_bytes, table
from penstock.errors import UnsupportedError
from penstock.frontends.open import parse, read_bytes
from tools.tflite_rewriting import codes_of, with_codes
from tools.tflite_writer import OperatorSpec, TensorSpec, tflite, write_tflite

INTEGER_QUANTISATION = "post-training integer quantisation"
X = TensorSpec("x", (1, 4), scales=(0.5,), zero_points=(0,))
REAL = replace(X, dtype="float32", scales=(), zero_points=())


def refusal(raw: bytes) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        parse(raw, "m.tflite")
    return caught.value


def chain(*steps: tuple[str, TensorSpec], first: TensorSpec = X) -> bytes:
    """Operators of one input, one after the other."""
    tensors = (first, *(replace(spec, name=f"t{k}") for k, (_, spec) in enumerate(steps)))
    operators = tuple(OperatorSpec(name, (k,), (k + 1,)) for k, (name, _) in enumerate(steps))
    return write_tflite(tensors, operators, (0,), (len(steps),))


def stateful(operator: str, kind: int = tflite.TensorType.INT8) -> bytes:
    """An int8 network with an operator that keeps state."""
    q = table("QuantizationParameters", Scale=np.array([0.5], np.float32), ZeroPoint=np.array([0]))

    def tensor(number: int) -> Table:
        return table("Tensor", Shape=ints(1, 4), Type=number, Quantization=q)

    main = table(
        "SubGraph",
        Tensors=[tensor(tflite.TensorType.INT8), tensor(kind)],
        Inputs=ints(0),
        Outputs=ints(1),
        Operators=[table("Operator", Inputs=ints(0), Outputs=ints(1))],
    )
    code = table("OperatorCode", BuiltinCode=getattr(tflite.BuiltinOperator, operator))
    return model_bytes(
        table("Model", Version=3, OperatorCodes=[code], Subgraphs=[main], Buffers=[table("Buffer")])
    )


@pytest.mark.parametrize(
    "raw",
    [
        *(stateful(name) for name in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN")),
        stateful("RELU", tflite.TensorType.RESOURCE),
        stateful("READ_VARIABLE", tflite.TensorType.VARIANT),
    ],
)
def test_state_is_named_and_quantisation_is_no_remedy(raw: bytes) -> None:
    error = refusal(raw)
    assert "keeps state" in error.why
    assert "without state" in error.help
    assert INTEGER_QUANTISATION not in str(error)


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_real_and_uint8_inputs_and_outputs_are_read(kind: str) -> None:
    other = REAL if kind == "float32" else replace(X, dtype=kind)
    last = "DEQUANTIZE" if other is REAL else "QUANTIZE"
    graph = parse(chain(("QUANTIZE", X), ("RELU", X), (last, other), first=other), "m.tflite")
    assert [v.type.dtype.value for v in (*graph.inputs, *graph.outputs)] == [kind, kind]


def test_int16_inputs_and_wide_outputs_are_read() -> None:
    wide = {kind: replace(X, dtype=kind) for kind in ("int16", "int32")}
    raw = chain(("QUANTIZE", X), ("RELU", X), ("QUANTIZE", wide["int32"]), first=wide["int16"])
    graph = parse(raw, "m.tflite")
    kinds = [v.type.dtype.value for v in (*graph.inputs, *graph.outputs)]
    assert kinds == ["int16", "int32"]


def test_other_integers_at_the_border_are_named() -> None:
    other = replace(X, dtype="int64")
    for side, raw in (
        ("input", chain(("QUANTIZE", X), ("RELU", X), first=other)),
        ("output", chain(("RELU", X), ("QUANTIZE", other))),
    ):
        error = refusal(raw)
        assert f"the network's {side} is int64" in error.why
        assert f"an int8 {side}" in error.help
        assert INTEGER_QUANTISATION not in str(error)


def mixed(*, within: bool) -> bytes:
    """RELU of real numbers with an int8 result, which no kernel computes: alone, or within an int8
    network."""
    tensors = (X, replace(REAL, name="r"), replace(X, name="s"), replace(X, name="y"))
    node = OperatorSpec("RELU", (1,), (2,))
    if not within:
        return write_tflite(tensors, (node,), (1,), (2,))
    borders = OperatorSpec("DEQUANTIZE", (0,), (1,)), OperatorSpec("RELU", (2,), (3,))
    return write_tflite(tensors, (borders[0], node, borders[1]), (0,), (3,))


def test_real_numbers_within_an_int8_network_are_blamed_on_their_operators() -> None:
    error = refusal(mixed(within=True))
    assert "real numbers" in error.why
    assert "inference_" not in str(error)


@pytest.mark.parametrize(
    ("kind", "operator", "cause"),
    [("int16", "RELU", "16-bit activations"), ("uint8", "ABS", "uint8 quantisation")],
)
def test_int16_and_uint8_networks_get_a_specific_error(
    kind: str, operator: str, cause: str
) -> None:
    other = replace(X, dtype=kind)
    error = refusal(chain((operator, other), first=other))
    assert cause in error.why
    assert INTEGER_QUANTISATION not in str(error)


def test_a_network_of_real_numbers_is_to_be_quantised() -> None:
    assert INTEGER_QUANTISATION in refusal(mixed(within=False)).help


def hybrid(weights: TensorSpec) -> bytes:
    """A product of real numbers and of 8-bit integers, which TensorFlow quantises at run time."""
    tensors = (REAL, weights, replace(REAL, name="y", shape=(1, 2)))
    return write_tflite(tensors, (OperatorSpec("BATCH_MATMUL", (0, 1), (2,)),), (0,), (2,))


def test_dynamic_range_quantisation_is_named() -> None:
    weights = replace(X, name="w", shape=(4, 2), data=np.ones((4, 2), np.int8))
    error = refusal(hybrid(weights))
    assert "dynamic-range quantisation" in error.why
    assert "representative_dataset" in error.help


def of_type(kind: int) -> bytes:
    """A RELU of a tensor of an element type."""
    tensors = [
        table("Tensor", Name="x", Shape=ints(1, 4), Type=kind),
        table("Tensor", Name="y", Shape=ints(1, 4), Type=tflite.TensorType.INT8),
    ]
    main = table(
        "SubGraph",
        Tensors=tensors,
        Inputs=ints(0),
        Outputs=ints(1),
        Operators=[table("Operator", Inputs=ints(0), Outputs=ints(1))],
    )
    code = table("OperatorCode", BuiltinCode=tflite.BuiltinOperator.RELU)
    return model_bytes(
        table("Model", Version=3, OperatorCodes=[code], Subgraphs=[main], Buffers=[table("Buffer")])
    )


@pytest.mark.parametrize(
    ("kind", "cause", "remedy"),
    [
        (tflite.TensorType.FLOAT16, "numbers of 16 bits", "float32 inputs"),
        (tflite.TensorType.INT4, "4 bits", "8-bit weights"),
        (tflite.TensorType.COMPLEX64, "complex numbers", "compute the spectrum"),
        (tflite.TensorType.STRING, "text", "begin the network with numbers"),
        (tflite.TensorType.FLOAT64, "real numbers", "representative_dataset"),
    ],
)
def test_other_element_types_are_explained(kind: int, cause: str, remedy: str) -> None:
    error = refusal(of_type(kind))
    assert cause in error.why
    assert remedy in error.help


def custom(name: str) -> bytes:
    """A network of one custom operator."""
    tensors = [
        table("Tensor", Name=label, Shape=ints(1, 4), Type=tflite.TensorType.INT8)
        for label in ("x", "y")
    ]
    main = table(
        "SubGraph",
        Tensors=tensors,
        Inputs=ints(0),
        Outputs=ints(1),
        Operators=[table("Operator", Inputs=ints(0), Outputs=ints(1))],
    )
    code = table("OperatorCode", BuiltinCode=tflite.BuiltinOperator.CUSTOM, CustomCode=name)
    return model_bytes(
        table("Model", Version=3, OperatorCodes=[code], Subgraphs=[main], Buffers=[table("Buffer")])
    )


@pytest.mark.parametrize(
    ("name", "compiler", "remedy"),
    [
        ("ethos-u", "Vela", "--accelerator ethos_u55"),
        ("edgetpu-custom-op", "Edge TPU", "from before the Edge TPU Compiler"),
        ("XC_conv2d_v2", "XMOS", "from before the XMOS optimiser"),
    ],
)
def test_a_model_that_was_compiled_for_an_accelerator_is_named(
    name: str, compiler: str, remedy: str
) -> None:
    error = refusal(custom(name))
    assert f"was already compiled, by {compiler}" in error.what.replace("the ", "")
    assert remedy in error.help


def test_another_custom_operator_is_not_supported() -> None:
    assert refusal(custom("Mine")).what == "CUSTOM:Mine: operator is not supported"


def test_an_operator_of_tensorflow_is_named() -> None:
    error = refusal(custom("FlexErfc"))
    assert "SELECT_TF_OPS" in error.why
    assert "penstock ops" in error.help


def test_all_layers_of_a_16x8_network_have_one_cause() -> None:
    wide = replace(X, dtype="int16")
    error = refusal(chain(("QUANTIZE", wide), ("RELU", wide), ("DEQUANTIZE", REAL), first=REAL))
    assert "16x8 quantisation" in error.why
    assert error.help.count("\n") == 0
    assert "TFLITE_BUILTINS_INT8" in error.help


@pytest.mark.parametrize("shape", [(0, 4), (1, 0)])
def test_a_tensor_without_elements_is_refused(shape: tuple[int, ...]) -> None:
    x = replace(X, shape=shape)
    error = refusal(chain(("RELU", x), first=x))
    assert "must not be empty" in error.what
    assert "batch of 1" in error.help


def test_problems_without_a_remedy_come_first() -> None:
    written = chain(("QUANTIZE", X), ("RELU", X), ("TANH", X), first=replace(X, dtype="int64"))
    codes = [
        tflite.BuiltinOperator.RFFT2D if code == tflite.BuiltinOperator.TANH else code
        for code in codes_of(written)
    ]
    error = refusal(with_codes(written, codes, builtin=True, deprecated=False))
    assert error.what == "RFFT2D: operator is not supported"
    assert "QUANTIZE converts int64 to int8" in error.why


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        *((f"ops/seanet_{name}0", "16-bit") for name in ("add", "conv", "sub", "leaky_relu")),
    ],
)
def test_errors_about_public_networks_name_the_cause(model: str, cause: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(read_bytes(Path(path_of(model))), model)
    assert cause in caught.value.why.split("\n")[0]


def test_the_element_type_does_not_explain_a_computed_operand() -> None:
    tensors = (REAL, *(TensorSpec(name, (2,), "int32") for name in ("start", "size")))
    node = OperatorSpec("SLICE", (0, 1, 2), (3,))
    error = refusal(write_tflite((*tensors, replace(REAL, name="y")), (node,), (0, 1, 2), (3,)))
    assert 'input 1 "start" is computed, must be constant' in error.what
    assert "constant" in error.help
    assert INTEGER_QUANTISATION not in error.help
    assert not error.why
