"""The two domains of an ONNX model, integer elements and real numbers: small models whose results
are onnxruntime's, with graph optimisation disabled, or that are refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_judge import worst_steps
from onnx_models import graph_of, kinds
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.reading import Reading
from penstock.ir.tensor import DType
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

SHAPE = (1, 3, 8, 8)


def quantised(model: Model, name: str, scale: float, zero: int, kind: str = "int8") -> str:
    """The elements of a tensor of real numbers."""
    parts = model.constant(np.float32(scale)), model.constant(np.array(zero, kind))
    return model.node("QuantizeLinear", name, *parts, scale=None)


def dequantised(model: Model, name: str, scale: float, zero: int, kind: str = "int8") -> str:
    """The real numbers that elements represent."""
    parts = model.constant(np.float32(scale)), model.constant(np.array(zero, kind))
    return model.node("DequantizeLinear", name, *parts, scale=None)


def number(model: Model, value: float, kind: str = "float32") -> str:
    return model.constant(np.array(value, kind))


def integers(model: Model, *values: int) -> str:
    return model.constant(np.array(values, np.int64))


def test_halves_of_steps_are_rounded_to_even() -> None:
    model = Model(quantised=False)
    x = dequantised(model, quantised(model, model.input(1, 9), 0.25, 0), 0.25, 0)
    graph = graph_of(model.raw(x), Reading(same_interface=True))
    halves = (np.arange(-4, 5, dtype=np.float32) + 0.5).reshape(1, 9) / 4
    (found,) = run_graph(graph, {"x": halves})[graph.outputs[0].name] * 4
    assert found.tolist() == [-4, -2, -2, 0, 0, 2, 2, 4, 4]


@pytest.mark.parametrize("operator", ["Floor", "Round"])
def test_quotients_that_are_rounded_are_no_products(operator: str) -> None:
    """The product with the reciprocal of 0.1 is below some whole numbers that the quotient is."""
    model = Model(quantised=False)
    quotient = model.node("Div", model.input(1, 128), number(model, 0.1))
    graph = graph_of(model.raw(model.node(operator, quotient)))
    x = (np.arange(-64, 64, dtype=np.float32) * np.float32(0.1)).reshape(1, 128)
    expected = (np.floor if operator == "Floor" else np.round)(x / np.float32(0.1))
    assert np.array_equal(run_graph(graph, {"x": x})[graph.outputs[0].name], expected)


@pytest.mark.parametrize("opset", [11, 13])
def test_an_extent_of_an_input_is_computed(opset: int) -> None:
    """As exporters flatten images; Squeeze has its axes as an attribute before opset 13."""
    model = Model(opset=opset, quantised=False)
    x = model.input(2, 3, 4)
    zero = model.constant(np.array(0, np.int64))
    extent = model.node("Gather", model.node("Shape", x), zero, axis=0)
    axes = () if opset < 13 else (integers(model, 0),)
    listed = {"axes": [0]} if opset < 13 else {}
    extent = model.node("Unsqueeze", extent, *axes, **listed)
    shape = model.node("Concat", extent, integers(model, -1), axis=0)
    graph = graph_of(model.raw(model.node("Reshape", x, shape)))
    assert graph.outputs[0].type.shape == (2, 12)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
class TestIntegers:
    """Operators between QuantizeLinear and DequantizeLinear."""

    def elements(self, model: Model, kind: str, scale: float = 0.05, zero: int = 3) -> str:
        return quantised(model, model.input(*SHAPE), scale, zero, kind)

    def finished(self, model: Model, name: str, kind: str, scale: float = 0.05) -> bytes:
        return model.raw(dequantised(model, name, scale, 3, kind))

    def test_a_clamp_has_bounds_that_are_elements(self, kind: str) -> None:
        model = Model()
        bounds = [number(model, b, kind) for b in (2, 21)]
        found = model.node("Clip", self.elements(model, kind), *bounds, scale=None)
        assert worst_steps(self.finished(model, found, kind)) == 0

    def test_a_relu_clamps_at_the_element_0(self, kind: str) -> None:
        if kind == "uint8":
            pytest.skip("ONNX has no Relu of uint8")
        model = Model(opset=14)
        found = model.node("Relu", self.elements(model, kind), scale=None)
        graph = graph_of(self.finished(model, found, kind))  # onnxruntime has no Relu of int8
        x = np.resize(np.arange(-128, 128, dtype=np.int8), graph.inputs[0].type.shape)
        found = run_graph(graph, {"x": x})[graph.outputs[0].name]
        rounded = np.clip(np.rint((x + 3.0) * 0.05 / 0.05) + 3, -128, 127)
        assert np.array_equal(found, np.maximum(rounded, 0))

    @pytest.mark.parametrize("value", [None, 5])
    def test_a_border_is_an_element(self, kind: str, value: int | None) -> None:
        model = Model()
        pads = integers(model, 0, 0, 1, 2, 0, 0, 1, 0)
        border = [] if value is None else [number(model, value, kind)]
        found = model.node("Pad", self.elements(model, kind), pads, *border, scale=None)
        assert worst_steps(self.finished(model, found, kind)) == 0

    def test_a_cast_to_float_yields_the_elements(self, kind: str) -> None:
        model = Model()
        found = model.node("Cast", self.elements(model, kind), to=TensorProto.FLOAT, scale=None)
        assert worst_steps(model.raw(found)) == 0

    def test_a_cast_to_a_wider_type_keeps_the_elements(self, kind: str) -> None:
        model = Model()
        wide = model.node("Cast", self.elements(model, kind), to=TensorProto.INT32, scale=None)
        found = model.node("Cast", wide, to=TensorProto.FLOAT, scale=None)
        assert worst_steps(model.raw(found)) == 0

    def test_elements_may_be_dequantised_under_other_scales(self, kind: str) -> None:
        model = Model()
        elements = self.elements(model, kind)
        first, second = (dequantised(model, elements, s, z, kind) for s, z in ((0.05, 3), (0.7, 9)))
        assert worst_steps(model.raw(first, second)) == 0

    def test_elements_of_other_scales_are_concatenated_as_they_are(self, kind: str) -> None:
        model = Model()
        x = model.input(*SHAPE)
        parts = [quantised(model, x, s, z, kind) for s, z in ((0.05, 3), (0.07, 9))]
        constant = model.constant(np.arange(64).reshape(1, 1, 8, 8).astype(kind))
        found = model.node("Concat", *parts, constant, axis=1, scale=None)
        assert worst_steps(self.finished(model, found, kind)) <= 1

    def test_what_moves_elements_has_no_scale(self, kind: str) -> None:
        model = Model()
        x = self.elements(model, kind)
        x = model.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], scale=None)
        x = model.node("Transpose", x, perm=[0, 2, 3, 1], scale=None)
        x = model.node("Slice", x, *(integers(model, n) for n in (1, 4, 2)), scale=None)
        halves = model.node("Split", x, integers(model, 1, 2), axis=3, count=2, scale=None)
        y = model.node("Reshape", halves, integers(model, 1, -1), scale=None)
        assert worst_steps(self.finished(model, y, kind, scale=0.2)) == 0

    def test_elements_are_inputs_and_outputs(self, kind: str) -> None:
        model = Model(kind=kind)
        x = dequantised(model, "x", 0.05, 3, kind)
        y = quantised(model, model.node("Sigmoid", x, scale=None), 1 / 128, 1, kind)
        code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        model.inputs.append(helper.make_tensor_value_info("x", code, [2, 9]))
        model.outputs.append(helper.make_tensor_value_info(y, code, None))
        raw = model.proto().SerializeToString()
        assert worst_steps(raw) <= 1
        assert graph_of(raw).inputs[0].type.scale == np.float32(0.05)

    def test_arithmetic_of_integers_wraps_around(self, kind: str) -> None:
        model = Model(opset=14)
        x = self.elements(model, kind)
        total = model.node("Add", x, x, scale=None)
        graph = graph_of(self.finished(model, total, kind))  # onnxruntime adds no int8
        x = np.resize(np.arange(-128, 128, dtype=np.int8), graph.inputs[0].type.shape)
        found = run_graph(graph, {"x": x})[graph.outputs[0].name]
        limits = np.iinfo(kind)
        elements = np.clip(x.astype(int) + 6, limits.min, limits.max)
        wrapped = (elements * 2).astype(kind).astype(int)
        assert np.array_equal(found, wrapped - (128 if kind == "uint8" else 0))


def test_a_bound_may_come_through_a_dequantize_linear() -> None:
    model = Model()
    lower = dequantised(model, model.constant(np.array(-60, np.int8)), 0.02, 0)
    found = model.node("Clip", model.input(*SHAPE), lower, number(model, 4.1), scale=None)
    assert worst_steps(model.raw(model.qdq(found, 0.05))) == 0


def test_a_border_outside_the_range_of_the_input_is_kept() -> None:
    model = Model()
    pads = integers(model, 0, 0, 1, 0, 0, 0, 0, 1)
    found = model.node("Pad", model.input(*SHAPE), pads, number(model, 9.0), scale=None)
    assert worst_steps(model.raw(model.qdq(found, 0.1))) <= 1


def test_a_border_that_no_quantisation_represents_is_a_real_number() -> None:
    model = Model()
    pads = integers(model, 0, 0, 1, 0, 0, 0, 0, 1)
    padded = model.node("Pad", model.input(*SHAPE), pads, number(model, 9.0), scale=None)
    assert worst_steps(model.raw(model.qdq(model.node("Abs", padded, scale=None), 0.1))) <= 1


@pytest.mark.parametrize("operator", ["Ceil", "Floor"])
def test_reals_are_of_single_precision(operator: str) -> None:
    """Elements times scales that are no numbers of single precision would be just above or below
    an integer."""
    model = Model(zero=0)
    x = model.input(256, scale=0.1)
    assert worst_steps(model.raw(model.node(operator, x, scale=0.25))) == 0


class TestOneTensorSeveralReaders:
    """A tensor is rounded once for each QuantizeLinear, and is never read after it was rounded for
    another reader."""

    def test_it_is_computed_once_for_each_quantisation(self) -> None:
        model = Model()
        x = model.node("Conv", model.input(*SHAPE), model.weights(4, 3, 3, 3), scale=None)
        coarse = model.qdq(x, 0.5)
        y = model.node("Relu", x, scale=None)
        q = quantised(model, y, 0.02, -100)
        fine = dequantised(model, q, 0.02, -100)
        raw = model.raw(coarse, fine)
        assert kinds(graph_of(raw)).count("Conv2D") == 2
        assert worst_steps(raw) <= 1

    def test_one_quantisation_is_one_computation(self) -> None:
        model = Model()
        x = model.node("Conv", model.input(*SHAPE), model.weights(4, 3, 3, 3), scale=None)
        raw = model.raw(model.qdq(x), model.node("MaxPool", x, kernel_shape=[2, 2]))
        assert kinds(graph_of(raw)).count("Conv2D") == 1
        assert worst_steps(raw) <= 1

    def test_parts_may_be_rounded_differently(self) -> None:
        model = Model()
        x = model.node("Conv", model.input(*SHAPE), model.weights(4, 3, 3, 3), scale=None)
        first = model.node("Split", x, integers(model, 1, 3), axis=1, count=2, scale=None)
        second = first[:-1] + "1"
        assert worst_steps(model.raw(model.qdq(first, 0.5), model.qdq(second, 0.03))) <= 1

    def test_an_input_may_be_quantised_twice(self) -> None:
        model = Model(quantised=False)
        x = model.input(*SHAPE)
        parts = [dequantised(model, quantised(model, x, s, 3), s, 3) for s in (0.05, 0.4)]
        raw = model.raw(*parts)
        graph = graph_of(raw)
        assert graph.inputs[0].type.dtype is DType.FLOAT32
        assert kinds(graph) == ["QuantizeReal", "QuantizeReal"]
        assert worst_steps(raw) <= 1

    @pytest.mark.parametrize("operator", ["Sqrt", "Exp"])
    def test_another_operator_reads_it_as_real_numbers(self, operator: str) -> None:
        model = Model()
        x = model.node("Conv", model.input(*SHAPE), model.weights(4, 3, 3, 3), scale=None)
        y = model.node(operator, model.node("Abs", x, scale=None))
        raw = model.raw(model.qdq(x, 0.3), y)
        assert "PlainConv2D" in kinds(graph_of(raw))
        assert worst_steps(raw) <= 1

    def test_a_function_with_a_known_range_may_be_read_unrounded(self) -> None:
        """HardSwish in parts, whose result is an output of the model."""
        model = Model()
        x = model.input(*SHAPE)
        raw = model.raw(model.node("Mul", x, model.node("HardSigmoid", x, scale=None), scale=None))
        assert worst_steps(raw) <= 1

    def test_what_is_selected_from_exact_numbers_is_exact(self) -> None:
        model = Model()
        x = model.node("MaxPool", model.input(*SHAPE), kernel_shape=[2, 2], scale=None)
        raw = model.raw(model.qdq(x, 0.3), model.node("Exp", x))
        assert worst_steps(raw) <= 1


def test_float_weights_may_be_quantised_in_the_model() -> None:
    """As torch exports quantisation-aware training: per channel, without rounding them first."""
    model = Model()
    x = model.input(*SHAPE)
    weights = model.reals(4, 3, 3, 3)
    scales = model.constant((0.01 * (1 + np.arange(4))).astype(np.float32))
    zeros = model.constant(np.zeros(4, np.int8))
    q = model.node("QuantizeLinear", weights, scales, zeros, axis=0, scale=None)
    d = model.node("DequantizeLinear", q, scales, zeros, axis=0, scale=None)
    raw = model.raw(model.node("Conv", x, d, pads=[1, 1, 1, 1], scale=0.2))
    assert kinds(graph_of(raw)) == ["Transpose", "Conv2D", "Transpose"]
    assert worst_steps(raw) <= 1


def test_constants_are_folded_in_their_own_domain() -> None:
    """Clamped integer weights (Brevitas), and a clamped, quantised operand."""
    model = Model()
    rng = np.random.default_rng(0)
    w = model.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    bounds = [number(model, b, "int8") for b in (-7, 7)]
    clamped = dequantised(model, model.node("Clip", w, *bounds, scale=None), 0.05, 0)
    x = model.node("Conv", model.input(*SHAPE), clamped)
    operand = model.node(
        "Clip", model.reals(4, 1, 1), number(model, 0), number(model, 1), scale=None
    )
    raw = model.raw(model.node("Add", x, model.qdq(operand, 0.01)))
    assert worst_steps(raw) <= 1


def test_a_broadcast_of_ranks_may_be_read_twice() -> None:
    model = Model()
    a, b = model.input(3), model.input(2, 3, name="y", scale=0.03)
    raw = model.raw(model.node("Add", a, b), model.node("Mul", b, a))
    assert worst_steps(raw) <= 1


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 2, 1), (1, 0, 3, 2)])
@pytest.mark.parametrize("size", [4, 5])
def test_a_tensor_and_its_transpose_differ(order: tuple[int, ...], size: int) -> None:
    model = Model()
    x = model.node(
        "MaxPool", model.input(1, 1, 2 * size, 2 * size), kernel_shape=[2, 2], strides=[2, 2]
    )
    y = model.node("Transpose", x, perm=list(order), scale=None)
    flat = [model.node("Flatten", v, scale=None) for v in (x, y)]
    raw = model.raw(model.node("Sub", *flat)) if order[0] == 0 else model.raw(x, y)
    assert worst_steps(raw) <= 1


def test_a_matrix_times_its_transpose() -> None:
    model = Model()
    x = model.node("MaxPool", model.input(1, 1, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    y = model.node("Transpose", x, perm=[0, 1, 3, 2], scale=None)
    assert worst_steps(model.raw(model.node("MatMul", x, y, scale=0.5))) <= 1


@pytest.mark.parametrize("operator", ["Clip", "Concat"])
def test_what_selects_of_a_function_of_elements_is_not_rounded(operator: str) -> None:
    """A Sigmoid that is an output of the model may be stored as int8, as its range is known."""
    model = Model(quantised=False)
    model.inputs.append(helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 50]))
    made = model.node("Sigmoid", dequantised(model, "x", 2.02, 128, "uint8"))
    if operator == "Clip":
        found = model.node("Clip", made, number(model, -1.5), number(model, 1.5))
    else:
        found = model.node("Concat", model.node("Mul", made, made), made, axis=1)
    graph = graph_of(model.raw(found))
    assert graph.producers()[made].output.type.dtype is DType.FLOAT32
    assert worst_steps(model.raw(found)) <= 1


def test_an_unread_branch_needs_no_scale() -> None:
    model = Model()
    x = model.input(*SHAPE)
    model.node("Sqrt", x, scale=None)
    assert kinds(graph_of(model.raw(model.node("Relu", x)))) == ["Relu"]


def test_two_models_of_onnx_agree_that_uint8_is_another_type() -> None:
    """A Concat of int8 and uint8 is no ONNX; the importer does not take one for the other."""
    model = Model()
    x = model.input(*SHAPE)
    parts = [quantised(model, x, 0.05, 0, "int8"), quantised(model, x, 0.05, 0, "uint8")]
    found = model.node("Concat", *parts, axis=1, scale=None)
    raw = model.raw(dequantised(model, found, 0.05, 0))
    assert onnx.ModelProto.FromString(raw)
    with pytest.raises(UnsupportedError, match="of integers is not supported"):
        graph_of(raw)


class TestChains:
    """Element-wise operators in a row, without quantisations between, are a table."""

    def one_table(self, model: Model, name: str, scale: float = 0.05) -> None:
        raw = model.raw(model.qdq(name, scale))
        assert kinds(graph_of(raw)) == ["ElementTable"]
        assert worst_steps(raw) == 0

    def test_a_gate(self) -> None:
        model = Model()
        x = model.input(*SHAPE)
        gate = model.node("Sigmoid", x, scale=None)
        self.one_table(model, model.node("Mul", x, gate, scale=None))

    def test_a_gate_of_sums(self) -> None:
        model = Model()
        x = model.input(*SHAPE)
        total = model.node("Add", x, number(model, 3), scale=None)
        clipped = model.node("Clip", total, number(model, 0), number(model, 6), scale=None)
        product = model.node("Mul", x, clipped, scale=None)
        self.one_table(model, model.node("Div", product, number(model, 6), scale=None))

    def test_a_function_of_several_terms(self) -> None:
        model = Model()
        x = model.input(*SHAPE)
        scaled = model.node("Div", x, number(model, 1.41421356), scale=None)
        erf = model.node("Erf", scaled, scale=None)
        total = model.node("Add", erf, number(model, 1), scale=None)
        product = model.node("Mul", x, total, scale=None)
        self.one_table(model, model.node("Mul", product, number(model, 0.5), scale=None))

    @pytest.mark.parametrize("operator", ["Sin", "Sign", "Round", "Atan", "Tan", "Sinh", "Shrink"])
    def test_operators_without_a_file(self, operator: str) -> None:
        model = Model()
        self.one_table(model, model.node(operator, model.input(*SHAPE), scale=None))

    def test_steps_of_last_bits_are_refused(self) -> None:
        """Whether Tanh of a large number is 1, or the float before, differs among runtimes."""
        model = Model()
        tanh = model.node("Tanh", model.input(*SHAPE, scale=0.5), scale=None)
        floor = model.node("Floor", tanh, scale=None)
        raw = model.raw(model.qdq(floor, 0.01))
        with pytest.raises(UnsupportedError, match="last bits") as caught:
            graph_of(raw)
        assert "quantise the input" in str(caught.value)

    def test_steps_of_exact_numbers_are_a_table(self) -> None:
        model = Model()
        scaled = model.node("Mul", model.input(*SHAPE), number(model, 7.3), scale=None)
        self.one_table(model, model.node("Floor", scaled, scale=None), scale=0.3)

    def test_what_is_quantised_for_another_reader_is_not_rounded(self) -> None:
        model = Model()
        x = model.node("Exp", model.input(*SHAPE), scale=None)
        y = model.node("Mul", x, x, scale=None)
        raw = model.raw(model.qdq(x, 0.5), model.qdq(y, 0.11))
        assert worst_steps(raw) == 0

    def test_its_shape_is_known(self) -> None:
        model = Model()
        x = model.input(*SHAPE)
        gate = model.node("Sigmoid", x, scale=None)
        shape = model.node("Shape", gate, scale=None)
        y = model.node("Mul", x, gate)
        raw = model.raw(model.node("Reshape", y, shape))
        assert worst_steps(raw) <= 1

    def test_two_tensors_are_no_chain_but_real_numbers(self) -> None:
        model = Model()
        x, y = model.input(*SHAPE), model.input(*SHAPE, name="y")
        gate = model.node("Sigmoid", y, scale=None)
        assert worst_steps(model.raw(model.node("Mul", x, gate))) <= 1


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_wide_integers_are_inputs_and_outputs(kind: str) -> None:
    model = Model()
    model.output(model.node("Relu", model.input(1, 6)))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model.inputs.append(helper.make_tensor_value_info("i", code, [2, 3]))
    moved = model.node("Transpose", "i", perm=[1, 0], scale=None)
    model.outputs.append(helper.make_tensor_value_info(moved, code, None))
    graph = graph_of(model.proto().SerializeToString())
    assert [v.type.dtype for v in (graph.inputs[1], graph.outputs[1])] == [DType(kind)] * 2
    x = np.arange(6, dtype=kind).reshape(2, 3)
    found = run_graph(graph, {"x": np.zeros((1, 6), np.int8), "i": x})
    assert np.array_equal(found[graph.outputs[1].name], x.T)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_indices_of_the_largest_integers_are_those_of_the_elements(kind: str) -> None:
    model = Model(kind=kind)
    model.input(1, 3, 4, 5)
    found = model.node("ArgMax", "x_q", axis=1, scale=None)
    model.outputs.append(helper.make_tensor_value_info(found, TensorProto.INT64, None))
    assert worst_steps(model.proto().SerializeToString()) == 0


def test_an_infinite_scale_is_that_of_a_mask() -> None:
    model = Model(quantised=False)
    x = dequantised(model, quantised(model, model.input(*SHAPE), np.inf, 0), np.inf, 0)
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(x))
    assert "QuantizeLinear has an infinite scale" in caught.value.what
    assert "attention mask" in (caught.value.why or "")


def test_real_numbers_are_not_dequantised() -> None:
    model = Model(quantised=False)
    x = dequantised(model, quantised(model, model.input(*SHAPE), 0.5, 0), 0.5, 0)
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(dequantised(model, model.node("Cast", x), 0.5, 0)))
    assert "is between float32 and real numbers" in caught.value.what


def test_a_scale_is_a_real_number() -> None:
    model = Model(quantised=False)
    scale = model.constant(np.array(2, np.uint32))
    with pytest.raises(ModelError) as caught:
        graph_of(model.raw(model.node("QuantizeLinear", model.input(*SHAPE), scale)))
    assert "its scale is uint32" in caught.value.what


def test_constants_of_16_bits_are_real_numbers() -> None:
    """As onnxruntime's quantiser writes them for activations of 16 bits."""
    model = Model(quantised=False, opset=21)
    constant = model.constant(np.array([[-3000, 5, 32767]], np.int16))
    y = model.node("Mul", model.input(2, 3), dequantised(model, constant, 0.01, 7, "int16"))
    assert worst_steps(model.raw(y)) == 0


def test_assumed_weights_are_finite() -> None:
    """A signalling NaN, which some operations of NumPy warn of."""
    model = Model(quantised=False)
    weights = np.full((4, 3, 3, 3), 0x7F800001, np.uint32).view(np.float32)
    y = model.node("Conv", model.input(*SHAPE), model.constant(weights))
    with pytest.raises(ModelError, match="no finite number"):
        graph_of(model.raw(y), Reading(assume_int8=True))


def test_an_operator_without_a_form_for_integers_is_refused() -> None:
    """The message names the element type of the operands."""
    text = '<ir_version: 8, opset_import: ["": 13]> m (int32[2,3] x, int32[3,4] w) => '
    text += "(int32[2,4] y) { y = MatMul (x, w) }"
    with pytest.raises(UnsupportedError, match="MatMul of int32 is not supported"):
        graph_of(onnx.parser.parse_model(text).SerializeToString())
