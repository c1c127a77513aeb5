"""Networks with state: every rung computes the same sequences, and texts read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.operators.states import KINDS, climbed
from lowered import inputs_of_graph, lower
from penstock import api
from penstock.codegen.observer import generate_observer
from penstock.frontends.open import parse
from penstock.ir.text.printer import print_graph
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.search import band_source
from penstock.program.program import Advance, FillTensor, Kind, LoadTensor
from penstock.program.steps import calls
from penstock.scheduling.text.printer import print_frontier
from penstock.simulators.graph import run_sequences
from penstock.simulators.machine import Machine
from texts.graph_reader import graph_from_text
from texts.schedule_reader import read_frontier
from tools.stateful_network import StatefulNetwork, draw_stateful
from tools.tflite_writer import TensorSpec

NUMBERS = range(4)


def compiled(raw: bytes, folder: Path) -> Compilation:
    path = folder / "m.tflite"
    path.write_bytes(raw)
    return api.compile(path, "host").compilation


def assert_every_rung_agrees(kind: str, seed: int, number: int) -> None:
    """Every third network also on the simulated core."""
    raw, states = KINDS[kind](seed, number)
    rungs = climbed(raw, states, steps=4, core=number % 3 == 0)
    assert [str(rung.compared.first) for rung in rungs if rung.compared.first] == []
    assert sum(rung.compared.elements for rung in rungs) > 0


def unequal_initial_elements() -> bytes:
    """A delay that begins with elements of which no two are equal."""
    net = StatefulNetwork(np.random.default_rng(7))
    x = net.tensor((1, 1, 1, 4), 0.5, 3)
    y = net.delay(x)
    data = np.array([[[[4, -7, 0, 9]]]], np.int8)
    net.first_tensors[1] = TensorSpec("first", data.shape, "int8", (0.5,), (3,), 0, data)
    return net.tflite(x, y)


@pytest.mark.parametrize(
    "number", [*NUMBERS, *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 60))]
)
def test_every_rung_equals_tensorflow_lite_micro(number: int) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    assert_every_rung_agrees("variables", 1, number)


@pytest.mark.parametrize(
    "number", [*NUMBERS, *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 60))]
)
@pytest.mark.parametrize("kind", ["explicit", "lstm", "svdf"])
def test_other_kinds_of_states_equal_tensorflow_lite_micro(kind: str, number: int) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    assert_every_rung_agrees(kind, 6, number)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_text_of_a_graph_reads_back(number: int) -> None:
    graph = parse(draw_stateful(2, number), "m.tflite")
    assert graph_from_text(print_graph(graph, with_data=True)) == graph


def test_the_rows_of_a_queue_stay_where_they_are(tmp_path: Path) -> None:
    net = StatefulNetwork(np.random.default_rng(5))
    x = net.tensor((1, 1, 1, 4), 0.5, 3)
    y = net.queue(x)
    done = compiled(net.tflite(x, y), tmp_path)
    (queue,) = done.graph.queues
    assert not done.graph.states
    assert not done.parts.updates
    computed = {call.output.tensor for call in calls(done.program)}
    assert queue.window.name not in computed
    written = {call.output.buffer for call in calls(done.program)}
    assert queue.before.name in written
    assert isinstance(done.program.run[-1], Advance)


def test_a_dense_layer_reads_a_queue_row_by_row() -> None:
    text = """graph g
