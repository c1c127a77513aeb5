"""Random networks in which any value is an output, a state's new elements, or both.

Values are inputs, the old elements of states, constants and the results of operators, many of which
are views or compute in place.  Every value may be read later, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from benchmarks.small_tensors import bias, int8, weights
from penstock.ir.graph import Graph, Node, State, Value
from penstock.ir.tensor import Data
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D
from penstock.ops.pool import MaxPool2D
from penstock.ops.registry import COPY
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.unary import Relu
from strategies import node_of

MOST_STATES = 3
MOST_NODES = 6


@st.composite
def kept_networks(draw: st.DrawFn) -> Graph:
    """Networks of images of one type, of views of them, and of states."""
    shape = (1, draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    type = int8(*shape)
    inputs = [Value(f"x{k}", type) for k in range(draw(st.integers(1, 2)))]
    states = [Value(f"s{k}", type) for k in range(draw(st.integers(0, MOST_STATES)))]
    constant = Value("k", *weights(*shape)) if draw(st.booleans()) else None
    known = [*inputs, *states, *((replace(constant, type=type),) if constant else ())]
    made: list[Node] = []
    for k in range(draw(st.integers(1, MOST_NODES))):
        made += draw(_nodes(f"n{k}", known))
        known.append(made[-1].output)
    kept: list[State] = []
    for state in states:
        alike = [v for v in known if v.type.shape == shape]
        kept.append(_state(draw, state, draw(st.sampled_from(alike)), made))
    outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
    read = {v.name for node in made for v in node.inputs} | {v.name for v in outputs}
    graph = Graph(
        "kept",
        tuple(v for v in inputs if v.name in read),
        tuple(outputs),
        tuple(made),
        tuple(kept),
    )
    assume(graph.inputs)
    return graph


def _state(draw: st.DrawFn, before: Value, after: Value, made: list[Node]) -> State:
    """A state that becomes `after`; a copy is appended if no node computes it."""
    if after.name not in {node.name for node in made}:
        made.append(Node(COPY, (after,), Value(f"{before.name}/next", before.type), "assignment"))
        after = made[-1].output
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    initial = Data.of(rng.integers(-128, 128, before.type.shape).astype(np.int8))
    return State(initial, Node(COPY, (after,), before, "assignment"))


@st.composite
def _nodes(draw: st.DrawFn, name: str, known: list[Value]) -> list[Node]:
    """One node, or the two that shift a window."""
    x = draw(st.sampled_from(known))
    alike = [v for v in known if v.type.shape == x.type.shape]
    match draw(st.sampled_from(("view", "quantise", "in place", "sum", "pool", "conv", "window"))):
        case "view":
            flat = (1, x.type.elements) if draw(st.booleans()) else (1, 1, *x.type.shape)[-4:]
            return [node_of(name, Reshape(flat), (x,), like=x.type)]
        case "quantise":
            return [node_of(name, Quantize(), (x,), like=x.type)]
        case "sum":
            return [node_of(name, Add(), (x, draw(st.sampled_from(alike))), like=x.type)]
        case "pool" if x.type.rank == 4:
            same = Window(3, 1, 1, 1, 1)
            return [node_of(name, MaxPool2D(same, same), (x,), like=x.type)]
        case "conv" if x.type.rank == 4:
            constants = weights(x.type.shape[3], 1, 1, x.type.shape[3], axis=0)
            one = Conv2D(Window(1), Window(1))
            return [node_of(name, one, (x,), constants, bias(x.type.shape[3]), like=x.type)]
        case "window" if x.type.rank == 4:
            new = draw(st.sampled_from(alike))
            window = node_of(f"{name}/window", Concatenation(1), (x, new), like=x.type)
            start = (0, new.type.shape[1], 0, 0)
            last = Slice(start, x.type.shape, (1, 1, 1, 1))
            return [window, node_of(name, last, (window.output,), like=x.type)]
        case _:
            return [node_of(name, Relu(), (x,), like=x.type)]
