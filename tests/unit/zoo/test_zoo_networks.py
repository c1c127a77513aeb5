"""The networks of the zoo are those of their papers, use their ranges, and never change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock.zoo.mobilenets import rounded
from penstock.zoo.registry import open_zoo

MACS = {
    # Conv 3x3x3 to 32 at 112 x 112, ...: the sums of the papers' tables.
    "zoo:mobilenet_v1": 568_740_352,
    "zoo:mobilenet_v1:alpha=0.25,resolution=128": 13_570_048,
    "zoo:mobilenet_v1:alpha=0.25,resolution=96,classes=2": 7_489_664,
    "zoo:mobilenet_v2": 300_774_272,
    "zoo:mobilenet_v2:alpha=0.35,resolution=144": 26_660_752,
    # TensorFlow Lite Micro's person_detect.
    "zoo:mobilenet_v1:alpha=0.25,resolution=96,classes=2,input_channels=1": 7_157_888,
    "zoo:resnet8": 12_501_632,
    "zoo:resnet8:width=40": 76_473_920,  # MLPerf Tiny v1.4, IC02
    # At 101, 51, 26 and 13 frames, and dense: 193,920 + 460,224 + 439,296 + 469,248 + 576.
    "zoo:tc_resnet8": 1_563_264,
    "zoo:lenet5": 416_520,
    "zoo:lenet5:resolution=32": 416_520,
    "zoo:vgg16:resolution=32,classes=10": 332_111_872,
    # At 224, in giga: 1.498, 4.089 and 2.834 (torchvision, `_ops` of its weights).  Convolutions
    # shrink by 49.  GoogLeNet: torchvision has 3 x 3 instead of 5 x 5 convolutions.
    "zoo:googlenet:resolution=32": (1_498_376_192 + 84_295_680 - 1_024_000) // 49 + 1_024_000,
    "zoo:resnet50:resolution=32": (4_089_184_256 - 2_048_000) // 49 + 2_048_000,
    "zoo:densenet121:resolution=32": (2_834_161_664 - 1_024_000) // 49 + 1_024_000,
    # Maps of 31, 15, 7 and 3: 1,660,608 + 5,299,200 + 4,616,192 + 5,400,576 + 4,608,000.
    "zoo:squeezenet:resolution=64": 21_584_576,
}
PARAMETERS = {
    # Convolutions with weights, dense layers, and `num_params` of torchvision's models.  These have
    # a scale and a shift for each channel (googlenet: 7,280, resnet50: 26,560),
    # of which folding leaves one bias.  In GoogLeNet, the 3 x 3 convolutions with which
    # torchvision replaces those of 5 x 5 have 23,808 weights per tap.  Open Model Zoo
    # (googlenet-v1, which is Caffe's bvlc_googlenet) states 6.999 million.
    "zoo:googlenet:resolution=32": (57, 1, 6_624_904 - 7_280 + (25 - 9) * 23_808),
    "zoo:resnet50:resolution=32": (53, 1, 25_557_032 - 26_560),
    "zoo:squeezenet:resolution=64": (26, 0, 1_235_496),
    # Convolutions before a concatenation or a pool have no batch norm, but a bias in int8.
    "zoo:densenet121:resolution=32": (
        *(120, 1),
        7_978_856 - (64 + 58 * 128) + (58 * 32 + 128 + 256 + 512),
    ),
    # Keras: 23,851,784, of which 34,432 are means and variances; its batch norms have no scale.
    "zoo:inception_v3:resolution=75": (94, 1, 23_851_784 - 34_432),
}
SMALL = (
    "zoo:lenet5",
    "zoo:lenet5:resolution=32,seed=3",
    "zoo:resnet8",
    "zoo:tc_resnet8",
    "zoo:mobilenet_v1:alpha=0.25,resolution=96",
    "zoo:mobilenet_v2:alpha=0.35,resolution=96",
    "zoo:googlenet:resolution=32",
    "zoo:resnet50:alpha=0.25,resolution=32,classes=10",
    "zoo:squeezenet:resolution=64",
    "zoo:densenet121:growth=8,resolution=32,classes=10",
    "zoo:inception_v3:resolution=75",
    "zoo:nasnet_mobile:filters=8,cells=1,resolution=64,classes=10",
    "zoo:randwire:nodes=6,channels=8,resolution=64,classes=10",
    "zoo:vgg16:resolution=32,classes=10",
)
MEANT = ("Logistic",)
"""Operators whose outputs are meant to approach both ends of their range."""
PUBLISHED_MACS = {
    "zoo:densenet121": 2.834,
    "zoo:inception_v3": 5.713,
    "zoo:nasnet_mobile": 0.564,
    "zoo:resnet50": 4.089,
    "zoo:squeezenet": 0.349,
}
"""In giga, at the published resolution.  Source: torchvision, `_ops` of its weights; for NASNet,
table 3 of the paper."""
DIGESTS = {
    "zoo:lenet5": "c6f6e4dd1e56c826",
    "zoo:resnet8": "e12b8d46b5415c0b",
    "zoo:mobilenet_v2:alpha=0.35,resolution=96": "65a78b8f2fb02ca1",
}


opened = cache(open_zoo)
"""Networks that several tests look at, made once."""


def digest(graph: Graph) -> str:
    """Of everything that was drawn or calibrated: weights, biases, scales and zero points."""
    found = hashlib.sha256()
    for value in (*graph.variables(), *graph.constants()):
        q = value.type.quantisation
        parts = (value.name, value.type.shape, q and (q.scales, q.zero_points))
        found.update(repr(parts).encode())
        found.update(value.data.raw if value.data else b"")
    return found.hexdigest()[:16]


def noise(graph: Graph, seed: int) -> dict[str, Array]:
    x = graph.inputs[0]
    return {x.name: np.random.default_rng(seed).integers(-128, 128, x.type.shape).astype(np.int8)}


def saturated_share(node: Node, y: Array) -> float:
    """Share of elements at an end of the range that the activation does not itself put there."""
    bottom_is_meant = node.output.type.zero_point == -128
    return float(np.mean((y == 127) | ((y == -128) & (not bottom_is_meant))))


@pytest.mark.parametrize("name", MACS)
def test_a_network_takes_as_many_multiplications_as_the_real_one(name: str) -> None:
    assert opened(name).macs() == MACS[name]


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED_MACS)
def test_a_network_takes_the_published_multiplications_at_the_published_resolution(
    name: str,
) -> None:
    assert round(open_zoo(name).macs() / 1e9, 3) == PUBLISHED_MACS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_network_has_as_many_layers_and_parameters_as_the_real_one(name: str) -> None:
    graph = opened(name)
    kinds = [node.kind for node in graph.nodes]
    parameters = sum(v.type.elements for v in graph.constants())
    found = (kinds.count("Conv2D"), kinds.count("FullyConnected"), parameters)
    assert found == PARAMETERS[name]


def test_mobilenet_v1_has_the_shapes_of_its_paper() -> None:
    graph = open_zoo("zoo:mobilenet_v1:alpha=0.5,resolution=64,classes=7")
    shapes = [node.output.type.shape for node in graph.nodes if "pointwise" in node.name]
    assert [shape[1:] for shape in shapes] == [
        (32, 32, 32),
        *[(16, 16, 64)] * 2,
        *[(8, 8, 128)] * 2,
        *[(4, 4, 256)] * 6,
        *[(2, 2, 512)] * 2,
    ]
    assert len(graph.nodes) == 31
    assert graph.outputs[0].type.shape == (1, 7)


def test_mobilenet_v2_adds_where_the_shape_stays() -> None:
    graph = open_zoo("zoo:mobilenet_v2:alpha=0.35,resolution=64")
    kinds = [node.kind for node in graph.nodes]
    counts = [kinds.count(kind) for kind in ("Conv2D", "DepthwiseConv2D", "Add", "FullyConnected")]
    assert counts == [35, 17, 10, 1]
    assert graph.producers()["head"].output.type.shape == (1, 2, 2, 1280)


def test_channels_are_rounded_to_multiples_of_8_but_not_far_down() -> None:
    assert [rounded(c) for c in (1.0, 11.2, 33.6, 56.0, 12.0)] == [8, 16, 32, 56, 16]


def test_resnet8_is_that_of_mlperf_tiny() -> None:
    graph = opened("zoo:resnet8")
    kinds = [node.kind for node in graph.nodes]
    assert kinds == [
        *["Conv2D"] * 3,
        "Add",
        *(["Conv2D"] * 3 + ["Add"]) * 2,
        *["AveragePool2D", "Reshape", "FullyConnected", "Softmax"],
    ]
    assert graph.outputs[0].type.shape == (1, 10)


def test_tc_resnet8_halves_the_frames_and_has_the_weights_of_its_paper() -> None:
    graph = opened("zoo:tc_resnet8")
    adds = [node.output.type.shape for node in graph.nodes if node.kind == "Add"]
    assert adds == [(1, 51, 1, 24), (1, 26, 1, 32), (1, 13, 1, 48)]
    weights = sum(v.type.elements for v in graph.constants() if v.type.rank > 1)
    assert weights == 64_512  # of 66 thousand parameters; the rest are batch normalisation's
    wide = open_zoo("zoo:tc_resnet8:k=1.5,frames=49,classes=2")
    assert [v.type.shape[1:] for v in wide.inputs] == [(49, 1, 40)]
    assert wide.producers()["block3/add"].output.type.shape == (1, 7, 1, 72)


@pytest.mark.parametrize("name", SMALL)
def test_activations_use_their_range_on_an_input_that_was_not_calibrated_on(name: str) -> None:
    graph = opened(name)
    x = noise(graph, 11)
    values = run_graph(graph, x)
    distinct: list[int] = []
    for node in graph.nodes:
        y = values[node.name]
        assert y.size < 20 or node.kind in MEANT or saturated_share(node, y) < 0.05, node.name
        if node.kind in ("Conv2D", "DepthwiseConv2D") and y.size > 400:
            distinct.append(len(np.unique(y)))
    assert np.median(distinct) >= 100
    assert min(distinct) >= 60


@pytest.mark.parametrize("name", SMALL[:-1])
def test_different_inputs_give_different_scores(name: str) -> None:
    graph = opened(name)
    scores = [run_graph(graph, noise(graph, seed))[graph.outputs[0].name] for seed in range(3)]
    assert not np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[1], scores[2])
    assert all(np.max(y) > -128 for y in scores)


@pytest.mark.parametrize("name", DIGESTS)
def test_a_network_is_the_same_on_every_machine(name: str) -> None:
    assert digest(opened(name)) == DIGESTS[name]


def test_another_seed_makes_another_network() -> None:
    assert digest(open_zoo("zoo:lenet5:seed=1")) != digest(open_zoo("zoo:lenet5:seed=2"))


def test_two_processes_make_the_same_bytes() -> None:
    """With other hash orders, numbers of threads and, where NumPy has OpenBLAS, other kernels."""
    settings = (
        {"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Nehalem"},
        {"PYTHONHASHSEED": "2", "OPENBLAS_NUM_THREADS": "2"},
    )
    program = (
        "import hashlib; from penstock.zoo.registry import open_zoo;"
        "graph = open_zoo('zoo:mobilenet_v1:alpha=0.25,resolution=64,classes=10');"
        "print(hashlib.sha256(repr(graph).encode()).hexdigest())"
    )
    source = str(Path(penstock.__file__).parents[1])
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": source, **setting},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for setting in settings
    }
    assert len(found) == 1
