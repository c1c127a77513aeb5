"""Files that set only what the schema requires of them, and other encodings of the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beside
from available import COMMITTED, SHARED, path_of
from minimal_tflite import Table, ints, model_bytes, table
from penstock.errors import ModelError, PenstockError, UnsupportedError
from penstock.frontends.open import parse
from penstock.ir.graph import Graph
from penstock.opkit.activation import Activation
from penstock.ops.registry import foreign_names
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_rewriting import codes_of, with_codes
from tools.tflite_writer import OPERATORS, OperatorSpec, TensorSpec, tflite, write_tflite

INT8 = tflite.TensorType.INT8
LARGEST_DEPRECATED = 126


@pytest.mark.parametrize("name", COMMITTED)
def test_operator_codes_mean_the_same_in_either_field(name: str) -> None:
    check_either_field(Path(path_of(name)).read_bytes())


def test_operator_codes_of_shared_files_mean_the_same_in_either_field() -> None:
    """Every file that is small, and has no custom operators."""
    folder = beside.needed(SHARED)
    for path in (*sorted(folder.glob("*.tflite")), *sorted((folder / "ops").glob("*.tflite"))):
        if path.stat().st_size < 1_000_000:
            raw = path.read_bytes()
            if tflite.BuiltinOperator.CUSTOM not in codes_of(raw):
                check_either_field(raw)


def check_either_field(raw: bytes) -> None:
    encodings = [with_codes(raw, codes_of(raw), builtin=True, deprecated=False)]
    if max(codes_of(raw)) <= LARGEST_DEPRECATED:
        encodings.append(with_codes(raw, codes_of(raw), builtin=False, deprecated=True))
    for encoded in encodings:
        assert result(encoded) == result(raw)


def result(raw: bytes) -> Graph | str:
    """The graph, whose equality includes all constants and attributes, or why there is none."""
    try:
        return parse(raw, "m.tflite")
    except PenstockError as error:
        return str(error)


def test_every_operator_is_read_from_either_field() -> None:
    """Names alone: each operator on tensors that it need not take."""
    tensors = tuple(TensorSpec(name, (1, 4), scales=(0.5,), zero_points=(0,)) for name in "xy")
    for name in sorted(foreign_names().keys() & OPERATORS.keys()):
        raw = write_tflite(tensors, (OperatorSpec(name, (0,), (1,)),), (0,), (1,))
        code = codes_of(raw)[0]
        assert result(with_codes(raw, codes_of(raw), builtin=True, deprecated=False)) == result(
            raw
        ), name
        if code <= LARGEST_DEPRECATED:
            assert result(with_codes(raw, codes_of(raw), builtin=False, deprecated=True)) == result(
                raw
            ), name


@pytest.mark.parametrize("name", ["MUL", "SUB", "MAXIMUM"])
def test_a_file_with_only_the_new_field_equals_the_reference(name: str) -> None:
    pytest.importorskip("tflite_micro", reason="the package tflite-micro is not installed")
    tensors = tuple(TensorSpec(n, (1, 4), scales=(0.5,), zero_points=(0,)) for n in "aby")
    written = write_tflite(tensors, (OperatorSpec(name, (0, 1), (2,)),), (0, 1), (2,))
    raw = with_codes(written, codes_of(written), builtin=True, deprecated=False)
    a, b = np.array([[1, -2, 30, 4]], np.int8), np.array([[7, 5, -3, 100]], np.int8)
    graph = parse(raw, "m.tflite")
    found = run_graph(graph, {"a": a, "b": b})["y"]
    (expected,) = run_tflite_micro(raw, (a, b)).outputs
    np.testing.assert_array_equal(found, expected)


# Files made by hand: one operator between tensor 0 and the last tensor.


def quantisation(**more: Any) -> Table:
    scale, zero = np.array([0.5], np.float32), np.array([0], np.int64)
    return table("QuantizationParameters", **{"Scale": scale, "ZeroPoint": zero, **more})


def tensor(*shape: int, **more: Any) -> Table:
    fields = {"Shape": ints(*shape), "Type": INT8, "Quantization": quantisation()}
    return table("Tensor", **{**fields, **more})


def raw_model(
    code: Table,
    operator: dict[str, Any],
    *tensors: Table,
    buffers: tuple[Table, ...] = (table("Buffer"),),
    **more: Any,
) -> bytes:
    """A file without names, options, descriptions or anything else that is not given."""
    last = len(tensors) - 1
    main = {
        "Tensors": list(tensors),
        "Inputs": ints(0),
        "Outputs": ints(last),
        "Operators": [table("Operator", **{"Inputs": ints(0), "Outputs": ints(last), **operator})],
    }
    return model_bytes(
        table(
            "Model",
            Version=3,
            OperatorCodes=[code],
            Subgraphs=[table("SubGraph", **{**main, **more})],
            Buffers=list(buffers),
        )
    )


RELU = table("OperatorCode", DeprecatedBuiltinCode=tflite.BuiltinOperator.RELU)
ADD = table("OperatorCode")
"""Both fields have their default, which is ADD's code."""


def test_names_options_and_indices_may_be_absent() -> None:
    graph = parse(raw_model(RELU, {}, tensor(1, 4), tensor(1, 4)), "m.tflite")
    assert [value.name for value in graph.variables()] == ["tensor0", "tensor1"]
    assert graph.nodes[0].kind == "Relu"


@pytest.mark.parametrize("options", [{}, {"BuiltinOptions": table("AddOptions")}])
def test_an_operator_code_without_fields_is_add(options: dict[str, Any]) -> None:
    kind = tflite.BuiltinOptions.AddOptions
    operator = {"Inputs": ints(0, 0), "BuiltinOptionsType": kind, **options}
    graph = parse(raw_model(ADD, operator, tensor(1, 4), tensor(1, 4)), "m.tflite")
    assert graph.nodes[0].kind == "Add"