input x: int8[1,1,1,4] scale 0.5 zero 3
queue s: int8[1,5,1,4] scale 0.5 zero 3 = 3
window: int8[1,6,1,4] scale 0.5 zero 3 = Concatenation(s, x, axis=1)
flat: int8[1,24] scale 0.5 zero 3 = Reshape(window, shape=(1, 24))
y: int8[1,2] scale 0.5 zero 1 = FullyConnected(flat, w, b)
keep s from window
output y
"""
    weights = ", ".join(str(k % 23 - 11) for k in range(48))
    declared = f"constant w: int8[2,24] scale 0.01 = ({weights})\n"
    bias = "constant b: int32[2] scale 0.005 = (100, -40)\n"
    at = text.index("y: int8")
    graph = graph_from_text(text[:at] + declared + bias + text[at:])
    lowered = lower(graph, accumulate=True)
    machine = Machine(lowered.program)
    sources = {view.tensor for call in calls(lowered.program) for view in call.inputs}
    assert "window" in sources
    runs = [inputs_of_graph(graph, seed) for seed in range(8)]
    for inputs, expected in zip(runs, run_sequences(graph, runs, 8), strict=True):
        np.testing.assert_array_equal(machine.run(inputs)["y"], expected["y"])


def test_a_reset_restores_the_initial_elements(tmp_path: Path) -> None:
    done = compiled(unequal_initial_elements(), tmp_path)
    assert any(isinstance(command, LoadTensor) for command in done.program.reset)
    machine = Machine(done.program)
    (name,) = (view.tensor for view in done.program.inputs)
    inputs = {name: np.full((1, 1, 1, 4), 50, np.int8)}
    first = machine.run(inputs)
    second = machine.run(inputs)
    machine.reset()
    again = machine.run(inputs)
    (y,) = first
    assert (first[y] == again[y]).all()
    assert (first[y] != second[y]).any()


def test_unequal_initial_elements_are_exact_on_every_rung(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(unequal_initial_elements())
    assert api.verify(path, "host").passed


def test_states_are_in_the_report_the_header_and_the_plan(tmp_path: Path) -> None:
    raw = draw_stateful(2, 0)
    path = tmp_path / "m.tflite"
    path.write_bytes(raw)
    found = api.compile(path, "host")
    done = found.compilation
    states = [b for b in done.program.buffers if b.kind is Kind.STATE]
    assert states
    assert found.report.ram_bytes.state == sum(b.size_bytes for b in states)
    assert len(done.program.reset) == len(states)
    assert all(isinstance(command, FillTensor) for command in done.program.reset)
    header = done.bundle[f"{done.prefix}.h"].decode()
    assert f"int {done.prefix}_reset(void *arena);" in header
    assert f"{found.report.ram_bytes.state} bytes of these are state" in header
    assert generate_observer(done.program, done.prefix)


def test_no_buffer_overlaps_a_state(tmp_path: Path) -> None:
    for number in NUMBERS:
        done = compiled(draw_stateful(3, number), tmp_path)
        ram = [b for b in done.program.buffers if b.kind is not Kind.CONSTANT]
        for state in (b for b in ram if b.kind is Kind.STATE):
            for other in (b for b in ram if b is not state):
                apart = (
                    other.address + other.size_bytes <= state.address
                    or state.address + state.size_bytes <= other.address
                )
                assert apart or other.size_bytes == 0, (state.name, other.name)


@pytest.mark.parametrize("number", NUMBERS)
def test_layers_and_frontiers_contain_the_updates(number: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(draw_stateful(5, number))
    found = api.compile(path, "cortex-m4")
    done = found.compilation
    assert sorted(layer.step for layer in found.layers if layer.step is not None) == list(
        range(len(found.layers))
    )
    assert sum(layer.cycles for layer in found.layers) == done.schedule.cost.cycles
    assert len(done.schedule.updating) == len(done.graph.states)
    text = print_frontier(done.frontier)
    assert read_frontier(text, done.parts, band_source(done.request.target)) == done.frontier
    assert found.page()


def test_a_profile_simulates_the_updates(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    path = tmp_path / "m.tflite"
    path.write_bytes(draw_stateful(5, 0))
    done = api.profile(api.request(path, "cortex-m4"))
    simulated = [row["simulated_cycles"] for row in done.layer_rows()]
    assert None not in simulated
    assert sum(map(int, simulated)) <= int(done.report.cycles.simulated or 0)
