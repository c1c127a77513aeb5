"""Operators of ai.onnx.ml around networks of scikit-learn, as skl2onnx writes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from penstock.errors import UnsupportedError
from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph

DOMAIN = "ai.onnx.ml"
SCALER = helper.make_node(
    "Scaler", ["x"], ["scaled"], domain=DOMAIN, offset=[1.0, -2.0, 0.5], scale=[0.5, 2.0, 3.0]
)
LAYER = {"domain": DOMAIN, "coefficients": [0.5, -1.0, 2.0, 1.5, 0.25, -3.0], "targets": 2}
REGRESSOR = helper.make_node("LinearRegressor", ["scaled"], ["y"], intercepts=[0.5, -1.0], **LAYER)
LABEL = (
    helper.make_node("ArgMax", ["scaled"], ["best"], axis=1),
    helper.make_node("ArrayFeatureExtractor", ["classes", "best"], ["label"], domain=DOMAIN),
    helper.make_node("Reshape", ["label", "flat"], ["y"]),
)
CLASSES = {
    "domain": DOMAIN,
    "coefficients": LAYER["coefficients"],
    "intercepts": [0.5, -1.0],
    "classlabels_ints": [7, 3],
}
CONSTANTS = (
    numpy_helper.from_array(np.array([7, 5, 9]), "classes"),
    numpy_helper.from_array(np.array([-1]), "flat"),
)


LINKS = ("NONE", "LOGISTIC", "SOFTMAX")


def classifier(link: str, label: str, scores: str) -> NodeProto:
    outputs = [label, scores]
    return helper.make_node("LinearClassifier", ["scaled"], outputs, post_transform=link, **CLASSES)


def normaliser(norm: str) -> NodeProto:
    return helper.make_node("Normalizer", ["scaled"], ["y"], domain=DOMAIN, norm=norm)


def model(nodes: Sequence[NodeProto], kind: int = TensorProto.FLOAT) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "g", [x], [y], CONSTANTS)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ((SCALER, REGRESSOR), TensorProto.FLOAT),
        ((SCALER, *LABEL), TensorProto.INT64),
        *(((SCALER, classifier(link, "label", "y")), TensorProto.FLOAT) for link in LINKS),
        *(((SCALER, classifier(link, "y", "scores")), TensorProto.INT64) for link in LINKS),
        *(((SCALER, normaliser(norm)), TensorProto.FLOAT) for norm in ("L1", "L2")),
    ],
)
def test_results_are_those_of_onnxruntime(nodes: Sequence[NodeProto], kind: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    raw = model(nodes, kind)
    session = runtime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    graph = parse(raw, "m.onnx")
    for seed in range(4):
        x = np.random.default_rng(seed).normal(0, 1, (1, 3)).astype(np.float32)
        found = run_graph(graph, {graph.inputs[0].name: x})[graph.outputs[0].name]
        (expected,) = session.run(None, {"x": x})
        assert found.shape == expected.shape
        assert np.allclose(found, expected, rtol=0, atol=1e-6)


def test_other_links_and_norms_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Normalizer: operator is not supported"):
        parse(model((SCALER, normaliser("MAX"))), "m.onnx")
    with pytest.raises(UnsupportedError, match="LinearClassifier: operator is not supported"):
        parse(model((SCALER, classifier("PROBIT", "y", "scores"))), "m.onnx")
    probit = helper.make_node(
        "LinearRegressor", ["scaled"], ["y"], post_transform="PROBIT", **LAYER
    )
    with pytest.raises(UnsupportedError, match="LinearRegressor: operator is not supported"):
        parse(model((SCALER, probit)), "m.onnx")