def test_options_of_another_operator_are_not_read() -> None:
    """As TensorFlow Lite does: it asks for AddOptions and finds none."""
    wrong = table("MulOptions", FusedActivationFunction=tflite.ActivationFunctionType.RELU6)
    kind = tflite.BuiltinOptions.MulOptions
    operator = {"Inputs": ints(0, 0), "BuiltinOptionsType": kind, "BuiltinOptions": wrong}
    graph = parse(raw_model(ADD, operator, tensor(1, 4), tensor(1, 4)), "m.tflite")
    assert getattr(graph.nodes[0].op, "activation") is Activation.NONE  # noqa: B009


def test_options_of_an_unknown_type_are_refused() -> None:
    operator = {
        "Inputs": ints(0, 0), "BuiltinOptionsType": 250, "BuiltinOptions": table("AddOptions"),
    }  # fmt: skip
    with pytest.raises(ModelError, match="options of type 250, which does not exist"):
        parse(raw_model(ADD, operator, tensor(1, 4), tensor(1, 4)), "m.tflite")


@pytest.mark.parametrize("code", ["CONV_2D", "MAX_POOL_2D", "SOFTMAX"])
def test_an_operator_that_needs_its_options_is_refused_without_them(code: str) -> None:
    one = np.ones(16, np.int8).tobytes()
    tensors = [tensor(1, 2, 2, 4), tensor(4, 1, 1, 4, Buffer=1), tensor(1, 2, 2, 4)]
    operator = {"Inputs": ints(0, 1) if code == "CONV_2D" else ints(0)}
    if code == "SOFTMAX":
        q = quantisation(Scale=np.array([1 / 256], np.float32), ZeroPoint=np.array([-128]))
        tensors[2] = tensor(1, 2, 2, 4, Quantization=q)
    number = getattr(tflite.BuiltinOperator, code)
    buffers = (table("Buffer"), table("Buffer", Data=one))
    raw = raw_model(table("OperatorCode", BuiltinCode=number), operator, *tensors, buffers=buffers)
    with pytest.raises(UnsupportedError, match=r"must (each )?be"):
        parse(raw, "m.tflite")


def with_constant(buffer: Table, **more: Any) -> bytes:
    """ADD of the input and a constant of four elements."""
    operator = {"Inputs": ints(0, 1)}
    tensors = (tensor(1, 4), tensor(1, 4, Buffer=1, **more), tensor(1, 4))
    return raw_model(ADD, operator, *tensors, buffers=(table("Buffer"), buffer))


ELEMENTS = bytes((1, 2, 3, 4))


def test_data_after_the_flatbuffer_is_read() -> None:
    inside = parse(with_constant(table("Buffer", Data=ELEMENTS)), "m.tflite")
    size = len(with_constant(table("Buffer", Offset=2, Size=4)))
    outside = with_constant(table("Buffer", Offset=size, Size=4))
    assert len(outside) == size
    assert parse(outside + ELEMENTS, "m.tflite") == inside
    with pytest.raises(ModelError, match=f"ends at byte {size + 4}, the file has {size} bytes"):
        parse(outside, "m.tflite")


@pytest.mark.parametrize(("offset", "size"), [(0, 4), (1, 4), (100, 0), (100, 1)])
def test_data_whose_place_is_not_given_is_not_there(offset: int, size: int) -> None:
    with pytest.raises(ModelError, match="is read before it is written"):
        parse(with_constant(table("Buffer", Offset=offset, Size=size)), "m.tflite")


def test_a_sparse_tensor_is_refused() -> None:
    sparse = table("SparsityParameters", TraversalOrder=ints(1, 0))
    with pytest.raises(UnsupportedError, match="its elements are stored sparsely"):
        parse(with_constant(table("Buffer", Data=ELEMENTS), Sparsity=sparse), "m.tflite")


def test_a_custom_quantisation_is_refused() -> None:
    details = {
        "DetailsType": tflite.QuantizationDetails.CustomQuantization,
        "Details": table("CustomQuantization", Custom=b"12"),
    }
    q = quantisation(**details)
    with pytest.raises(UnsupportedError, match="custom or blockwise quantisation"):
        parse(with_constant(table("Buffer", Data=ELEMENTS), Quantization=q), "m.tflite")


def test_scales_default_to_none_and_zero_points_are_required() -> None:
    """TensorFlow Lite refuses scales without zero points (`InterpreterBuilder::ParseQuantization`);
    TensorFlow Lite Micro reads such a tensor as one that is not quantised."""
    only_scale = table("QuantizationParameters", Scale=np.array([0.5], np.float32))
    with pytest.raises(ModelError, match="1 scales and 0 zero points"):
        parse(raw_model(RELU, {}, tensor(1, 4, Quantization=only_scale), tensor(1, 4)), "m.tflite")
    nothing = table("QuantizationParameters", Min=np.array([0], np.float32))
    with pytest.raises(ModelError, match="input has no quantisation"):
        parse(raw_model(RELU, {}, tensor(1, 4, Quantization=nothing), tensor(1, 4)), "m.tflite")


@pytest.mark.parametrize("field", ["Tensors", "Inputs", "Outputs", "Operators"])
def test_a_subgraph_without_a_vector_is_refused_with_a_reason(field: str) -> None:
    empty: Any = [] if field in ("Tensors", "Operators") else ints()
    with pytest.raises(ModelError) as caught:
        parse(raw_model(RELU, {}, tensor(1, 4), tensor(1, 4), **{field: empty}), "m.tflite")
    assert caught.value.where
