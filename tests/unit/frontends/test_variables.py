"""State variables of TFLite files become values: what is read, assigned, and initialised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import UnsupportedError
from penstock.frontends.open import parse
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_sequences
from tools.stateful_network import StatefulNetwork
from tools.tflite_writer import TensorSpec


def network() -> tuple[StatefulNetwork, int]:
    """A network without nodes, and its input of two elements."""
    net = StatefulNetwork(np.random.default_rng(7))
    return net, net.tensor((1, 1, 1, 2), 0.5, 3)


def outputs(graph: Graph, *elements: int) -> list[list[int]]:
    """The output of each run of one sequence, whose inputs are filled with the elements."""
    (x,), (y,) = graph.inputs, graph.outputs
    runs = [{x.name: np.full(x.type.shape, element, np.int8)} for element in elements]
    every = run_sequences(graph, runs, len(runs))
    return [values[y.name].ravel().tolist() for values in every]


def test_a_read_yields_the_value_of_the_run_before() -> None:
    net, x = network()
    handle, old = net.variable(x, 1)
    y = net.apply("QUANTIZE", (old,), net.alike(x, 1))
    net.assign(handle, x)
    graph = parse(net.tflite(x, y), "m.tflite")
    assert outputs(graph, 5, 6, 7) == [[3, 3], [5, 5], [6, 6]]


def test_a_read_after_the_assignment_yields_the_assigned_value() -> None:
    net, x = network()
    handle, _ = net.variable(x, 1)
    net.assign(handle, x)
    new = net.alike(x, 1)
    net.apply("READ_VARIABLE", (handle,), new)
    y = net.apply("QUANTIZE", (new,), net.alike(x, 1))
    graph = parse(net.tflite(x, y), "m.tflite")
    assert outputs(graph, 5, 6) == [[5, 5], [6, 6]]


def test_the_last_of_several_assignments_counts() -> None:
    net, x = network()
    handle, old = net.variable(x, 1)
    doubled = net.apply("ADD", (x, x), net.alike(x, 1))
    net.assign(handle, doubled)
    net.assign(handle, x)
    y = net.apply("QUANTIZE", (old,), net.alike(x, 1))
    graph = parse(net.tflite(x, y), "m.tflite")
    assert outputs(graph, 5, 6) == [[3, 3], [5, 5]]


def test_a_variable_that_is_never_assigned_is_a_constant() -> None:
    net, x = network()
    _, old = net.variable(x, 1)
    y = net.apply("ADD", (x, old), net.alike(x, 1))
    graph = parse(net.tflite(x, y), "m.tflite")
    assert graph.states == ()
    assert outputs(graph, 5, 6) == [[5, 5], [6, 6]]  # the zero point is added


def test_a_variable_without_a_value_is_refused() -> None:
    """As the converter writes it for a function that calls a Keras model."""
    net, x = network()
    _, old = net.variable(x, 1)
    net.first_operators.clear()
    y = net.apply("ADD", (x, old), net.alike(x, 1))
    with pytest.raises(UnsupportedError) as caught:
        parse(net.tflite(x, y), "m.tflite")
    assert "is read, but nothing assigns it" in caught.value.what


def test_a_variable_that_is_never_read_disappears() -> None:
    net, x = network()
    handle, _ = net.variable(x, 1)
    net.operators.pop()  # the read
    net.assign(handle, x)
    y = net.apply("QUANTIZE", (x,), net.alike(x, 1))
    assert parse(net.tflite(x, y), "m.tflite").states == ()


def test_without_initialisation_a_variable_represents_zero() -> None:
    net, x = network()
    handle, old = net.variable(x, 1)
    net.first_operators.clear()
    y = net.apply("QUANTIZE", (old,), net.alike(x, 1))
    net.assign(handle, x)
    assert outputs(parse(net.tflite(x, y), "m.tflite"), 9) == [[3, 3]]


def test_initial_elements_that_differ_are_kept() -> None:
    net, x = network()
    handle, old = net.variable(x, 1)
    data = np.array([[[[4, -7]]]], np.int8)
    net.first_tensors[1] = TensorSpec("one", data.shape, "int8", (0.5,), (3,), 0, data)
    y = net.apply("QUANTIZE", (old,), net.alike(x, 1))
    net.assign(handle, x)
    assert outputs(parse(net.tflite(x, y), "m.tflite"), 9, 9) == [[4, -7], [9, 9]]


def test_a_handle_that_is_no_resource_is_refused() -> None:
    net, x = network()
    handle, old = net.variable(x, 1)
    net.tensors[handle] = replace(net.tensors[handle], dtype="int32")
    y = net.apply("ADD", (x, old), net.alike(x, 1))
    with pytest.raises(UnsupportedError, match="handle is not that of a VAR_HANDLE"):
        parse(net.tflite(x, y), "m.tflite")
