"""Incremental networks in `verify`: every hop against the network with the window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import beside
from available import MODELS, SHARED
from penstock import api
from penstock.hops import Hops
from penstock.ir.graph import Graph
from penstock.ir.text.printer import print_graph
from penstock.passes.incremental import incremental
from penstock.pipeline.graphs import read
from penstock.simulators.graph import run_sequences
from texts.graph_reader import graph_from_text
from tools.onnx_writer import Model

STREAMING = MODELS / "streaming.tflite"


@pytest.fixture(scope="module")
def window() -> Graph:
    return read(str(STREAMING))


def test_verify_compares_as_many_hops_as_asked_for() -> None:
    verified = api.verify(STREAMING, "host", incremental=2, hops=30)
    rungs = {rung.step: rung for rung in verified.rungs}
    assert verified.passed
    assert tuple(rungs) == ("hops", "machine", "host")
    assert rungs["hops"].note == "30 hops, equal to the network with the window"
    assert rungs["hops"].comparison.tensors % 30 == 0
    assert verified.vanished == ()


def test_goldens_are_those_of_the_network_with_the_window() -> None:
    verified = api.verify(
        STREAMING, "host", MODELS / "streaming.npz", incremental=6, last_rung="machine"
    )
    assert verified.passed
    reference, hops, _ = verified.rungs
    assert reference.step == "reference"
    assert reference.comparison.elements > 1000
    assert hops.note == "45 hops, equal to the network with the window"  # 5 windows of 49 frames


def test_a_state_that_begins_otherwise_is_found(window: Graph) -> None:
    made = incremental(window, 2)
    hops, x = Hops(window, made), made.inputs[0]
    sets = [{x.name: np.full(x.type.shape, 7 * k, np.int8)} for k in range(3)]
    right = run_sequences(made, sets, 3)
    assert hops.compared(sets, 3, right).mismatches == 0
    first = made.states[0]
    other = replace(first, initial=replace(first.initial, raw=bytes(len(first.initial.raw))))
    wrong = run_sequences(replace(made, states=(other, *made.states[1:])), sets, 3)
    assert hops.compared(sets, 3, wrong).mismatches > 0


def test_frames_may_be_the_last_axis(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 4, 20), model.weights(6, 4, 3))
    y = model.node("Conv", model.node("Relu", x), model.weights(6, 6, 3))
    path = tmp_path / "channels_first.onnx"
    path.write_bytes(model.raw(model.node("GlobalAveragePool", y)))
    verified = api.verify(path, "host", incremental=2, hops=12, last_rung="machine")
    assert verified.passed
    assert verified.compiled.compilation.model.inputs[0].type.shape == (1, 4, 2)


def test_windows_are_fed_as_hops_after_silence(window: Graph) -> None:
    made = incremental(window, 4)
    hops, x = Hops(window, made), window.inputs[0]
    image = np.arange(x.type.elements, dtype=np.int64).astype(np.int8).reshape(x.type.shape)
    sets, runs = hops.fed([{x.name: image}, {x.name: image}])
    assert (len(sets), runs) == (26, 13)
    windows = [each[x.name] for each in hops.windows(sets, runs)]
    np.testing.assert_array_equal(windows[12], image)
    np.testing.assert_array_equal(windows[25], image)
    assert (windows[0][:, :48] == x.type.zero_point).all()


def test_the_streaming_wake_word() -> None:
    path = beside.needed(SHARED / "str_ww_ref_model.tflite")
    verified = api.verify(path, "cortex-m4", incremental=1, optimize="size", last_rung="machine")
    report = verified.report
    assert verified.passed
    assert verified.rungs[0].note == "200 hops, equal to the network with the window"
    assert verified.compiled.compilation.model.macs() <= 50_000
    assert report.ram_bytes.arena <= 4096
    assert report.cycles.estimated <= 150_000


def test_the_texts_of_an_incremental_network_read_back() -> None:
    done = api.compile(STREAMING, "host", incremental=2).compilation
    assert graph_from_text(print_graph(done.model, with_data=True)) == done.model
