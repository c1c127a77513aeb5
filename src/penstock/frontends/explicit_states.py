"""Explicit states: inputs of a network that receive the elements of an output in the next run.

Many converters export a recurrent or streaming network with its state as an input and an output.
The user names such pairs (`--state INPUT=OUTPUT`).  Each becomes a `State`, and both tensors leave
the interface.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.errors import UsageError
from penstock.frontends.reading import Reading
from penstock.frontends.variables import Variable, as_state, zeros
from penstock.ir.graph import Graph, State, Value
from penstock.ir.tensor import Quantisation, TensorType
from penstock.ir.verify import verify


@dataclass(frozen=True, slots=True)
class Feedback:
    """The position of an input of the model file, and that of the output whose elements it receives
    in the next run.  `type`: of the input, which represents 0 in the first run."""

    input: int
    output: int
    type: TensorType


def with_states(graph: Graph, reading: Reading) -> Graph:
    """The graph with the states that the user names; they represent 0 before the first run.

    Raises UsageError if there is no such input or output, if their types differ, if an output
    belongs to two states, or if no other input or output remains."""
    pairs = tuple(_pairs(graph, reading))
    if not pairs:
        return graph
    nodes, states = list(graph.nodes), list[State]()
    taken = set(graph.names())
    for x, y in pairs:
        variable = Variable(x, y, zeros(x.type), f'{graph.name}: state "{x.name}"')
        states.append(as_state(variable, nodes, taken))
        taken.add(states[-1].after.name)
    found = replace(
        graph,
        inputs=_others(graph, "input", graph.inputs, [x for x, _ in pairs]),
        outputs=_others(graph, "output", graph.outputs, [y for _, y in pairs]),
        nodes=tuple(nodes),
        states=(*graph.states, *states),
    )
    verify(found)
    return found


def feedbacks(graph: Graph, reading: Reading) -> tuple[Feedback, ...]:
    """The positions of the states' inputs and outputs in a graph as its file states it.  Raises
    UsageError as `with_states`."""
    return tuple(
        Feedback(graph.inputs.index(x), graph.outputs.index(y), x.type)
        for x, y in _pairs(graph, reading)
    )


def _pairs(graph: Graph, reading: Reading) -> Iterator[tuple[Value, Value]]:
    """The input and the output of each state."""
    for pair in reading.states:
        x = _named(graph, "input", graph.inputs, pair[0])
        y = _named(graph, "output", graph.outputs, pair[1])
        if _key(x.type) != _key(y.type):
            raise UsageError(
                "usage-117",
                f'input "{x.name}" and output "{y.name}" have different types',
                where=f"{graph.name}, --state",
                why=f"the input is {_described(x.type)}, the output {_described(y.type)}",
                help="a state has one shape, element type and quantisation; export the model so "
                "that both tensors have it",
            )
        yield x, y


def _named(graph: Graph, role: str, values: Sequence[Value], name: str) -> Value:
    """The input or output of that name.  Raises UsageError if there is none."""
    found = next((value for value in values if value.name == name), None)
    if found is None:
        listed = ", ".join(f'"{v.name}" ({_described(v.type)})' for v in values)
        near = difflib.get_close_matches(name, [v.name for v in values], 1)
        guess = f'did you mean "{near[0]}"? ' if near else ""
        raise UsageError(
            "usage-116",
            f'the model has no {role} "{name}"',
            where=f"{graph.name}, --state",
            why=f"its {role}s are {listed}",
            help=f"{guess}write --state INPUT=OUTPUT with these names",
        )
    return found


def _others(
    graph: Graph, role: str, values: tuple[Value, ...], states: Sequence[Value]
) -> tuple[Value, ...]:
    """The inputs or outputs that belong to no state.  Raises UsageError if there is none."""
    positions = {values.index(state) for state in states}
    found = tuple(value for k, value in enumerate(values) if k not in positions)
    if not found:
        raise UsageError(
            "usage-118",
            f"every {role} of the model is a state",
            where=f"{graph.name}, --state",
            why=f"a network needs at least one {role} that is no state",
            help=f"omit --state for one {role}",
        )
    return found


def _key(type: TensorType) -> tuple[object, ...]:
    """The properties in which both tensors of a state must agree."""
    return type.shape, type.dtype, type.quantisation


def _described(type: TensorType) -> str:
    """Shape, element type and quantisation, as messages state them."""
    q = type.quantisation
    return str(type) if q is None else f"{type}, {_quantisation(q)}"


def _quantisation(q: Quantisation) -> str:
    if q.axis is not None:
        return f"{len(q.scales)} scales along axis {q.axis}"
    return f"scale {q.scales[0]:.9g}, zero point {q.zero_points[0]}"
