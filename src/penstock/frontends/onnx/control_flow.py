"""Control flow that shapes and constants decide: an If becomes its branch, a Loop or a Scan its
iterations.

Exporters write an If wherever an axis is dropped only if its extent is 1, a Loop over the samples
of a batch, and a Scan over the steps of a sequence.

Source: ONNX operator specification, If, Loop and Scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from penstock.frontends.onnx.definitions import Shapes
from penstock.frontends.onnx.file import File, FileNode, Subgraph
from penstock.frontends.onnx.folding import along
from penstock.ir.tensor import Array

MOST_ROUNDS = 100  # Nodes of control flow that depend on each other.
MOST_NODES = 50_000  # Of an unrolled model.
OLDEST_SCAN = 9  # Opset since which a Scan has no axis of batches.
_FLOW = ("If", "Loop", "Scan")


def decided(file: File, known: Callable[[File], File], shapes: Callable[[File], Shapes]) -> File:
    """The model without control flow that is decided at compile time.

    known: computes what depends on constants and shapes alone; shapes: of the tensors of a model,
    as far as they are known."""
    for _ in range(MOST_ROUNDS):
        if not any(node.graphs for node in file.nodes):
            break
        file = known(file)
        is_scanned = any(node.name == "Scan" for node in file.nodes)
        new = _Inlined(dict(file.constants), file.opset, shapes(file) if is_scanned else {})
        nodes: list[FileNode] = []
        for k, node in enumerate(file.nodes):
            nodes += new.instead_of(node, k) if node.name in _FLOW else (node,)
        if not new.count or len(nodes) > MOST_NODES:
            break
        file = replace(file, nodes=tuple(nodes), constants=new.constants)
    return file


class _Inlined:
    """Copies of subgraphs, which have names of their own; `count` of nodes that were replaced."""

    def __init__(self, constants: dict[str, Array], opset: int, shapes: Shapes) -> None:
        self.constants, self.opset, self.shapes, self.count = constants, opset, shapes, 0

    def instead_of(self, node: FileNode, index: int) -> Iterator[FileNode]:
        """The nodes that replace a node; itself if nothing decides it."""
        replacing = {"If": self._branch, "Loop": self._iterations, "Scan": self._scanned}
        found = replacing[node.name](node, index)
        if found is None:
            yield node
            return
        self.count += 1
        yield from found

    def _branch(self, node: FileNode, index: int) -> list[FileNode] | None:
        condition = self.constants.get(node.x) if node.inputs else None
        if condition is None or condition.size != 1:
            return None
        branch = node.graphs.get("then_branch" if condition.item() else "else_branch")
        if branch is None or branch.inputs or len(branch.outputs) != len(node.outputs):
            return None
        nodes, outputs = self._copied(branch, {}, f"#{index}")
        return [*nodes, *_identities(node, outputs)]

    def _iterations(self, node: FileNode, index: int) -> list[FileNode] | None:
        """The iterations of a Loop; None unless their number is constant, and no condition ends
        them before."""
        body, (most, condition, *rest) = node.graphs.get("body"), (*node.inputs, "", "")[:-1]
        count, first = self.constants.get(most), self.constants.get(condition)
        if body is None or count is None or count.size != 1 or len(body.inputs) < 2:
            return None
        if (condition and (first is None or not first.all())) or not self._goes_on(body):
            return None
        carried = tuple(rest[: len(body.inputs) - 2])

        def given(step: int, label: str) -> tuple[str, ...]:
            self.constants[f"{label}/step"] = np.array(step, np.int64)
            self.constants[f"{label}/goes_on"] = np.array(True)
            return f"{label}/step", f"{label}/goes_on"

        values = replace(body, outputs=body.outputs[1:])
        return self._unrolled(node, index, values, int(count.item()), carried, given)

    def _scanned(self, node: FileNode, index: int) -> list[FileNode] | None:
        """The iterations of a Scan; None unless a shape states their number."""
        body, count = node.graphs.get("body"), node.attributes.get("num_scan_inputs")
        if body is None or not isinstance(count, int) or self.opset < OLDEST_SCAN:
            return None
        states = len(body.inputs) - count
        sources = node.inputs[states : len(body.inputs)]
        shapes = [self.shapes.get(name) for name in sources]
        axes, is_reverse = (
            _listed(node, f"scan_input_{key}", count) for key in ("axes", "directions")
        )
        if states < 0 or not len(sources) == len(axes) == len(is_reverse) == count:
            return None
        extents = {
            shape[axis] if shape and -len(shape) <= axis < len(shape) else None
            for shape, axis in zip(shapes, axes, strict=True)
        }
        length = extents.pop() if len(extents) == 1 else None
        if length is None:
            return None
        slices: list[FileNode] = []

        def given(step: int, label: str) -> tuple[str, ...]:
            names = tuple(f"{label}/{k}" for k in range(count))
            for name, source, axis, back in zip(names, sources, axes, is_reverse, strict=True):
                at = f"{name}/index"
                self.constants[at] = np.array(length - 1 - step if back else step, np.int64)
                slices.append(FileNode("Gather", node.where, (source, at), (name,), {"axis": axis}))
            return names

        scan = replace(body, inputs=(*body.inputs[states:], *body.inputs[:states]))
        nodes = self._unrolled(node, index, scan, length, node.inputs[:states], given)
        return None if nodes is None else [*slices, *nodes]

    def _unrolled(
        self,
        node: FileNode,
        index: int,
        body: Subgraph,
        steps: int,
        carried: tuple[str, ...],
        given: Callable[[int, str], tuple[str, ...]],
    ) -> list[FileNode] | None:
        """Copies of a body, whose inputs are those that `given` names for each step, then the
        carried ones, and whose outputs are the carried ones, then rows of the last outputs."""
        rows_of, count = node.outputs[len(carried) :], len(carried)
        axes, is_reverse = (
            _listed(node, f"scan_output_{key}", len(rows_of)) for key in ("axes", "directions")
        )
        if len(body.outputs) != len(node.outputs) or count > len(node.outputs):
            return None
        if not len(axes) == len(is_reverse) == len(rows_of):
            return None
        if steps * len(body.nodes) > MOST_NODES or (rows_of and steps < 1):
            return None
        nodes: list[FileNode] = []
        rows: list[list[str]] = []
        for step in range(steps):
            label = f"{node.y}#{index}.{step}"
            names = dict(zip(body.inputs, (*given(step, label), *carried), strict=True))
            copied, outputs = self._copied(body, names, f"#{index}.{step}")
            nodes += copied
            carried = tuple(outputs[:count])
            rows.append(outputs[count:])
        nodes += _identities(node, carried)
        for output, parts, axis, back in zip(
            rows_of, zip(*rows, strict=True), axes, is_reverse, strict=True
        ):
            if output:
                nodes += self._stacked(node, output, parts[::-1] if back else parts, axis)
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

    def _stacked(
        self, node: FileNode, output: str, parts: tuple[str, ...], axis: int
    ) -> Iterator[FileNode]:
        """Values of all iterations, along a new axis."""

        def constant(elements: Array) -> str:
            self.constants[f"{output}/axis"] = elements
            return f"{output}/axis"

        names = [f"{part}/row" for part in parts]
        for part, name in zip(parts, names, strict=True):
            row = FileNode("Unsqueeze", node.where, (part,), (name,))
            yield along(row, (axis,), self.opset, constant)
        yield FileNode("Concat", node.where, tuple(names), (output,), {"axis": axis})

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


def _listed(node: FileNode, name: str, count: int) -> tuple[int, ...]:
    """An attribute of `count` integers; zeros if it is absent."""
    found = node.attributes.get(name, (0,) * count)
    listed = found if isinstance(found, tuple) else (found,)
    return tuple(x for x in listed if isinstance(x, int))


def _identities(node: FileNode, outputs: Iterable[str]) -> Iterator[FileNode]:
    for name, output in zip(outputs, node.outputs, strict=False):
        if output:
            yield FileNode("Identity", node.where, (name,), (output,))
