"""SVDF layers against TensorFlow Lite Micro: outputs and states, over sequences of runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from available import SHARED, TARGET, path_of
from penstock import api
from penstock.errors import ModelError
from penstock.frontends.open import parse
from penstock.simulators.graph import run_sequences
from penstock.simulators.tflite_micro_child import fresh_interpreter
from tools.svdf_network import SvdfNetwork, SvdfSpec, draw_svdf

NETWORKS, RUNS = 40, 8
ARENA_BYTES = 2**20


def compare(raw: bytes, seed: int) -> int:
    """Compares outputs and states of each run of a sequence; returns how many of the elements of
    the last output differ from each other."""
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    graph = parse(raw, "m.tflite")
    (x,), (y,) = graph.inputs, graph.outputs
    rng = np.random.default_rng(seed)
    every = [{x.name: rng.integers(-128, 128, x.type.shape).astype(np.int8)} for _ in range(RUNS)]
    compared = [node.output for node in graph.nodes if node.output.origin is not None]
    interpreter = fresh_interpreter(raw, ARENA_BYTES)
    found: set[int] = set()
    for mine, inputs in zip(run_sequences(graph, every, RUNS), every, strict=True):
        interpreter.set_input(inputs[x.name], 0)
        interpreter.invoke()
        for value in compared:
            expected = interpreter.GetTensor(value.origin, 0)["tensor_data"]
            np.testing.assert_array_equal(mine[value.name], expected, value.name)
        found |= set(mine[y.name].ravel().tolist())
    return len(found)


@pytest.mark.parametrize("number", range(NETWORKS))
def test_outputs_and_states_of_sequences_equal_the_reference(number: int) -> None:
    compare(draw_svdf(4, number), number)


@pytest.mark.parametrize("state", ["int8", "int16"])
@pytest.mark.parametrize("rank", [1, 3])
def test_elements_of_a_layer_use_the_range_of_int8(state: str, rank: int) -> None:
    net = SvdfNetwork(np.random.default_rng(1))
    x = net.activation(12, 0.05, 7)
    assert compare(net.tflite(x, net.svdf(x, SvdfSpec(16, 5, rank, state))), 2) > 40


@pytest.mark.parametrize("zero", [-128, -20, 3, 127])
@pytest.mark.parametrize(("state", "rank"), [("int8", 1), ("int8", 2), ("int16", 1)])
def test_a_state_has_a_zero_point(state: str, rank: int, zero: int) -> None:
    net = SvdfNetwork(np.random.default_rng([zero + 128, rank]))
    x = net.activation(12, 0.05, 7)
    y = net.svdf(x, SvdfSpec(16, 5, rank, state, state_zero=zero))
    assert compare(net.tflite(x, y), 2) > 40


def test_the_keyword_network_equals_its_goldens_on_every_rung() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    model = path_of("keyword_scrambled")
    goldens = SHARED / "goldens" / "keyword_scrambled.npz"
    verified = api.verify(model, TARGET, goldens, every_point=True)
    assert [rung.step for rung in verified.rungs] == [
        "reference",
        "machine",
        "points",
        "host",
        "core",
    ]
    assert verified.passed


def test_a_queue_of_one_step_is_the_step_itself() -> None:
    net = SvdfNetwork(np.random.default_rng(1))
    x = net.activation(12, 0.05, 7)
    raw = net.tflite(x, net.svdf(x, SvdfSpec(16, 1)))
    compare(raw, 3)
    assert "Concatenation" not in {node.kind for node in parse(raw, "m.tflite").nodes}


def test_the_state_has_one_row_for_each_step() -> None:
    net = SvdfNetwork(np.random.default_rng(1))
    x = net.activation(12, 0.05, 7)
    graph = parse(net.tflite(x, net.svdf(x, SvdfSpec(8, 5, 2))), "m.tflite")
    assert [state.before.type.shape for state in graph.states] == [(1, 5, 1, 16)]


@pytest.mark.parametrize("seed", range(4))
def test_products_of_scales_have_double_precision(seed: int) -> None:
    """In single precision, a few of these elements would differ."""
    net = SvdfNetwork(np.random.default_rng(seed))
    x = net.activation(60, float(np.float32(net.rng.uniform(0.01, 0.1))), 3)
    compare(net.tflite(x, net.svdf(x, SvdfSpec(2000, 2))), seed)


@pytest.mark.parametrize(
    ("tensor", "changes", "message"),
    [
        (0, {"shape": (2, 12)}, "the batch is 2, must be 1"),
        (1, {"zero_points": (3,)}, "feature weights have a zero point"),
        (4, {"is_variable": False}, "is not a variable tensor"),
        (4, {"shape": (1, 39)}, r"the state has shape \[1, 39\], must be \[1, 40\]"),
        (5, {"scales": (1e-9,)}, "they must stay below"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tensor: int, changes: dict[str, object], message: str
) -> None:
    net = SvdfNetwork(np.random.default_rng(1))
    x = net.activation(12, 0.05, 7)
    y = net.svdf(x, SvdfSpec(8, 5))
    net.tensors[tensor] = replace(net.tensors[tensor], **changes)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=message):
        parse(net.tflite(x, y), "m.tflite")


def test_other_activations_are_refused() -> None:
    net = SvdfNetwork(np.random.default_rng(1))
    x = net.activation(12, 0.05, 7)
    y = net.svdf(x, SvdfSpec(8, 5, activation="RELU6"))
    with pytest.raises(ModelError, match="fused activation RELU6"):
        parse(net.tflite(x, y), "m.tflite")
