"""Law: any value of a run can be an output, the new elements of a state, an input of a later layer,
or all of these.

On the machine, for every point of the frontier, and in C: several runs, with a reset between them,
whether the network may overwrite its inputs or not, and with streamed inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kept_networks import kept_networks
from lowered import inputs_of_graph
from penstock import api, ladder
from penstock.api.settings import Settings
from penstock.ir.graph import Graph
from penstock.pipeline.emission import lower_point
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_sequences
from penstock.simulators.machine import Machine
from tools.onnx_writer import Model
from tools.stateful_network import StatefulNetwork

RUNS, STEPS = 6, 3
"""Number of runs, and of runs after each reset."""
SETTINGS: tuple[Settings, ...] = (
    {},
    {"options": Options(keep_input=True)},
    {"stream_input": True},
)


@given(graph=kept_networks(), chosen=st.sampled_from(SETTINGS))
def test_the_machine_yields_every_output(graph: Graph, chosen: Settings) -> None:
    done = api.compile(graph, "host", **chosen).compilation
    runs = [inputs_of_graph(graph, seed) for seed in range(RUNS)]
    expected = run_sequences(graph, runs, STEPS)
    for point in done.points:
        machine = Machine(lower_point(point))
        for k, inputs in enumerate(runs):
            if k % STEPS == 0:
                machine.reset()
            found = machine.run(inputs)
            for view, value in zip(done.program.outputs, graph.outputs, strict=True):
                known = value.data.array(value.type) if value.data else expected[k][value.name]
                np.testing.assert_array_equal(found[view.tensor], known, f"run {k}: {value.name}")


@settings(max_examples=settings().max_examples // 7)
@given(graph=kept_networks(), chosen=st.sampled_from(SETTINGS))
def test_generated_c_yields_every_output(graph: Graph, chosen: Settings) -> None:
    check_every_rung(graph, chosen)


def check_every_rung(model: Graph | Path, chosen: Settings) -> None:
    done = api.compile(model, "host", **chosen).compilation
    runs = [inputs_of_graph(done.graph, seed) for seed in range(RUNS)]
    rungs = tuple(ladder.climb(done, ladder.Truth(), runs, every_point=True, steps=STEPS))
    assert {rung.step for rung in rungs} == {"machine", "points", "host"}
    assert [rung.compared.first for rung in rungs if rung.compared.first] == []


def delay(*kinds: str) -> bytes:
    """A variable that becomes the input.  Outputs are a sum that reads its old value, and twice
    this value after operators without effect."""
    net = StatefulNetwork(np.random.default_rng(3))
    x = net.tensor((1, 2, 1, 4), 0.5, 3)
    handle, old = net.variable(x, 2)
    y = old
    for kind in kinds:
        if kind == "RESHAPE":
            shape, flat = net.integers(1, 8), net.tensor((1, 8), 0.5, 3)
            y = net.apply("RESHAPE", (y, shape), flat, new_shape=(1, 8))
        else:
            y = net.apply(kind, (y,), net.tensor(net.tensors[y].shape, 0.5, 3))
    total = net.apply("ADD", (x, old), net.alike(x, 2))
    net.assign(handle, x)
    return net.file((x,), (total, y, y))


@pytest.mark.parametrize(
    "kinds", [(), ("RESHAPE",), ("QUANTIZE",), ("QUANTIZE", "RESHAPE"), ("RELU",)]
)
def test_the_old_value_of_a_variable_is_an_output(kinds: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "delay.tflite"
    path.write_bytes(delay(*kinds))
    for chosen in SETTINGS:
        check_every_rung(path, chosen)


@pytest.mark.parametrize("kind", ["Identity", "Reshape", "Relu"])
def test_the_old_value_of_an_onnx_state_is_an_output(kind: str, tmp_path: Path) -> None:
    net = Model()
    x, state = net.input(1, 8, name="x"), net.input(1, 8, name="s")
    total = net.node("Add", x, state)
    shape = (net.constant(np.array((2, 4), np.int64)),) if kind == "Reshape" else ()
    y = net.node(kind, state, *shape)
    path = tmp_path / "delay.onnx"
    path.write_bytes(net.raw(total, y, total))
    check_every_rung(path, {"states": {"s": total}})
