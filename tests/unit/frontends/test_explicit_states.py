"""States that the user names: inputs that receive outputs of the previous run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from penstock import api
from penstock.frontends.open import parse
from penstock.frontends.reading import Reading
from penstock.frontends.variables import with_states
from penstock.ir.graph import Graph
from penstock.simulators.goldens import read_goldens
from penstock.simulators.graph import initial_states, run_sequences
from tools.onnx_writer import Model
from tools.stateful_network import ExplicitNetwork

STEPS = 6


def with_residual() -> tuple[bytes, dict[str, str]]:
    """A network whose output is also its state."""
    net = ExplicitNetwork(np.random.default_rng(3))
    x = net.tensor((1, 2, 1, 4), 0.5, 3)
    return net.tflite(x, net.residual(x)), net.states()


def graph_of(raw: bytes, name: str, **states: str) -> Graph:
    return with_states(parse(raw, name), Reading(states=tuple(states.items())))


def streaming() -> bytes:
    """An ONNX convolution over the last three frames, which are an input and an output."""
    model = Model(opset=19)
    new, old = model.input(1, 4, 2, name="new"), model.input(1, 4, 3, name="old")
    window = model.node("Concat", old, new, axis=2)
    limits = (model.constant(np.array([k], np.int64)) for k in (2, 5, 2))
    kept = model.node("Slice", window, *limits)
    return model.raw(model.node("Conv", window, model.weights(3, 4, 4)), kept)


def test_states_leave_the_interface_and_represent_0() -> None:
    raw, states = with_residual()
    graph = graph_of(raw, "m.tflite", **states)
    (before,) = states
    assert [v.name for v in graph.inputs] == ["x0"]
    assert [state.before.name for state in graph.states] == [before]
    (initial,) = initial_states(graph).values()
    assert set(initial.ravel().tolist()) == {graph.states[0].before.type.zero_point}


def test_an_output_that_is_listed_twice_may_be_a_state_and_remain() -> None:
    raw, states = with_residual()
    graph = graph_of(raw, "m.tflite", **states)
    assert [v.name for v in graph.outputs] == list(states.values())


def test_an_input_may_be_the_next_state() -> None:
    net = ExplicitNetwork(np.random.default_rng(3))
    x = net.tensor((1, 1, 1, 2), 0.5, 3)
    graph = graph_of(net.tflite(x, net.two_delays(x)), "m.tflite", **net.states())
    assert len(graph.states) == 2
    (source,), (y,) = graph.inputs, graph.outputs
    runs = [{source.name: np.full(source.type.shape, k, np.int8)} for k in (10, 20, 30)]
    found = [values[y.name] for values in run_sequences(graph, runs, 3)]
    assert (found[0] == found[1]).all()
    assert (found[2] != found[1]).any()


def test_goldens_feed_outputs_back_and_verify(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    raw, states = with_residual()
    model, archive = tmp_path / "m.tflite", tmp_path / "m.npz"
    model.write_bytes(raw)
    api.golden(model, archive, states=states)
    found = read_goldens(archive)
    assert found.stateful
    assert [len(s.inputs) for s in found.sets] == [1] * len(found.sets)
    assert api.verify(model, "host", archive, states=states).passed
    assert api.verify(model, "host", reference="tflite", states=states).passed


def test_an_onnx_model_equals_the_evaluator_run_by_run(tmp_path: Path) -> None:
    raw = streaming()
    path = tmp_path / "m.onnx"
    path.write_bytes(raw)
    (y, kept) = (v.name for v in parse(raw, "m.onnx").outputs)
    states = {"old": kept}
    graph = graph_of(raw, "m.onnx", **states)
    (new,), (output,) = graph.inputs, graph.outputs
    rng = np.random.default_rng(5)
    runs = [
        {new.name: rng.integers(-128, 128, new.type.shape).astype(np.int8)} for _ in range(STEPS)
    ]
    evaluator = ReferenceEvaluator(raw)
    old = np.zeros((1, 4, 3), np.float32)
    for inputs, values in zip(runs, run_sequences(graph, runs, STEPS), strict=True):
        real = (inputs[new.name].astype(np.float32) - new.type.zero_point) * np.float32(0.05)
        expected, old = evaluator.run([y, kept], {"new": real, "old": old})
        mine = (values[output.name].astype(np.int64) - output.type.zero_point) * 0.05
        assert np.abs(mine - expected).max() < 1.01 * output.type.scale
    assert api.verify(path, "host", states=states).passed
    assert api.verify(path, "host", reference="onnx", states=states).passed


def test_a_run_carries_the_state(tmp_path: Path) -> None:
    raw, states = with_residual()
    path = tmp_path / "m.tflite"
    path.write_bytes(raw)
    graph = graph_of(raw, "m.tflite", **states)
    x = graph.inputs[0]
    runs = [{x.name: np.full(x.type.shape, 9, np.int8)} for _ in range(3)]
    found = api.run(path, "host", runs, states=states)
    expected = run_sequences(graph, runs, 3)
    (y,) = states.values()
    assert [o[y].tolist() for o in found.outputs] == [v[y].tolist() for v in expected]
    assert found.report.ram_bytes.state == x.type.size_bytes
