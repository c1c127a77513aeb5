"""ONNX files: compressed, with external data or open dimensions, old, and unquantised."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_judge import judged_by_onnxruntime
from onnx_models import ASSUMED, drawn, graph_of, judged, kinds
from penstock import api
from penstock.codegen.names import c_prefix
from penstock.errors import ModelError, PenstockError, UnsupportedError
from penstock.frontends.onnx.file import decode
from penstock.frontends.open import parse
from penstock.frontends.other_formats import ONNX_BEGIN, looks_like_onnx
from penstock.frontends.reading import Reading
from penstock.ir.tensor import Array, DType
from penstock.ladder import run_machine
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model


def residual(model: Model) -> bytes:
    """Convolutions, a normalisation, activations, an addition, pooling and a classifier."""
    x = model.input(1, 3, 12, 10)
    x = model.node("Conv", x, model.weights(8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    spread = model.constant(np.linspace(0.5, 2, 8).astype(np.float32))
    parts = [model.reals(8, seed=s) for s in (1, 2, 3)]
    x = model.node("Relu", model.node("BatchNormalization", x, *parts, spread))
    y = model.node("Conv", x, model.weights(8, 1, 3, 3, seed=5), pads=[1, 1, 1, 1], group=8)
    y = model.node("Mul", y, model.node("Sigmoid", y))
    x = model.node("Concat", model.node("Add", x, y), y, axis=1)
    x = model.node("Flatten", model.node("GlobalAveragePool", x))
    return model.raw(model.node("Softmax", model.node("Gemm", x, model.weights(16, 5, axis=1))))


def test_a_model_of_real_numbers_is_compiled_as_such() -> None:
    graph = graph_of(residual(Model(quantised=False)))
    assert {value.type.dtype for value in graph.variables()} == {DType.FLOAT32}


def test_a_model_of_real_numbers_runs_bit_for_bit_as_if_it_were_quantised(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(residual(Model(quantised=False)))
    done = api.compile(path, assume_int8=True).compilation
    sets = api.drawn_sets(done, 2)
    expected = [run_graph(done.model, inputs) for inputs in sets]
    found, _ = run_machine(done, sets)
    for mine, theirs in zip(found, expected, strict=True):
        for value in done.graph.variables():
            if value.name in theirs:
                assert np.array_equal(mine[value.name], theirs[value.name]), value.name
    assert len(np.unique(expected[0][done.model.outputs[0].name])) > 1


def test_a_norm_and_a_clamp_leave_no_nodes_behind() -> None:
    graph = graph_of(residual(Model(quantised=False)), ASSUMED)
    assert kinds(graph).count("DepthwiseConv2D") == 1
    assert kinds(graph).count("Conv2D") == 1


def test_weights_that_are_all_zero_are_drawn_the_same_each_time() -> None:
    model = Model(quantised=False)
    zeros = model.constant(np.zeros((4, 3, 3, 3), np.float32), "topology")
    raw = model.raw(model.node("Conv", model.input(1, 3, 8, 8), zeros))
    first, second = (graph_of(raw, ASSUMED) for _ in range(2))
    assert first == second
    (weights,) = (v for v in first.constants() if v.name == "topology")
    assert len(np.unique(weights.data.array(weights.type))) > 50  # type: ignore[union-attr]


def test_a_model_may_be_packed_by_gzip() -> None:
    raw = residual(Model())
    assert parse(gzip.compress(raw), "m.onnx.gz") == parse(raw, "m.onnx.gz")
    assert c_prefix("net.onnx.gz") == c_prefix("net.tflite.gz") == c_prefix("net.onnx") == "net"


def test_an_open_extent_is_given_by_its_name() -> None:
    model = Model()
    raw = model.raw(model.node("Relu", model.input(2, "N")))
    with pytest.raises(UnsupportedError, match='"N" is not fixed'):
        graph_of(raw)
    assert graph_of(raw, Reading(dimensions=(("N", 3),))).inputs[0].type.shape == (2, 3)


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [
        ((("N", 4), ("N", 1)), "N"),
        (((2, 4), ("N", 4)), "N"),
        ((("N", 4), ("M", 4)), None),
        ((("unk__7", 4), ("unk__8", 4)), "axis 0"),
        ((("N", "N"),), None),
        (((4, "N"),), None),
    ],
)
def test_the_first_extent_of_every_open_input_is_the_batch(
    shapes: tuple[tuple[int | str, ...], ...], batch: str | None
) -> None:
    model = Model(quantised=False)
    borders = [model.input(*shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    raw = model.raw(model.node("Sum", *borders))
    assert decode(raw, "m.onnx", None).batch_dimension() == batch


def test_an_open_batch_is_one_sample_unless_it_is_given() -> None:
    model = Model()
    raw = model.raw(model.node("Relu", model.input("N", 4)))
    assert parse(raw, "m.onnx").inputs[0].type.shape == (1, 4)
    assert parse(raw, "m.onnx", Reading(dimensions=(("N", 3),))).inputs[0].type.shape == (3, 4)


def test_an_error_says_that_an_open_first_extent_was_taken_as_one() -> None:
    model = Model(quantised=False)
    frames = model.node("Transpose", model.input("frames", 8), perm=[1, 0])
    row = model.node("Unsqueeze", frames, model.constant(np.array([0, 1])))
    raw = model.raw(model.node("MaxPool", row, kernel_shape=[1, 3]))
    with pytest.raises(ModelError, match="does not fit") as caught:
        parse(raw, "m.onnx")
    assert 'the extent "frames" open, which is taken as 1' in caught.value.why
    assert caught.value.help.endswith('set it: --dimension "frames=EXTENT"')
    given = Reading(dimensions=(("frames", 9),))
    assert parse(raw, "m.onnx", given).outputs[0].type.shape == (1, 1, 8, 7)


def test_the_interface_of_the_file_is_kept() -> None:
    model = Model()
    proto = onnx.load_from_string(model.raw(model.node("Relu", model.input(1, 4))))
    graph = graph_of(proto.SerializeToString(), Reading(same_interface=True))
    assert {v.type.dtype for v in (*graph.inputs, *graph.outputs)} == {DType.FLOAT32}
    x = np.array([[-1.0, 0.0, 0.26, 3.0]], np.float32)
    found = run_graph(graph, {graph.inputs[0].name: x})[graph.outputs[0].name]
    np.testing.assert_allclose(found, [[0, 0, 0.26, 3]], atol=0.06)
    states = ((proto.graph.input[0].name, proto.graph.output[0].name),)
    graph_of(proto.SerializeToString(), Reading(states=states, same_interface=True))
    first, *nodes, last = proto.graph.node
    assert (first.op_type, last.op_type) == ("QuantizeLinear", "DequantizeLinear")
    x, y = proto.graph.input[0], proto.graph.output[0]
    x.name, y.name = first.output[0], last.input[0]
    x.type.tensor_type.elem_type = y.type.tensor_type.elem_type = onnx.TensorProto.INT8
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert graph_of(proto.SerializeToString(), Reading(same_interface=True)).inputs


def test_inputs_and_outputs_are_int8_under_the_names_of_the_model() -> None:
    graph = graph_of(residual(Model(kind="uint8", zero=-128)))
    assert [(v.name, v.type.dtype, v.type.shape) for v in graph.inputs] == [
        ("x", DType.INT8, (1, 3, 12, 10))
    ]
    assert graph.inputs[0].type.zero_point == -128  # 0 of uint8
    assert graph.outputs[0].type.shape == (1, 5)


def test_a_residual_network_is_within_a_step_operator_by_operator(tmp_path: Path) -> None:
    assert judged(residual(Model(opset=15)), tmp_path).comparison.mismatches == 0


def test_external_data_is_read_from_beside_the_model_and_nowhere_else(tmp_path: Path) -> None:
    model = Model()
    raw = model.raw(model.node("Conv", model.input(1, 2, 4, 4), model.weights(3, 2, 2, 2)))
    proto = onnx.load_from_string(raw)
    onnx.save(
        proto, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data",
        size_threshold=0,
    )  # fmt: skip
    written = (tmp_path / "m.onnx").read_bytes()
    assert parse(written, "m.onnx", folder=tmp_path) == parse(raw, "m.onnx")
    with pytest.raises(ModelError, match="is missing"):
        parse(written.replace(b"m.data", b"../m.d"), "m.onnx", folder=tmp_path)
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match="is missing"):
        parse(written, "m.onnx", folder=tmp_path)


def test_shapes_that_the_model_computes_become_numbers() -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 3, 6, 4), model.weights(2, 3, 1, 1))
    shape = model.node("Shape", x, scale=None)
    first = model.node("Gather", shape, model.constant(np.int64(0)), scale=None, axis=0)
    batch = model.node("Unsqueeze", first, model.constant(np.array([0])), scale=None)
    wanted = model.node("Concat", batch, model.constant(np.array([-1])), scale=None, axis=0)
    graph = graph_of(model.raw(model.node("Reshape", x, wanted, scale=None)))
    assert graph.outputs[0].type.shape == (1, 48)


@pytest.mark.parametrize("quantised", [False, True])
def test_an_output_that_nothing_writes_is_named(quantised: bool) -> None:
    model = Model(quantised=quantised)
    proto = onnx.load_from_string(model.raw(model.node("Relu", model.input(1, 4))))
    proto.graph.output[0].name = "lost"
    with pytest.raises(ModelError, match='"lost" is an output, but nothing writes it'):
        parse(proto.SerializeToString(), "m.onnx", Reading(assume_int8=not quantised))


@pytest.mark.parametrize("by_a_node", [False, True])
def test_the_mask_of_a_dropout_is_constant(by_a_node: bool) -> None:
    model = Model()
    proto = onnx.load_from_string(model.raw(model.node("Dropout", model.input(1, 4))))
    (dropout,) = (node for node in proto.graph.node if node.op_type == "Dropout")
    dropout.output.append("mask")
    if by_a_node:
        proto.graph.node.append(onnx.helper.make_node("Not", ["mask"], ["kept"]))
    name = "kept" if by_a_node else "mask"
    border = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, [1, 4])
    proto.graph.output.append(border)
    _, mask = graph_of(proto.SerializeToString()).outputs
    assert mask.data is not None
    assert (mask.data.array(mask.type) != by_a_node).all()


def test_every_operator_that_is_not_supported_is_named_at_once() -> None:
    model = Model()
    x = model.node("Unique", model.input(1, 4))
    raw = model.raw(model.node("Det", x))
    with pytest.raises(UnsupportedError, match="Unique") as caught:
        graph_of(raw)
    assert "Det" in caught.value.why


def test_a_refused_node_is_named_as_in_the_model() -> None:
    model = Model()
    model.output(model.node("Unique", model.input(1, 4)))
    proto = model.proto()
    (node,) = (node for node in proto.graph.node if node.op_type == "Unique")
    for name, shown in (("attention/scores", "attention/scores"), ("", node.output[0])):
        node.name = name
        with pytest.raises(UnsupportedError) as caught:
            graph_of(proto.SerializeToString())
        assert caught.value.where.endswith(f'Unique "{shown}"')


def test_two_scales_between_two_nodes_become_a_requantisation(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Relu", model.input(1, 5))
    again = model.qdq(x, scale=0.11, zero=9)
    raw = model.raw(model.node("Sqrt", again))
    assert kinds(graph_of(raw)).count("Quantize") == 1
    assert judged(raw, tmp_path).comparison.mismatches == 0


def test_a_clamp_after_a_layer_is_merged_into_it(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 1, 6, 5), model.weights(3, 1, 3, 3), scale=None)
    raw = model.raw(model.node("Relu", x))
    (tmp_path / "n.onnx").write_bytes(raw)
    done = api.compile(tmp_path / "n.onnx").compilation
    assert "Relu" not in kinds(done.graph)
    assert judged(raw, tmp_path).comparison.mismatches == 0


def test_the_same_file_gives_the_same_graph() -> None:
    raw = residual(Model())
    assert graph_of(raw) == graph_of(raw)
    assert drawn(graph_of(raw)).keys() == {"x"}


def test_reports_say_that_numbers_are_made_up(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(residual(Model(quantised=False)))
    done = api.compile(path, assume_int8=True)
    files = dict(done.bundle().files)
    assert done.report.as_json()["numbers_assumed"] is True
    assert b"outputs are meaningless" in files["report.html"]
    assert b"answers mean nothing" in files[f"{done.compilation.prefix}.h"]


@pytest.mark.parametrize(("steps", "note"), [(0, "0 of 20"), (2, "20 of 20")])
def test_real_goldens_are_measured_and_no_promise(
    tmp_path: Path, host_compilers: Sequence[str], steps: int, note: str
) -> None:
    model = Model(zero=0)
    path, archive = tmp_path / "m.onnx", tmp_path / "m.npz"
    path.write_bytes(model.raw(model.node("Relu", model.input(4, 5))))
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    answer = np.maximum(np.rint(x / np.float32(0.05)), 0) + steps
    np.savez(archive, in0_set0=x, out0_set0=(answer * 0.05).astype(np.float32))
    done = api.verify(path, "host", archive)
    (rung,) = (r for r in done.rungs if r.step == "end to end")
    assert done.passed
    assert rung.comparison.elements == 20
    assert rung.note == f"measured: {note} elements differ, by at most {steps} steps"


def test_a_tflite_file_that_begins_like_onnx_is_told_apart() -> None:
    assert looks_like_onnx(ONNX_BEGIN + b"\0\0\0", "m.onnx")
    assert not looks_like_onnx(ONNX_BEGIN + b"\0\0\0TFL3", "m.tflite")


def test_an_attribute_of_another_kind_is_refused_wherever_it_is_read() -> None:
    index = onnx.numpy_helper.from_array(np.int64(1), "index")
    gather = onnx.helper.make_node("Gather", ["x", "index"], ["y"], axis="0")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [2, 4]), ("y", [4]))
    )
    graph = onnx.helper.make_graph([gather], "net", [x], [y], [index])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    with pytest.raises(ModelError, match=r"attribute axis is '0', must be an integer"):
        parse(model.SerializeToString(), "net.onnx")


def test_an_attribute_that_an_operator_does_not_have_may_be_empty() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[2,3] x) => (float[2,3] y)
        { a = Relu <alpha: ints = []> (x)
          y = MeanVarianceNormalization <axes = [1]> (a) }"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert kinds(graph_of(raw))[0] == "PlainRelu"


def test_real_numbers_cannot_be_dequantised() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (int8[2,3] x) => (float[2,3] y) <float s = {0.5}, int8 z = {1}>
        { a = DequantizeLinear (x, s, z)
          b = DequantizeLinear (a, s)
          y = Relu (b) }"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(UnsupportedError, match="is between float32 and real numbers"):
        graph_of(raw)


def test_nodes_may_stand_in_any_order() -> None:
    model = Model(quantised=False)
    x = model.node("Relu", model.input(1, 3))
    model.output(model.node("Add", model.node("Neg", x), x))
    model.nodes.reverse()
    assert judged_by_onnxruntime(model.raw()).steps == 0


def test_a_negative_extent_is_open() -> None:
    model = Model(quantised=False)
    model.output(model.node("Relu", model.input(1, 3)))
    file = onnx.load_from_string(model.raw())
    file.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert graph_of(file.SerializeToString()).outputs[0].type.shape == (1, 3)


def test_a_model_without_operators_of_onnx_needs_no_opset_of_onnx() -> None:
    model = Model(quantised=False)
    model.output(model.node("QuickGelu", model.input(1, 3), domain="com.microsoft"))
    file = onnx.load_from_string(model.raw())
    file.opset_import[0].domain = "com.microsoft"
    file.opset_import[0].version = 1
    del file.opset_import[1:]
    assert judged_by_onnxruntime(file.SerializeToString()).steps < 1


def test_a_quantised_type_that_is_no_integer_is_refused() -> None:
    """The zero point states the type; damaged files have one of float32."""
    make, real, shape = onnx.helper, onnx.TensorProto.FLOAT, [1, 4, 3, 3]
    graph = make.make_graph(
        [make.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])],
        "g",
        [make.make_tensor_value_info("x", real, shape)],
        [make.make_tensor_value_info("y", real, shape)],
        [
            make.make_tensor("scale", real, [], [0.5]),
            make.make_tensor("zero", real, [], [0.0]),
        ],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 19)])
    with pytest.raises(PenstockError, match="QuantizeLinear"):
        graph_of(model.SerializeToString())


def _file(nodes: list[onnx.NodeProto], shape: Sequence[int], **constants: Array) -> bytes:
    """A model with an input "x" of float32 and an output "y"."""
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset]).SerializeToString()


def test_an_input_without_a_default_must_be_there() -> None:
    node = onnx.helper.make_node
    dead = node("Relu", ["x"], [""])
    with pytest.raises(ModelError, match='input 1, "B", is absent'):
        graph_of(_file([dead, node("Add", ["x", ""], ["y"])], (1, 4)))
    with pytest.raises(ModelError, match='input 0, "inputs", is absent'):
        graph_of(_file([node("Concat", [], ["y"], axis=1)], (1, 4)))
    assert kinds(graph_of(_file([dead, node("Relu", ["x"], ["y"])], (1, 4)))) == ["PlainRelu"]


@pytest.mark.parametrize(
    ("name", "other", "attributes"),
    [
        ("MaxPool", None, {"kernel_shape": [9, 1]}),
        ("Pad", np.array([0, 0, -9, 0, 0, 0, 0, 0]), {}),
        ("Conv", np.ones((1, 1, 2, 1), np.float32), {"dilations": [9, 1]}),
    ],
)
def test_a_slice_of_what_a_window_shrank_to_less_than_nothing_is_refused(
    name: str, other: Array | None, attributes: dict[str, Any]
) -> None:
    """ONNX's inference of the Slice's shape would end the process."""
    arrays = {"begin": np.array([0, 0, 0]), "end": np.array([1, 1, 1])}
    if other is not None:
        arrays["other"] = other
    inputs = ["x"] if other is None else ["x", "other"]
    nodes = [
        onnx.helper.make_node(name, inputs, ["z"], **attributes),
        onnx.helper.make_node("Slice", ["z", "begin", "end"], ["s"]),
        onnx.helper.make_node("Shape", ["s"], ["shape"]),
        onnx.helper.make_node("Reshape", ["s", "shape"], ["y"]),
    ]
    with pytest.raises(PenstockError):
        graph_of(_file(nodes, (1, 1, 6, 6), **arrays))


def test_a_scale_for_each_channel_needs_channels() -> None:
    scales, zeros = np.ones(3, np.float32), np.zeros(3, np.uint8)
    first = onnx.helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)
    node = onnx.helper.make_node("QuantizeLinear", ["s", "scales", "zeros"], ["q"], axis=0)
    back = onnx.helper.make_node("DequantizeLinear", ["q", "scales", "zeros"], ["y"], axis=0)
    with pytest.raises(ModelError, match="has no axis 0"):
        graph_of(_file([first, node, back], (1, 3), scales=scales, zeros=zeros))


def test_an_attribute_may_have_any_name() -> None:
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["shape"], extra=1),
        onnx.helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    assert graph_of(_file(nodes, (1, 4)).replace(b"extra", b"ex\x80ra")).inputs


def test_weights_that_are_no_8_bit_elements_are_refused() -> None:
    """As many copies of the input would be needed as 127 is contained in a weight."""
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    raw = _file([product], (1, 2), w=np.full((2, 3), 2**31, np.uint32))
    with pytest.raises(ModelError, match="reach 2147483648, must stay below 256"):
        graph_of(raw, ASSUMED)


def test_a_model_of_float64_is_computed_in_float32_which_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.onnx")
    model = onnx.ModelProto.FromString(residual(Model(quantised=False)))
    graph_of(model.SerializeToString())
    assert not caplog.messages
    for border in (*model.graph.input, *model.graph.output):
        border.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            elements = np.asarray(onnx.numpy_helper.to_array(tensor), np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(elements, tensor.name))
    graph = graph_of(model.SerializeToString())
    assert {value.type.dtype for value in graph.variables()} == {DType.FLOAT32}
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "float64 is computed in float32"
    ]
