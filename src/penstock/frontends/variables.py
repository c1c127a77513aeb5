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

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import UnsupportedError
from penstock.ir.foreign import ForeignModel, ForeignNode, Made
from penstock.ir.graph import Node, State, Value, free_name
from penstock.ir.tensor import Data, DType, TensorType
from penstock.ops.registry import COPY

Key = tuple[str, str]
"""A variable: its container and its shared name."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A state variable: its value when a run begins, when it ends, and before the first run.

    where: the node that assigns it."""

    before: Value
    after: Value
    initial: Data
    where: str


@dataclass(frozen=True, slots=True)
class StatelessModel:
    """A model whose nodes use no variables, and the variables that it had."""

    model: ForeignModel
    variables: tuple[Variable, ...]


def without_variables(model: ForeignModel) -> StatelessModel:
    """Replaces the variables of a model by values.

    A variable that is never assigned becomes a constant; one that is never read disappears.
    Raises UnsupportedError if the initial value of a variable is computed."""
    resolver = _Resolver(_initial_values(model))
    nodes = tuple(node for node in map(resolver.resolved, model.nodes) if node is not None)
    outputs = tuple(resolver.current(value) for value in model.outputs)
    constants = resolver.unassigned()
    return StatelessModel(
        replace(
            model,
            nodes=tuple(_substituted(node, constants) for node in nodes),
            outputs=tuple(constants.get(value.name, value) for value in outputs),
        ),
        resolver.variables(),
    )


def _substituted(node: ForeignNode, values: Mapping[str, Value]) -> ForeignNode:
    """The node with some of its inputs replaced, by name."""
    inputs = tuple(x if x is None else values.get(x.name, x) for x in node.inputs)
    return replace(node, inputs=inputs)


def _initial_values(model: ForeignModel) -> Mapping[Key, Data]:
    """The values that the nodes which run once assign to variables."""
    found: dict[Key, Data] = {}
    for nodes in model.initial_nodes.values():
        keys: dict[int, Key] = {}
        for node in nodes:
            if node.name == "VAR_HANDLE":
                keys[node.handles[0]] = _key(node)
            elif node.name == "ASSIGN_VARIABLE" and node.input(0).data is not None:
                data = node.input(0).data
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
    keys: dict[int, Key] = field(default_factory=dict[int, Key])
    values: dict[Key, Value] = field(default_factory=dict[Key, Value])
    read: dict[Key, Value] = field(default_factory=dict[Key, Value])
    assigned: dict[Key, str] = field(default_factory=dict[Key, str])
    aliases: dict[str, Value] = field(default_factory=dict[str, Value])

    def resolved(self, node: ForeignNode) -> ForeignNode | None:
        """The node without references to variables; None if it only handles variables."""
        match node.name:
            case "VAR_HANDLE":
                self.keys[node.handles[0]] = _key(node)
            case "READ_VARIABLE":
                self._read(_known(self.keys, node), node.output(0))
            case "ASSIGN_VARIABLE":
                key = _known(self.keys, node)
                self.values[key] = self.current(node.input(0))
                self.assigned[key] = node.where
            case "CALL_ONCE":
                pass
            case _:
                return _substituted(node, self.aliases)
        return None

    def current(self, value: Value) -> Value:
        """The value to use for a tensor of the file."""
        return self.aliases.get(value.name, value)

    def _read(self, key: Key, output: Value) -> None:
        """Notes that `output` is the present value of a variable."""
        if key in self.values:
            self.aliases[output.name] = self.values[key]
        else:
            self.values[key] = self.read[key] = output

    def unassigned(self) -> Mapping[str, Value]:
        """The variables that are read, but never assigned, as constants by name."""
        return {
            value.name: replace(value, data=self._data(key))
            for key, value in self.read.items()
            if key not in self.assigned
        }

    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read and assigned."""
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
