"""Recurrent layers cascade over time: neither their inputs nor their outputs exist as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock import api
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.stages import ASSIGN, SCHEDULE, run_through
from penstock.simulators.graph import run_sequences
from penstock.simulators.machine import Machine
from tools.lstm_network import LayerSpec, LstmNetwork
from tools.onnx_recurrent import RecurrentLayer, add_layer
from tools.onnx_writer import Model

DEPTH, UNITS = 16, (24, 20)
STATE_BYTES = sum(units * 3 for units in UNITS)


def network(steps: int, folder: Path) -> Path:
    """Two LSTM layers, of which the second yields its last step."""
    net = LstmNetwork(np.random.default_rng(1))
    x = net.input((1, steps, DEPTH), 0.02, 3)
    y = x
    for units in UNITS:
        y = net.lstm(y, LayerSpec(units))
    path = folder / f"lstm_{steps}.tflite"
    path.write_bytes(net.tflite(x, net.last_step(y)))
    return path


def least_bytes(steps: int, folder: Path) -> int:
    """Live bytes of the smallest schedule, less inputs and states.  Nothing is placed: the search
    for addresses takes longer than all else."""
    stages = run_through(api.request(network(steps, folder), "cortex-m4"), "schedule")
    parts, frontier = stages.result(ASSIGN), stages.result(SCHEDULE)
    inputs = sum(value.type.size_bytes for value in parts.graph.inputs)
    return min(schedule.peak_bytes for schedule in frontier.schedules) - inputs - STATE_BYTES


def test_the_memory_of_sequences_does_not_grow_with_their_length(tmp_path: Path) -> None:
    short, long = (least_bytes(steps, tmp_path) for steps in (12, 48))
    rows = {layer: 2 * 2 * 2 * layer for layer in UNITS}  # two steps of two int16 per unit
    assert short == long
    assert long <= sum(rows.values()) + sum(UNITS)
    assert long < 48 * UNITS[0]


def test_the_caller_supplies_a_streamed_sequence_step_by_step(tmp_path: Path) -> None:
    path = network(48, tmp_path)
    done = api.compile(path, "cortex-m4", stream_input=True).compilation
    (x,) = done.parts.graph.inputs
    assert x.type.shape == (1, 48, 1, DEPTH)
    least = min(point.schedule.peak_bytes for point in done.points)
    assert least < 48 * DEPTH
    runs = [{x.name: np.full((1, 48, DEPTH), k, np.int8)} for k in range(2)]
    (y,) = done.model.outputs
    expected = run_sequences(done.model, runs, 2)
    machine = Machine(done.program)
    for run, values in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(machine.run(run)[y.name], values[y.name])


REAL_LAYERS = {"a": RecurrentLayer("GRU", 24), "b": RecurrentLayer("LSTM", 20)}


def compiled_onnx(steps: int, folder: Path, *, stream_input: bool = False) -> Compilation:
    """A GRU and an LSTM layer of ONNX, of which the second yields its last step."""
    model, rng = Model(opset=14), np.random.default_rng(1)
    x, depth = model.input(steps, 1, DEPTH, scale=0.02), DEPTH
    for prefix, layer in REAL_LAYERS.items():
        x = add_layer(model, x, (steps, 1, depth), layer, rng, prefix)
        x = model.node("Squeeze", x, model.constant(np.array([1], np.int64)), scale=None)
        depth = layer.units
    path = folder / f"recurrent_{steps}.onnx"
    bounds = [model.constant(np.array([n], np.int64)) for n in (-1, steps, 0)]
    path.write_bytes(model.raw(model.node("Slice", x, *bounds, scale=None)))
    return api.compile(path, "cortex-m4", stream_input=stream_input).compilation


def test_layers_of_onnx_cascade_over_time_as_well(tmp_path: Path) -> None:
    done = compiled_onnx(48, tmp_path, stream_input=True)
    (x,), (y,) = done.parts.graph.inputs, done.graph.outputs
    assert x.type.shape == (48, 1, DEPTH)
    rows = 2 * 4 * 24 + 2 * 2 * 4 * 20  # two steps of the states of both layers
    scratch = 2 * 4 * 24  # of the GRU
    least = min(point.schedule.peak_bytes for point in done.points)
    assert least <= rows + scratch + 2 * (24 + 20) + DEPTH
    runs = [{x.name: np.full((48, 1, DEPTH), 40 * k, np.int8)} for k in range(2)]
    expected = run_sequences(done.model, runs, 1)
    for run, values in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(Machine(done.program).run(run)[y.name], values[y.name])
