"""`verify --reference onnx` finds deliberate faults, and names the node of the model.

Faults of the importer are changes of the graph that it returns, which reader and judge share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine
from onnx_models import drawn
from penstock import api
from penstock.frontends.onnx import importer
from penstock.frontends.onnx.file import File
from penstock.frontends.onnx.importer import ImportedModel
from penstock.frontends.open import parse
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, Data, Quantisation, Region, TensorType
from penstock.opkit import lookup
from penstock.opkit.lookup import Lookup
from penstock.ops.binary import Add
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import MaxPool2D
from penstock.ops.unary import Logistic
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

pytest.importorskip("onnxruntime")

Change = Callable[[Graph], Graph]


def network() -> bytes:
    """A node of each kind that a fault below changes."""
    model = Model()
    x = model.input(1, 3, 8, 8)
    bias = model.node(
        "DequantizeLinear",
        model.constant(np.array([-2000, -1000, 0, 1000], np.int32)),
        model.constant(np.array(0.0001, np.float32)),
        scale=None,
    )
    x = model.node("Conv", x, model.weights(4, 3, 3, 3), bias, pads=[1, 1, 1, 1])
    pads = model.constant(np.array([0, 0, 1, 0, 0, 0, 0, 1]))
    fill = model.constant(np.array(1.5, np.float32))
    x = model.node("Pad", x, pads, fill)
    x = model.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 1], dilations=[2, 2])
    x = model.node("Concat", x, model.node("Sigmoid", x, scale=1 / 200), axis=2)
    x = model.node("Add", x, model.node("Neg", x))
    x = model.node("Transpose", x, perm=[0, 1, 3, 2])
    starts, ends = model.constant(np.array([1, 2])), model.constant(np.array([5, 7]))
    x = model.node("Slice", x, starts, ends, model.constant(np.array([2, 3])))
    x = model.node("Flatten", x)
    x = model.node("Gemm", x, model.weights(80, 4, axis=1))
    return model.raw(model.node("Softmax", x, scale=1 / 256), x)


def of_kind(graph: Graph, kind: str) -> Node:
    return next(node for node in graph.nodes if node.kind == kind)


def with_node(graph: Graph, old: Node, new: Node) -> Graph:
    return replace(graph, nodes=tuple(new if n is old else n for n in graph.nodes))


def with_op(kind: str, **fields: Any) -> Change:
    def change(graph: Graph) -> Graph:
        node = of_kind(graph, kind)
        return with_node(graph, node, replace(node, op=replace(node.op, **fields)))  # type: ignore[type-var]

    return change


def with_constant(kind: str, position: int, number: int, by: int) -> Change:
    def change(graph: Graph) -> Graph:
        node = of_kind(graph, kind)
        value = node.inputs[position]
        assert value.data is not None
        elements = value.data.array(value.type).copy()
        elements.flat[number] += by
        inputs = list(node.inputs)
        inputs[position] = replace(value, data=Data.of(elements))
        return with_node(graph, node, replace(node, inputs=tuple(inputs)))

    return change


def with_quantisation(kind: str, change_one: Callable[[Quantisation], Quantisation]) -> Change:
    """The output of a node in another quantisation, wherever it is read."""

    def change(graph: Graph) -> Graph:
        name = of_kind(graph, kind).name

        def changed(value: Value) -> Value:
            q = value.type.quantisation
            if value.name != name or q is None:
                return value
            return replace(value, type=replace(value.type, quantisation=change_one(q)))

        nodes = (
            replace(n, inputs=tuple(map(changed, n.inputs)), output=changed(n.output))
            for n in graph.nodes
        )
        return replace(graph, nodes=tuple(nodes), outputs=tuple(map(changed, graph.outputs)))

    return change


def shifted(q: Quantisation) -> Quantisation:
    return replace(q, zero_points=(q.zero_points[0] + 1,))


def coarser(q: Quantisation) -> Quantisation:
    return replace(q, scales=(q.scales[0] * 1.05,))


def exchanged(kind: str) -> Change:
    """The inputs of a node in the other order."""

    def change(graph: Graph) -> Graph:
        node = of_kind(graph, kind)
        return with_node(graph, node, replace(node, inputs=node.inputs[::-1]))

    return change


def with_exchanged_outputs(graph: Graph) -> Graph:
    return replace(graph, outputs=graph.outputs[::-1])


@dataclass(frozen=True)
class Fault:
    """A change of the imported graph, and the node that the error names."""

    change: Change
    named: str


FAULTS: Mapping[str, Fault] = {
    "an element of the weights": Fault(with_constant("Conv2D", 1, 5, 60), 'Conv "conv4_0"'),
    "a bias": Fault(with_constant("Conv2D", 2, 1, 4000), 'Conv "conv4_0"'),
    "a zero point": Fault(with_quantisation("MaxPool2D", shifted), 'MaxPool "maxpool10_0"'),
    "a scale": Fault(with_quantisation("Conv2D", coarser), 'QuantizeLinear "conv4_0_q"'),
    "an axis order": Fault(with_op("Transpose", order=(0, 3, 2, 1)), 'Conv "conv4_0"'),
    "paddings": Fault(with_op("Pad", before=(0, 0, 1, 0), after=(0, 1, 0, 0)), 'Pad "pad7_0"'),
    "a fill": Fault(with_op("Pad", fill=26), 'Pad "pad7_0"'),
    "the order of parts": Fault(exchanged("Concatenation"), 'Concat "concat16_0"'),
    "a start": Fault(with_op("Slice", start=(0, 2, 0, 0)), 'Slice "slice28_0"'),
    "a factor": Fault(with_op("Softmax", beta=0.5), 'Softmax "softmax38_0"'),
    "the order of outputs": Fault(with_exchanged_outputs, 'DequantizeLinear "softmax38'),
}
BROKEN: Mapping[str, tuple[type[Op], str]] = {
    "Add": (Add, 'Add "add22_0"'),
    "MaxPool": (MaxPool2D, 'MaxPool "maxpool10_0"'),
    "Gemm": (FullyConnected, 'Gemm "gemm35_0"'),
}


def judged(raw: bytes, folder: Path) -> str:
    """The node that differs from onnxruntime; an empty text if there is none."""
    path = folder / "m.onnx"
    path.write_bytes(raw)
    graph = parse(raw, "m.onnx")
    results = [run_graph(graph, drawn(graph, number)) for number in (0, 1)]
    found = api.onnx_reference(api.request(path)).judge(results).failure
    return "" if found is None else found.node


def importing(monkeypatch: pytest.MonkeyPatch, change: Callable[[ImportedModel], Any]) -> None:
    """Every import of a model makes the mistake."""
    right = importer.import_onnx

    def wrong(file: File, reading: Reading) -> ImportedModel:
        found: ImportedModel = change(right(file, reading))
        return found

    monkeypatch.setattr(importer, "import_onnx", wrong)


def test_a_network_without_faults_is_within_its_steps(tmp_path: Path) -> None:
    assert judged(network(), tmp_path) == ""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_mistake_of_the_importer_is_found(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    importing(monkeypatch, lambda found: replace(found, graph=fault.change(found.graph)))
    assert fault.named in judged(network(), tmp_path)


@pytest.mark.parametrize(("op", "named"), BROKEN.values(), ids=BROKEN)
def test_a_mistake_of_an_operator_is_found(
    op: type[Op], named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One element is two steps off."""
    right = op.evaluate

    def evaluate(self: Op, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        found = right(self, site, inputs, out).copy()
        found.flat[-1] += 2 if found.flat[-1] < 0 else -2
        return found

    monkeypatch.setattr(op, "evaluate", evaluate)
    assert named in judged(network(), tmp_path)


def test_a_wrong_entry_of_a_table_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def table(op: Lookup, x: TensorType, y: TensorType) -> Array:
        found = op.table(x, y).copy()
        found[27 + 128] -= 2 * isinstance(op, Logistic)  # the entry of the fill of Pad
        return found

    monkeypatch.setattr(lookup, "_table", table)  # without the memory of other tests
    assert 'Sigmoid "sigmoid13_0"' in judged(network(), tmp_path)


def test_a_rounding_that_the_model_does_not_have_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The convolution is rounded to a coarse step; the node that reads it is held responsible."""
    model = Model()
    x = model.node("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 3, 3), scale=None)
    raw = model.raw(model.node("Relu", x))
    assert judged(raw, tmp_path) == ""
    change = with_quantisation("Conv2D", lambda q: replace(q, scales=(0.4,)))
    importing(monkeypatch, lambda found: replace(found, graph=change(found.graph)))
    assert 'Relu "relu4_0"' in judged(raw, tmp_path)


def test_a_tensor_that_is_taken_for_another_one_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The graph is right, but the importer says that another value holds a tensor."""

    def change(found: ImportedModel) -> ImportedModel:
        places = dict(found.places)
        places["add22_0_q"] = places["concat16_0_q"]
        return replace(found, places=places)

    importing(monkeypatch, change)
    assert 'QuantizeLinear "add22_0_q"' in judged(network(), tmp_path)


def test_the_shift_of_unsigned_elements_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every zero point is off by one, and so are all elements."""
    model = Model(kind="uint8")
    raw = model.raw(model.node("Conv", model.input(1, 3, 6, 6), model.weights(4, 3, 3, 3)))
    assert judged(raw, tmp_path) == ""

    def shift(value: Value) -> Value:
        q = value.type.quantisation
        if q is None or value.data is not None:
            return value
        return replace(value, type=replace(value.type, quantisation=shifted(q)))

    def change(found: ImportedModel) -> ImportedModel:
        graph = found.graph
        nodes = (
            replace(n, inputs=tuple(map(shift, n.inputs)), output=shift(n.output))
            for n in graph.nodes
        )
        inputs, outputs = tuple(map(shift, graph.inputs)), tuple(map(shift, graph.outputs))
        changed = replace(graph, inputs=inputs, outputs=outputs, nodes=tuple(nodes))
        return replace(found, graph=changed)

    importing(monkeypatch, change)
    assert 'DequantizeLinear "x_d"' in judged(raw, tmp_path)


def test_the_command_names_node_element_and_values(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("m.onnx").write_bytes(network())
    change = FAULTS["the order of parts"].change
    importing(monkeypatch, lambda found: replace(found, graph=change(found.graph)))
    words = ("verify", "m.onnx", "-t", "host", "--reference", "onnx", "--last-rung", "reference")
    said = penstock(*words, "--json")
    assert said.code == 1
    assert 'm.onnx: node 16 Concat "concat16_0"' in said.err
    assert '"concat16_0" of set 0: element [0, 0, 0, 0] is ' in said.err
    found = said.json
    assert found["error"]["code"] == "verify-002"
    nodes = found["verified"][0]["nodes"]
    wrong = [node for node in nodes if node["mismatches"]]
    assert {node["tensor"] for node in wrong} >= {"concat16_0", "concat16_0_q"}
    assert max(node["steps"] for node in nodes) == found["verified"][0]["measured"]["steps"] > 1
    assert found["verified"][1]["step"] == "end to end"
