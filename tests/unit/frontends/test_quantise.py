"""`--quantise`: float ONNX models, quantised by onnxruntime and compared with its own run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from float_onnx import float_model
from penstock import api
from penstock.errors import ModelError, ToolError
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.importer import import_onnx
from penstock.frontends.onnx.post_training import quantised
from penstock.frontends.reading import Reading
from penstock.ir.tensor import Array
from penstock.pipeline.graphs import read
from penstock.reports.report import InterfaceTensor
from penstock.simulators.graph import run_graph
from penstock.zoo.registry import open_zoo
from tools.onnx_writer import Model

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None,
    reason="the package of penstock[quantise] is not installed",
)

NETWORK = "zoo:resnet8"
OPERATORS = {
    NETWORK: 17,  # 9 convolutions, 3 additions, pool, 2 reshapes, dense layer, softmax
    # 52 convolutions, 10 additions, pool, reshape, dense layer, softmax
    "zoo:mobilenet_v2:alpha=0.35,resolution=32,classes=10": 66,
}
SHAPE = (3, 32, 32)
SAMPLES = 8


def images(seed: int, count: int = SAMPLES) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *SHAPE)).astype(np.float32)


def float_network(name: str, folder: Path) -> Path:
    """A network of the zoo as a float model, beside the samples to quantise it with."""
    path = folder / "network.onnx"
    path.write_bytes(float_model(open_zoo(name)))
    np.savez(path.with_name("samples.npz"), image=images(1))
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return float_network(NETWORK, tmp_path_factory.mktemp("float"))


def quantised_bytes(path: Path, samples: Path) -> bytes:
    reading = Reading(calibration=samples)
    raw = path.read_bytes()
    return quantised(raw, decode(raw, path.name, path.parent), reading, path.parent)[0]


def quantisers(model: Any) -> Iterator[tuple[Any, list[Any], list[str]]]:
    """Each QuantizeLinear of a computed tensor, the nodes from the dequantisers before it up to
    it, and the quantised tensors that these read."""
    producers = {name: node for node in model.graph.node for name in node.output}
    constants = {tensor.name for tensor in model.graph.initializer}
    for last in model.graph.node:
        if last.op_type != "QuantizeLinear" or last.input[0] not in producers:
            continue
        nodes, read, pending = [last], list[str](), [last.input[0]]
        while pending:
            node = producers[pending.pop()]
            if node in nodes:
                continue
            nodes.insert(0, node)
            if node.op_type != "DequantizeLinear":
                pending += [name for name in node.input if name and name in producers]
            elif node.input[0] not in constants:
                read.append(node.input[0])
        order = {id(node): k for k, node in enumerate(model.graph.node)}
        yield last, sorted(nodes, key=lambda node: order[id(node)]), list(dict.fromkeys(read))


def run_by_onnxruntime(model: Any, nodes: list[Any], inputs: Mapping[str, Array]) -> Array:
    """What onnxruntime computes with some nodes of a quantised model, on int8 tensors."""
    import onnxruntime

    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "part",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT8, array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.INT8, None)],
        [tensor for tensor in model.graph.initializer if tensor.name in used],
    )
    part = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    ).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # As the model states it.  On processors without VNNI, some fused kernels saturate at 16 bits.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(part, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, dict(inputs))
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_within_one_step_of_onnxruntime_s_own_run(
    name: str, tmp_path: Path
) -> None:
    network = float_network(name, tmp_path)
    raw = quantised_bytes(network, network.with_name("samples.npz"))
    model: Any = onnx.ModelProto.FromString(raw)
    understood = import_onnx(decode(raw, network.name, None), Reading())
    (x,) = understood.graph.inputs
    q = np.rint(images(2, 1) / x.type.scale) + x.type.zero_point
    tensors = run_graph(understood.graph, {x.name: np.clip(q, -128, 127).astype(np.int8)})

    def mine(name: str) -> Array:
        place, order = understood.places[name]
        return tensors[place].transpose([order.index(a) for a in range(len(order))])

    compared, sizes = 0, list[int]()
    for last, nodes, before in quantisers(model):
        theirs = run_by_onnxruntime(model, nodes, {name: mine(name) for name in before})
        off = np.abs(mine(last.output[0]).astype(int) - theirs)
        assert off.max() <= 1, last.output[0]
        sizes.append(len(np.unique(theirs)) if theirs.size >= 400 else 256)
        compared += 1
    assert compared == OPERATORS[name]
    assert np.median(sizes) > 100, "the scales fit the samples"


@pytest.mark.parametrize(
    ("target", "accelerators"), [("cortex-m4", ()), ("host", ("nvdla:config=small",))]
)
def test_a_float_network_compiles_and_runs_exactly_in_the_machine(
    network: Path, target: str, accelerators: tuple[str, ...]
) -> None:
    done = api.verify(
        network,
        target,
        accelerators=accelerators,
        quantise=network.with_name("samples.npz"),
        reference="onnx",
        last_rung="machine",
    )
    assert [(rung.step, rung.comparison.mismatches) for rung in done.rungs] == [
        ("operators", 0),
        ("end to end", 0),
        ("machine", 0),
    ]
    assert not done.report.numbers_assumed
    assert ", quantised with samples.npz (sha256 " in done.compiled.bundle()["network.h"].decode()


def test_scores_are_near_those_of_the_float_model(network: Path) -> None:
    """The quantised network recognises what the float network recognises."""
    import onnxruntime

    graph = read(str(network), Reading(calibration=network.with_name("samples.npz")))
    x, y = (InterfaceTensor.of(v.name, v.type) for v in (*graph.inputs, *graph.outputs))
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    for image in images(3, 4):
        (expected,) = session.run(None, {x.name: image[np.newaxis]})
        tensors = run_graph(graph, {x.name: x.quantize(image[np.newaxis])})
        assert np.abs(y.dequantize(tensors[y.name]) - expected).max() < 0.1


def test_two_readings_give_equal_bytes(network: Path) -> None:
    samples = network.with_name("samples.npz")
    assert quantised_bytes(network, samples) == quantised_bytes(network, samples)


def test_samples_may_have_a_batch_axis_and_other_floats(network: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "batches.npz", image=images(1)[:, np.newaxis].astype(np.float64))
    plain = quantised_bytes(network, network.with_name("samples.npz"))
    assert quantised_bytes(network, tmp_path / "batches.npz") == plain


def test_a_symbolic_dimension_is_fixed_before_quantisation(tmp_path: Path) -> None:
    model = Model(quantised=False)
    path = tmp_path / "any_batch.onnx"
    path.write_bytes(model.raw(model.node("Sigmoid", model.input("batch", 4))))
    np.savez(tmp_path / "c.npz", x=np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 2, 4))
    done = api.compile(path, "host", quantise=tmp_path / "c.npz", dimensions={"batch": 2})
    assert done.inputs[0].shape == (2, 4)


def test_the_message_of_onnxruntime_is_that_of_the_error(tmp_path: Path) -> None:
    model = Model(quantised=False)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.raw(model.node("NoSuchOperator", model.input(1, 4))))
    np.savez(tmp_path / "c.npz", x=np.zeros((1, 4), np.float32))
    with pytest.raises(ToolError, match="NoSuchOperator") as caught:
        api.compile(path, quantise=tmp_path / "c.npz")
    assert caught.value.code == "tool-046"


@pytest.mark.parametrize(
    ("arrays", "code", "what"),
    [
        ({}, "calibration-002", 'no array for input "image"'),
        ({"imag": images(1)}, "calibration-002", 'the model has no input "imag"'),
        ({"image": images(1)[0]}, "calibration-003", r"is float32\[3,32,32\], must be"),
        ({"image": images(1).transpose(0, 2, 3, 1)}, "calibration-003", "float32"),
        ({"image": (images(1) * 127).astype(np.int8)}, "calibration-003", "int8"),
        ({"image": np.float32(0)}, "calibration-003", r"float32\[\]"),
        ({"image": images(1, 0)}, "calibration-004", "no samples"),
        ({"image": np.full((1, *SHAPE), np.nan, np.float32)}, "calibration-004", "not finite"),
    ],
)
def test_samples_that_do_not_fit_are_refused(
    network: Path, tmp_path: Path, arrays: dict[str, Array], code: str, what: str
) -> None:
    np.savez(tmp_path / "c.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=what) as caught:
        api.show(network, quantise=tmp_path / "c.npz")
    assert caught.value.code == code
    assert caught.value.where == str(tmp_path / "c.npz")
