"""Variable tensors of TFLite models (`is_variable`): inputs of a node that the node overwrites.

In the graph, each becomes a state: the node reads the value before, and another value has the
elements after it.  TensorFlow Lite Micro resets variable tensors to the elements that represent 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import UnsupportedError
from penstock.frontends.variables import Variable, zeros
from penstock.ir.foreign import ForeignModel, ForeignNode, Made
from penstock.ir.graph import Node, Value


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
