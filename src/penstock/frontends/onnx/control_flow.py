"""Control flow that shapes and constants decide: an If becomes its branch, a Loop its iterations.

Exporters write an If wherever an axis is dropped only if its extent is 1, and a Loop over the
samples of a batch.

Source: ONNX operator specification, If and Loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from penstock.frontends.onnx.file import File, FileNode, Subgraph
from penstock.frontends.onnx.folding import along
from penstock.ir.tensor import Array

MOST_ROUNDS = 100  # Nodes of control flow that depend on each other.
MOST_NODES = 50_000  # Of an unrolled model.
_FLOW = ("If", "Loop")


def decided(file: File, known: Callable[[File], File]) -> File:
    """The model without control flow that is decided at compile time.

    known: computes what depends on constants and shapes alone."""
    for _ in range(MOST_ROUNDS):
        if not any(node.graphs for node in file.nodes):
            break
        file = known(file)
        new = _Inlined(dict(file.constants), file.opset)
        nodes: list[FileNode] = []
        for k, node in enumerate(file.nodes):
            nodes += new.instead_of(node, k) if node.name in _FLOW else (node,)
        if not new.count or len(nodes) > MOST_NODES:
            break
        file = replace(file, nodes=tuple(nodes), constants=new.constants)
    return file


class _Inlined:
    """Copies of subgraphs, which have names of their own; `count` of nodes that were replaced."""

    def __init__(self, constants: dict[str, Array], opset: int) -> None:
        self.constants, self.opset, self.count = constants, opset, 0

    def instead_of(self, node: FileNode, index: int) -> Iterator[FileNode]:
        """The nodes that replace a node; itself if nothing decides it."""
        found = self._branch(node, index) if node.name == "If" else self._iterations(node, index)
        if found is None:
            yield node
            return
        self.count += 1
        yield from found

    def _branch(self, node: FileNode, index: int) -> list[FileNode] | None:
        condition = self.constants.get(node.inputs[0]) if node.inputs else None
        if condition is None or condition.size != 1:
            return None
        branch = node.graphs.get("then_branch" if condition.item() else "else_branch")
        if branch is None or branch.inputs or len(branch.outputs) != len(node.outputs):
            return None
        nodes, outputs = self._copied(branch, {}, f"#{index}")
        return [*nodes, *_identities(node, outputs)]

    def _iterations(self, node: FileNode, index: int) -> list[FileNode] | None:
        """None unless the number of iterations is constant, and no condition ends them before."""
        body, (most, condition, *rest) = node.graphs.get("body"), (*node.inputs, "", "")[:-1]
        count, first = self.constants.get(most), self.constants.get(condition)
        if body is None or count is None or count.size != 1 or len(body.inputs) < 2:
            return None
        if (condition and (first is None or not first.all())) or not self._goes_on(body):
            return None
        carried = list(rest[: len(body.inputs) - 2])
        scans = len(body.outputs) - 1 - len(carried)
        steps = int(count.item())
        if scans < 0 or len(carried) + scans != len(node.outputs) or (scans and steps < 1):
            return None
        if steps * len(body.nodes) > MOST_NODES:
            return None
        nodes: list[FileNode] = []
        rows: list[list[str]] = []
        for step in range(steps):
            label = f"#{index}.{step}"
            number, goes_on = f"{node.outputs[0]}{label}/step", f"{node.outputs[0]}{label}/goes_on"
            self.constants[number] = np.array(step, np.int64)
            self.constants[goes_on] = np.array(True)
            given = dict(zip(body.inputs, (number, goes_on, *carried), strict=True))
            copied, (_, *outputs) = self._copied(body, given, label)
            nodes += copied
            carried = outputs[: len(carried)]
            rows.append(outputs[len(carried) :])
        nodes += _identities(node, carried)
        for output, parts in zip(
            node.outputs[len(carried) :], zip(*rows, strict=True), strict=True
        ):
            nodes += self._stacked(node, output, parts)
        return nodes

    def _goes_on(self, body: Subgraph) -> bool:
        """Whether the condition that an iteration computes is true, or that which it was given."""
        writers = {name: node for node in body.nodes for name in node.outputs}
        name = body.outputs[0] if body.outputs else ""
        while name in writers and writers[name].name in ("Identity", "Cast"):
            name = writers[name].inputs[0]
        if name == body.inputs[1]:
            return True
        value = writers[name].tensors.get("value") if name in writers else None
        found = body.constants.get(name, self.constants.get(name, value))
        return found is not None and bool(found.all())

    def _stacked(self, node: FileNode, output: str, parts: tuple[str, ...]) -> Iterator[FileNode]:
        """Values of all iterations, along a new first axis."""

        def constant(elements: Array) -> str:
            self.constants[f"{output}/axis"] = elements
            return f"{output}/axis"

        names = [f"{part}/row" for part in parts]
        for part, name in zip(parts, names, strict=True):
            row = FileNode("Unsqueeze", node.where, (part,), (name,))
            yield along(row, (0,), self.opset, constant)
        yield FileNode("Concat", node.where, tuple(names), (output,), {"axis": 0})

    def _copied(
        self, graph: Subgraph, given: Mapping[str, str], label: str
    ) -> tuple[list[FileNode], list[str]]:
        """Nodes of a subgraph, and the names of its outputs.

        given: names of its inputs in the graph around it."""
        names = dict(given)
        for name, array in graph.constants.items():
            names[name] = f"{name}{label}"
            self.constants[names[name]] = array
        for node in graph.nodes:
            names |= {name: f"{name}{label}" for name in node.outputs if name}
        return (
            [_renamed(node, names) for node in graph.nodes],
            [names.get(name, name) for name in graph.outputs],
        )


def _renamed(node: FileNode, names: Mapping[str, str]) -> FileNode:
    """A node of a subgraph with other names, in its own subgraphs, too."""
    graphs: dict[str, Subgraph] = {}
    for key, graph in node.graphs.items():
        inner = {"", *graph.inputs, *graph.constants}
        inner.update(name for each in graph.nodes for name in each.outputs)
        outer = {name: new for name, new in names.items() if name not in inner}
        nodes = tuple(_renamed(each, outer) for each in graph.nodes)
        outputs = tuple(outer.get(name, name) for name in graph.outputs)
        graphs[key] = replace(graph, nodes=nodes, outputs=outputs)
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        graphs=graphs,
    )


def _identities(node: FileNode, outputs: list[str]) -> Iterator[FileNode]:
    for name, output in zip(outputs, node.outputs, strict=False):
        if output:
            yield FileNode("Identity", node.where, (name,), (output,))
