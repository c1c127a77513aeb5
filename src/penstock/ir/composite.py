"""Composite: a sub-graph as one operator, which an accelerator runs as a unit.

The inner nodes compute what they would compute in the graph; intermediate tensors are not visible
outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.graph import Node, Value
from penstock.ir.op import (
    Affines,
    Arrays,
    Croppable,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Types,
    Work,
)
from penstock.ir.operator_facts import StatedAttribute
from penstock.ir.tensor import Array, Region, TensorType

# The name of a composite whose nodes are composites: layers that run as a group, tile by tile.
FUSED = "fused"

Attribute = str | int | bool | float | bytes | tuple["Attribute", ...]


@frozen(repr=False)
class Composite(Brief, OperatorDefaults):
    """Nodes in topological order; the last one computes the output.

    name: the pattern that matched the nodes.
    engine: the accelerator that runs them.
    inputs: names that the operands of the composite, constants included, have inside, in order.
    attributes: facts that passes have attached, by name.
    chosen: the preferred kernel; None until the accelerator has chosen one.
    fallback: the kernel with the least scratch, if it needs less than `chosen`.
    prefetching: kernels that read prefetched constants."""

    name: str
    engine: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    chosen: Kernel | None = None
    fallback: Kernel | None = None
    prefetching: tuple[Kernel, ...] = ()
    _known: dict[Region, Mapping[str, Region]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def kind(self) -> str:
        """The name of the pattern that matched the nodes."""
        return self.name

    def inner_names(self) -> frozenset[str]:
        """Names of the values that the nodes read or compute."""
        return frozenset(v.name for n in self.nodes for v in (*n.inputs, n.output))

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        """Those of the inner nodes, with the operator's name where several state the same."""
        found = [(node, one) for node in self.nodes for one in node.op.stated_attributes()]
        counts = Counter(one.name for _, one in found)
        return tuple(
            replace(one, name=f"{node.kind}: {one.name}") if counts[one.name] > 1 else one
            for node, one in found
        )

    def result_type(self, inputs: Types) -> TensorType:
        """The type of the last node's output."""
        del inputs
        return self.nodes[-1].output.type

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        """Evaluates the regions that `out` needs, node by node; other elements are unread zeros."""
        del site
        wanted = self._wanted(out)
        known = dict(zip(self.inputs, inputs, strict=True))
        *before, last = self.nodes
        for node in before:
            type = node.output.type
            known[node.name] = np.zeros(type.shape, type.dtype.value)
            if node.name in wanted:
                known[node.name][wanted[node.name].slices] = _computed(node, known, wanted)
        return _computed(last, known, {last.name: out})

    def needs(self, site: Site, out: Region) -> Regions:
        """For each input, the smallest region that contains what the inner nodes read of it."""
        wanted = self._wanted(out)
        nothing = (Region.of(*((0, 0) for _ in type.shape)) for type in site.inputs)
        return tuple(wanted.get(n, empty) for n, empty in zip(self.inputs, nothing, strict=True))

    def affine(self, site: Site) -> Affines:
        """For each input, the composition of the maps along the path to the output.

        Where several paths have different maps, the whole input."""
        rank = site.output.rank
        path = {self.nodes[-1].name: Affine.diagonal((1,) * rank)}
        for node in reversed(self.nodes):
            if node.name not in path:
                continue
            for value, step in zip(node.inputs, node.op.affine(node.site), strict=True):
                product = step @ path[node.name]
                other = path.get(value.name, product)
                path[value.name] = (
                    product if other == product else Affine.constant(value.shape, rank)
                )
        shapes = zip(self.inputs, site.inputs, strict=True)
        return tuple(path.get(n, Affine.constant((0,) * t.rank, rank)) for n, t in shapes)

    def work(self, site: Site, out: Region) -> Work:
        """The sum of the work of the inner nodes."""
        del site
        wanted = self._wanted(out)
        every = [n.op.work(n.site, wanted[n.name]) for n in self.nodes if n.name in wanted]
        return Work(
            sum(w.macs for w in every),
            sum(w.elements for w in every),
            sum(w.loops for w in every),
        )

    def kernel(self, site: Site) -> Kernel:
        """The kernel that the accelerator has chosen; set when the graph is partitioned."""
        del site
        assert self.chosen is not None, f"{self.name} has no implementation yet"
        return self.chosen

    def in_place(self, site: Site) -> tuple[int, ...]:
        """No input: an accelerator may read and write in any order."""
        del site
        return ()

    def cropped(self, site: Site, out: Region) -> Composite | None:
        """The cropped inner nodes, without kernels; None if one of them cannot be cropped.

        Nor can they if two nodes read different regions of a value."""
        del site
        wanted = self._wanted(out)
        if out.empty or any(node.name not in wanted for node in self.nodes):
            return None
        nodes = tuple(_cropped(node, wanted) for node in self.nodes)
        found = tuple(node for node in nodes if node is not None)
        if len(found) < len(nodes):
            return None
        return replace(self, nodes=found, chosen=None, fallback=None, prefetching=())

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute | None:
        """The attribute of that name, set by a pass; `default` if there is none."""
        return dict(self.attributes).get(name, default)

    def _wanted(self, out: Region) -> Mapping[str, Region]:
        # Values of which nothing is needed are left out.  Results are cached, since searches ask
        # for the same regions many times.
        if out not in self._known:
            self._known[out] = self._found(out)
        return self._known[out]

    def _found(self, out: Region) -> Mapping[str, Region]:
        wanted = {} if out.empty else {self.nodes[-1].name: out}
        for node in reversed(self.nodes):
            if node.name in wanted:
                needs = node.op.needs(node.site, wanted[node.name])
                for value, need in zip(node.inputs, needs, strict=True):
                    if not need.empty:
                        wanted[value.name] = wanted.get(value.name, need).hull(need)
        return wanted


def _computed(node: Node, known: Mapping[str, Array], wanted: Mapping[str, Region]) -> Array:
    operands = tuple(known[value.name] for value in node.inputs)
    return node.op.evaluate(node.site, operands, wanted[node.name])


def _cropped(node: Node, wanted: Mapping[str, Region]) -> Node | None:
    """The node for the wanted region of its output; None if it cannot be cropped."""
    # A node can be cropped to some rows and columns, if it reads all of what is wanted of its
    # inputs.
    out = wanted[node.name]
    if not isinstance(node.op, Croppable) or not _keeps_channels(node.output, out):
        return None
    op = node.op.cropped(node.site, out)
    needs = node.op.needs(node.site, out)
    pairs = tuple(zip(node.inputs, needs, strict=True))
    whole = (need == Region.whole(value.shape) for value, need in pairs if value.data)
    same = (need == wanted.get(value.name) for value, need in pairs if value.data is None)
    if op is None or not all(whole) or not all(same):
        return None
    inputs = tuple(
        value if value.data is not None else _section(value, need) for value, need in pairs
    )
    return Node(op, inputs, _section(node.output, out), node.origin)


def _keeps_channels(value: Value, region: Region) -> bool:
    shape = value.shape
    return len(shape) == 4 and (region.shape[0], region.shape[3]) == (shape[0], shape[3])


def _section(value: Value, region: Region) -> Value:
    return Value(value.name, value.type.with_shape(region.shape))
