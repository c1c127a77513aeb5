"""ONNX models: a committed recurrent network, and among the shared models a quantised MobileNetV2
and topologies of a thousand nodes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from available import MODELS, TARGET
from onnx_models import judged
from penstock import api
from penstock.ground_truth import golden_inputs
from penstock.ir.graph import Graph
from penstock.pipeline.graphs import read
from penstock.reports.report import RealDifference
from penstock.simulators.goldens import read_goldens
from penstock.simulators.graph import run_graph
from tools.make_onnx_models import STATES

QUANTISED = "rand_mobilenet_v2_0.35_144_qdq_int8.onnx"
MACS = 26_660_752
RECURRENT = MODELS / "onnx" / "recurrent.onnx"


def kinds(graph: Graph) -> Counter[str]:
    return Counter(node.kind for node in graph.nodes)


def test_mobilenet_is_transposed_at_its_border_alone(shared_models: Path) -> None:
    graph = read(str(shared_models / QUANTISED))
    assert graph.macs() == MACS
    assert kinds(graph)["Transpose"] == 1
    assert graph.nodes[0].kind == "Transpose"
    assert (kinds(graph)["Conv2D"], kinds(graph)["DepthwiseConv2D"]) == (35, 17)


def test_every_operator_of_mobilenet_is_within_a_step_of_real_arithmetic(
    shared_models: Path,
) -> None:
    pytest.importorskip("onnxruntime")
    wanted = api.request(shared_models / QUANTISED)
    graph = read(wanted.model)
    goldens = read_goldens(shared_models / "goldens" / f"{QUANTISED}.npz")
    inputs = golden_inputs(graph, goldens)[0]
    found = api.onnx_reference(wanted).judge([run_graph(graph, inputs)])
    assert found.comparison.tensors == 201
    assert found.comparison.mismatches == 0, found.comparison.first


@pytest.mark.parametrize(
    ("name", "layers", "macs"),
    [
        ("topo_randwire_like_ws40_seed1_fp32.onnx.gz", 244, 615_796_448),
        pytest.param("topo_nasnet_large_fp32.onnx.gz", 492, 23_784_519_174, marks=pytest.mark.long),
    ],
)
def test_a_topology_is_folded_and_transposed_once(
    shared_models: Path, name: str, layers: int, macs: int
) -> None:
    """NASNet's macs are those of its convolutions, 23,783,414,658, and of four normalisations that
    have no convolution before them."""
    wanted = api.request(shared_models / name, assume_int8=True)
    graph = read(wanted.model, wanted.reading)
    found = kinds(graph)
    assert graph.macs() == macs
    assert found["Conv2D"] + found["DepthwiseConv2D"] == layers
    assert found["Transpose"] == 1
    assert found["Quantize"] == 0


def test_a_recurrent_network_equals_the_goldens_of_onnxruntime_on_every_rung() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("onnxruntime")
    verified = api.verify(RECURRENT, TARGET, RECURRENT.with_suffix(".npz"), states=STATES)
    steps = ["operators", "end to end", "machine", "host", "core"]
    assert [rung.step for rung in verified.rungs] == steps
    assert verified.passed
    assert verified.rungs[1].measured == RealDifference(0, 0)


def test_every_recurrent_layer_is_within_a_step_of_real_arithmetic(tmp_path: Path) -> None:
    found = judged(RECURRENT.read_bytes(), tmp_path)
    assert found.comparison.mismatches == 0, found.comparison.first
