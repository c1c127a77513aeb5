"""Variable tensors of TFLite files become states of the operators that update them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends import open as reading
from penstock.frontends.open import parse
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ops.binary import Add
from penstock.simulators.graph import run_sequences
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = TensorSpec("x", (1, 2), scales=(0.5,), zero_points=(3,))
SUM = replace(X, name="sum", is_variable=True)
Y = replace(X, name="y")
NODE = OperatorSpec("ADD", (0, 1), (2,))


def accumulated(node: ForeignNode) -> Iterator[Made]:
    """y = sum = sum + x, with the first input as x."""
    x, before = node.input(0), node.state(1)
    yield Made(Add(), (x, before), node.output(0))
    yield Made(Add(), (before, x), Value("sum/after", before.type), assigns=1)


def read_only(node: ForeignNode) -> Iterator[Made]:
    yield Made(Add(), (node.input(0), node.state(1)), node.output(0))


@pytest.fixture
def accumulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "foreign_names", lambda: {"ADD": accumulated})


@pytest.mark.usefixtures("accumulator")
def test_a_variable_tensor_is_a_state_that_represents_zero_at_first() -> None:
    graph = parse(write_tflite((X, SUM, Y), (NODE,), (0,), (2,)), "m.tflite")
    (state,) = graph.states
    assert (state.before.name, state.before.origin) == ("sum", None)
    assert (state.after.name, state.after.origin) == ("sum/after", 1)
    runs = [{"x": np.full((1, 2), 5, np.int8)} for _ in range(3)]
    every = run_sequences(graph, runs, 3)
    assert [values["y"].tolist() for values in every] == [[[5, 5]], [[7, 7]], [[9, 9]]]


@pytest.mark.usefixtures("accumulator")
def test_other_tensors_are_no_states() -> None:
    with pytest.raises(ModelError, match='"sum" is not a variable tensor'):
        parse(write_tflite((X, replace(SUM, is_variable=False), Y), (NODE,), (0,), (2,)), "m")


@pytest.mark.usefixtures("accumulator")
def test_two_operators_share_no_variable_tensor() -> None:
    other = OperatorSpec("ADD", (2, 1), (3,))
    raw = write_tflite((X, SUM, Y, replace(Y, name="z")), (NODE, other), (0,), (3,))
    with pytest.raises(UnsupportedError, match='"sum" is used 2 times'):
        parse(raw, "m.tflite")


def test_an_operator_updates_its_variable_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "foreign_names", lambda: {"ADD": read_only})
    with pytest.raises(UnsupportedError, match='"sum" is not updated'):
        parse(write_tflite((X, SUM, Y), (NODE,), (0,), (2,)), "m.tflite")
