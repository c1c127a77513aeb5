"""State variables of TFLite models (resources), as pure dataflow.

READ_VARIABLE and ASSIGN_VARIABLE, which refer to a variable by a handle, become references to
values: a read yields the state if no assignment precedes it, else the assigned value.  Only the
last assignment has an effect beyond the run.

Variable tensors (`is_variable`) are inputs of a node that the node overwrites.  Each becomes a
state: the node reads the value before, and another value has the elements after it.  TensorFlow
Lite Micro resets variable tensors to the elements that represent 0.

Source: TFLite VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE (`resource_variable.cc`,
`micro/kernels/call_once.cc`).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import UnsupportedError, UsageError
from penstock.frontends.reading import Reading
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.ir.foreign import ForeignModel, ForeignNode, Made
from penstock.ir.graph import Graph, Node, State, Value, Values, free_name
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.ops.registry import COPY

Key = tuple[str, str]  # A variable: its container and its shared name.


@frozen
class Variable:
    """A state variable: its value when a run begins, when it ends, and before the first run.

    where: the node that assigns it."""

    before: Value
    after: Value
    initial: Data
    where: str


@frozen
class StatelessModel:
    """A model whose nodes use no variables, and the variables that it had."""

    model: ForeignModel
    variables: tuple[Variable, ...]


def without_variables(model: ForeignModel) -> StatelessModel:
    """Replaces the variables of a model by values.

    A variable that is never assigned becomes a constant; one that is never read disappears.
    Raises UnsupportedError if the initial value of a variable is computed, or if one that is read
    has no value."""
    resolver = _Resolver(_initial_values(model))
    nodes = tuple(node for node in map(resolver.resolved, model.nodes) if node is not None)
    outputs = tuple(resolver.current(value) for value in model.outputs)
    constants = resolver.unassigned(model.name)
    return StatelessModel(
        replace(
            model,
            nodes=tuple(node.reading(constants) for node in nodes),
            outputs=tuple(constants.get(value.name, value) for value in outputs),
        ),
        resolver.variables(),
    )


def _initial_values(model: ForeignModel) -> Mapping[Key, Data]:
    """The values that the nodes which run once assign to variables."""
    found: dict[Key, Data] = {}
    for nodes in model.initial_nodes.values():
        keys: dict[int, Key] = {}
        for node in nodes:
            if node.name == "VAR_HANDLE":
                keys.update(dict.fromkeys(node.handles, _key(node)))
            elif node.name == "ASSIGN_VARIABLE" and node.x.data is not None:
                data = node.x.data
                assert data is not None
                found[_known(keys, node)] = data
            else:
                raise UnsupportedError(
                    "model-028",
                    f"{node.name} computes the initial value of a variable",
                    where=node.where,
                    why="initial values must be constant",
                    help="initialise variables with constants, and convert the model again",
                )
    return found


def _key(node: ForeignNode) -> Key:
    """The variable to which a VAR_HANDLE refers."""
    found = (node.attributes.get(name, "") for name in ("container", "shared_name"))
    container, name = (value if isinstance(value, str) else "" for value in found)
    return container, name


def _known(keys: Mapping[int, Key], node: ForeignNode) -> Key:
    """The variable that a node reads or assigns.  Raises UnsupportedError if another node than
    VAR_HANDLE yields the handle."""
    key = keys.get(node.handles[0]) if node.handles else None
    if key is None:
        raise node.unsupported("the variable's handle is not that of a VAR_HANDLE")
    return key


@dataclass(slots=True)
class _Resolver:
    """Walks the nodes of a model in order.

    values: the value that each variable has at this point of the walk.
    read: the value that each variable has when a run begins, if it is read.
    aliases: by the name of a tensor that a READ_VARIABLE yields, the value to use instead.
    """

    initial: Mapping[Key, Data]
    keys: dict[int, Key] = field(default_factory=dict)
    values: dict[Key, Value] = field(default_factory=dict)
    read: dict[Key, Value] = field(default_factory=dict)
    assigned: dict[Key, str] = field(default_factory=dict)
    aliases: dict[str, Value] = field(default_factory=dict)

    def resolved(self, node: ForeignNode) -> ForeignNode | None:
        """The node without references to variables; None if it only handles variables."""
        match node.name:
            case "VAR_HANDLE":
                self.keys.update(dict.fromkeys(node.handles, _key(node)))
            case "READ_VARIABLE":
                self._read(_known(self.keys, node), node.output(0))
            case "ASSIGN_VARIABLE":
                key = _known(self.keys, node)
                self.values[key] = self.current(node.x)
                self.assigned[key] = node.where
            case "CALL_ONCE":
                pass
            case _:
                return node.reading(self.aliases)
        return None

    def current(self, value: Value) -> Value:
        return self.aliases.get(value.name, value)

    def _read(self, key: Key, output: Value) -> None:
        if key in self.values:
            self.aliases[output.name] = self.values[key]
        else:
            self.values[key] = self.read[key] = output

    def unassigned(self, model: str) -> Mapping[str, Value]:
        for _, name in sorted(self.read.keys() - self.assigned.keys() - self.initial.keys()):
            raise UnsupportedError(
                "model-028",
                f'the variable "{name}" is read, but nothing assigns it',
                where=model,
                why="the converter left the weights out of the file",
                help="convert the Keras model or the SavedModel itself, not a function that calls "
                f"it ({guide('from-keras')})",
                cause="variables without values",
            )
        return {
            value.name: replace(value, data=self._data(key))
            for key, value in self.read.items()
            if key not in self.assigned
        }

    def variables(self) -> tuple[Variable, ...]:
        return tuple(
            Variable(before, self.values[key], self._data(key), self.assigned[key])
            for key, before in self.read.items()
            if key in self.assigned
        )

    def _data(self, key: Key) -> Data:
        """The elements of a variable before the first run: without an initialisation, those that
        represent 0."""
        return self.initial.get(key, zeros(self.read[key].type))


def zeros(type: TensorType) -> Data:
    """The elements to which TensorFlow Lite Micro resets a variable tensor: those that represent 0
    if they are int8, else 0.

    Source: `ResetTensorData` (`micro_interpreter_graph.cc`)."""
    zero = type.zero_point if type.dtype is DType.INT8 else 0
    return Data.of(np.full(type.shape, zero, type.dtype.value))


def as_state(variable: Variable, nodes: list[Node], taken: Collection[str]) -> State:
    """The state of a variable.  Appends a copy to `nodes` if no node computes its new value; the
    copy gets a name outside `taken`."""
    after = variable.after
    if after.name not in {node.name for node in nodes}:
        copy = Value(free_name(f"{variable.before.name}/next", taken), variable.before.type)
        nodes.append(Node(COPY, (after,), copy, variable.where))
        after = copy
    return State(variable.initial, Node(COPY, (after,), variable.before, variable.where))


def with_values_before(model: ForeignModel) -> ForeignModel:
    """Replaces variable tensors by their values before an inference, which have no origin: the
    file's tensor has the elements after it.

    Raises UnsupportedError if several nodes share a variable tensor."""
    readers = Counter(node.state(k).name for node in model.nodes for k in node.variables)
    return replace(model, nodes=tuple(_with_values_before(node, readers) for node in model.nodes))


def _with_values_before(node: ForeignNode, readers: Counter[str]) -> ForeignNode:
    inputs = list(node.inputs)
    for k in node.variables:
        value = node.state(k)
        if readers[value.name] > 1:
            raise _unsupported(node, value, f"is used {readers[value.name]} times")
        inputs[k] = replace(value, origin=None)
    return replace(node, inputs=tuple(inputs))


def assigned(output: Value, foreign: ForeignNode, made: Made) -> Value:
    """The output of a node; with the origin of the variable tensor that has its elements after an
    inference, if there is one."""
    if made.assigns is None or made.before is not None:
        return output
    return replace(output, origin=foreign.variables[made.assigns].origin)


def updated_variables(
    foreign: ForeignNode, made: Sequence[Made], nodes: Sequence[Node]
) -> tuple[Variable, ...]:
    """The variable tensors of a foreign node, given the nodes that replace it; `made` is parallel
    to `nodes`.  Raises UnsupportedError unless the foreign node assigns to each."""
    after = {m.assigns: (m, node) for m, node in zip(made, nodes, strict=True)}
    found: list[Variable] = []
    for k in foreign.variables:
        if k not in after:
            raise _unsupported(foreign, foreign.state(k), "is not updated by its node")
        by, node = after[k]
        before = by.before or foreign.state(k)
        found.append(Variable(before, node.output, zeros(before.type), foreign.where))
    return tuple(found)


def _unsupported(node: ForeignNode, value: Value, problem: str) -> UnsupportedError:
    return UnsupportedError(
        "model-030",
        f'variable tensor "{value.name}" {problem}',
        where=node.where,
        why="a variable tensor is supported as the state of exactly one operator, such as an LSTM",
        help="convert the model again; `penstock ops` lists what is supported",
    )


# Explicit states: inputs of a network that receive the elements of an output in the next run.
#
# Many converters export a recurrent or streaming network with its state as an input and an output.
# The user names such pairs (`--state INPUT=OUTPUT`).  Each becomes a `State`, and both tensors
# leave the interface.


@frozen
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
    for pair in reading.states:
        x = _named(graph, "input", graph.inputs, pair[0])
        y = _named(graph, "output", graph.outputs, pair[1])
        if _element_key(x.type) != _element_key(y.type):
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


def _others(graph: Graph, role: str, values: Values, states: Sequence[Value]) -> Values:
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


def _element_key(type: TensorType) -> tuple[object, ...]:
    """The properties in which both tensors of a state must agree."""
    return type.shape, type.dtype, type.quantisation


def _described(type: TensorType) -> str:
    q = type.quantisation
    return str(type) if q is None else f"{type}, {_quantisation(q)}"


def _quantisation(q: Quantisation) -> str:
    if q.axis is not None:
        return f"{len(q.scales)} scales along axis {q.axis}"
    return f"scale {q.scales[0]:.9g}, zero point {q.zero_points[0]}"
