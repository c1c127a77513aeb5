"""What onnxruntime is fed, what it must equal, and what is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_models import drawn
from penstock import api
from penstock.errors import ToolError
from penstock.frontends.open import parse
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock.simulators.onnx_reference import OnnxReference
from tools.onnx_writer import Model

onnxruntime = pytest.importorskip("onnxruntime")

Results = list[dict[str, Array]]


def loaded(raw: bytes, folder: Path) -> tuple[OnnxReference, Results]:
    """A model in onnxruntime, and penstock's results."""
    path = folder / "m.onnx"
    path.write_bytes(raw)
    graph = parse(raw, "m.onnx")
    results: Results = [run_graph(graph, drawn(graph, number)) for number in (0, 1)]
    return api.onnx_reference(api.request(path)), results


def convolutions() -> bytes:
    model = Model()
    x = model.node("Relu", model.node("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 3, 3)))
    return model.raw(model.node("Conv", x, model.weights(4, 4, 3, 3)))


def test_recorded_outputs_may_be_off_by_steps_but_not_be_others(tmp_path: Path) -> None:
    reference, results = loaded(convolutions(), tmp_path)
    graph = parse(convolutions(), "m.onnx")
    (x,), (y,) = graph.inputs, graph.outputs
    reals = [
        {x.name: ((r[x.name].astype(np.float32) - x.type.zero_point) * x.type.scale).astype("f4")}
        for r in results
    ]
    session = onnxruntime.InferenceSession(convolutions())
    outputs = [session.run(None, given)[0] for given in reals]
    recorded = [{y.name: output} for output in outputs]
    ends = reference.judge(results, reals, recorded).end_to_end
    assert (ends.outputs, ends.unexplained) == (2, None)
    index = (0, 2, 1, 3)
    outputs[1][index] = (50 - y.type.zero_point) * y.type.scale
    ends = reference.judge(results, reals, recorded).end_to_end
    assert ends.unexplained is not None
    assert ends.unexplained.set_number == 1
    assert (ends.unexplained.index, ends.unexplained.found) == (index, 50)
    assert ends.steps > 1


def test_numbers_that_are_not_rounded_must_be_equal(tmp_path: Path) -> None:
    """Integers are moved, and dequantised numbers are on the steps of their quantisation."""
    model = Model()
    x = model.node("Transpose", model.input(1, 3, 4, 5), perm=[0, 2, 1, 3], scale=None)
    bounds = (model.constant(np.array([number])) for number in (1, 3, 1))
    raw = model.raw(model.node("Slice", x, *bounds))
    reference, results = loaded(raw, tmp_path)
    assert reference.judge(results).failure is None
    results[0]["slice3_0"].flat[4] += 1
    failure = reference.judge(results).failure
    assert failure is not None
    assert (failure.tensor, failure.steps) == ("slice3_0", 1)


def test_integers_at_the_borders_may_be_off_by_a_step(tmp_path: Path) -> None:
    proto = onnx.load_from_string(convolutions())
    first, *nodes, last = proto.graph.node
    ends = proto.graph.input[0], proto.graph.output[0]
    for end, name in zip(ends, (first.output[0], last.input[0]), strict=True):
        end.name, end.type.tensor_type.elem_type = name, onnx.TensorProto.INT8
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    reference, results = loaded(proto.SerializeToString(), tmp_path)
    judged = reference.judge(results)
    assert judged.failure is None
    (y_name,) = (value.name for value in parse(proto.SerializeToString(), "m.onnx").outputs)
    results[0][y_name] = results[0][y_name] + np.where(results[0][y_name] < 0, 2, -2).astype(
        np.int8
    )
    failure = reference.judge(results).failure
    assert failure is not None
    assert failure.steps == 2


def test_what_is_no_number_counts_as_the_lowest_element(tmp_path: Path) -> None:
    """The root of a negative number."""
    model = Model()
    raw = model.raw(model.node("Sqrt", model.input(4, 16)))
    reference, results = loaded(raw, tmp_path)
    (x,), (y,) = parse(raw, "m.onnx").inputs, parse(raw, "m.onnx").outputs
    negative = results[0][x.name] < x.type.zero_point
    assert negative.any()
    assert np.all(results[0][y.name][negative] == y.type.dtype.lower)
    assert reference.judge(results).failure is None
    results[0][y.name] = np.where(negative, 99, results[0][y.name]).astype(np.int8)
    failure = reference.judge(results).failure
    assert failure is not None
    assert failure.tensor == "sqrt2_0"


def test_a_name_that_is_not_printable_is_judged(tmp_path: Path) -> None:
    proto = onnx.load_from_string(convolutions())
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = ["a\nb" if name == "relu6_0" else name for name in names]
    reference, results = loaded(proto.SerializeToString(), tmp_path)
    judged = reference.judge(results)
    assert judged.failure is None
    assert any(tensor.tensor.startswith("a") for tensor in judged.tensors)


def test_an_operator_that_onnxruntime_lacks_is_an_error(tmp_path: Path) -> None:
    model = Model()
    proto = onnx.load_from_string(model.raw(model.node("Relu", model.input(1, 4))))
    proto.opset_import.append(helper.make_opsetid("nowhere", 999))
    proto.graph.node[2].attribute.append(helper.make_attribute("unknown", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ToolError, match="onnxruntime cannot run the model"):
        api.onnx_reference(api.request(path))


def test_what_is_no_number_in_the_reference_is_compared(tmp_path: Path) -> None:
    model = Model(zero=0)
    raw = model.raw(model.node("Sqrt", model.input(1, 4, 8)))
    reference, results = loaded(raw, tmp_path)
    assert reference.judge(results).failure is None
    for tensors in results:
        roots = next(v for k, v in tensors.items() if k.startswith("sqrt"))
        roots[roots == -128] = 3
    assert reference.judge(results).failure is not None


def test_an_infinite_number_does_not_excuse_others(tmp_path: Path) -> None:
    model = Model(zero=0)
    x = model.input(1, 32, 64)
    one = model.constant(np.array(1, np.float32))
    y = model.node("Div", one, x, scale=None)
    raw = model.raw(y)
    reference, results = loaded(raw, tmp_path)
    assert reference.judge(results).failure is None
    for tensors in results:
        assert (np.abs(tensors[y]) > 1e38).any()
        tensors[y][0, 0] = 77.0
    assert reference.judge(results).failure is not None


def test_equal_numbers_are_normalised_in_double_precision(tmp_path: Path) -> None:
    """onnxruntime multiplies the error of their mean by 316, the root of 1 / epsilon."""
    model = Model(quantised=False)
    x = model.input(1, 2, 2, 3)
    equal = model.node("Add", model.node("Sub", x, x), model.constant(np.float32(2.9)))
    parts = [model.constant(np.array(part, np.float32)) for part in ((8, 8), (0, 1))]
    y = model.node("InstanceNormalization", equal, *parts)
    raw = model.raw(y)
    (own,) = onnxruntime.InferenceSession(raw).run(None, {x: np.ones((1, 2, 2, 3), np.float32)})
    assert np.abs(own - np.array([0, 1]).reshape(1, 2, 1, 1)).max() > 2**-16
    reference, results = loaded(raw, tmp_path)
    assert reference.judge(results).failure is None
    for one in results:
        one[next(reversed(one))] = one[next(reversed(one))] + np.float32(1e-4)
    assert reference.judge(results).failure is not None


def test_real_numbers_of_16_bits_are_judged_in_single_precision(tmp_path: Path) -> None:
    def half(elements: Array) -> Array:
        return elements.astype(np.float16)

    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, [1, 3, 6, 6])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, None)
    weights = np.random.default_rng(2).normal(size=(4, 3, 3, 3))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Cast", ["b"], ["c"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    constants = [numpy_helper.from_array(half(weights), "w")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    reference, results = loaded(model.SerializeToString(), tmp_path)
    assert reference.judge(results).failure is None
    results[0]["a"] = half(results[0]["a"]).astype(np.float32)
    assert reference.judge(results).failure is not None
