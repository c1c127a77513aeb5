"""Composite: several nodes as one operator, which an accelerator runs as a unit.

What is inside computes as it would outside; nothing outside sees the tensors between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.brief import Brief
from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType

if TYPE_CHECKING:
    from penstock.ir.graph import Node

Attribute = str | int | bool | float | bytes | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True, repr=False)
class Composite(Brief):
    """Nodes in topological order, of which the last computes the output; `inputs` names the values
    that the composite's inputs are inside, constants too, in order.

    `name`: the pattern that found them; `engine`: the accelerator that claims them; `attributes`:
    what passes say of it; `chosen`: how the accelerator runs it, once that is decided; `lean`: how
    it does with the least scratch, where that is less; `fetching`: how it does where constants
    have been fetched before."""

    name: str
    engine: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    chosen: Kernel | None = None
    lean: Kernel | None = None
    fetching: tuple[Kernel, ...] = ()
    _known: dict[Region, Mapping[str, Region]] = field(
        default_factory=dict[Region, Mapping[str, Region]], init=False, repr=False, compare=False
    )

    FOREIGN: ClassVar[tuple[str, ...]] = ()
    ALIAS: ClassVar[bool] = False

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        """The type of the last node's output."""
        del inputs
        return self.nodes[-1].output.type

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        """Node by node, only what the region needs; the rest stays zero and is not read."""
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

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        """What the nodes that read an input need of it: the smallest region that contains it."""
        wanted = self._wanted(out)
        nothing = (Region.of(*((0, 0) for _ in type.shape)) for type in site.inputs)
        return tuple(wanted.get(n, empty) for n, empty in zip(self.inputs, nothing, strict=True))

    def affine(self, site: Site) -> tuple[Affine, ...]:
        """The product along the path from an input to the output; the whole input where several
        paths that differ lead there."""
        rank = site.output.rank
        path = {self.nodes[-1].name: Affine.diagonal((1,) * rank)}
        for node in reversed(self.nodes):
            if node.name not in path:
                continue
            for value, step in zip(node.inputs, node.op.affine(node.site), strict=True):
                product = step @ path[node.name]
                other = path.get(value.name, product)
                path[value.name] = (
                    product if other == product else Affine.constant(value.type.shape, rank)
                )
        shapes = zip(self.inputs, site.inputs, strict=True)
        return tuple(path.get(n, Affine.constant((0,) * t.rank, rank)) for n, t in shapes)

    def work(self, site: Site, out: Region) -> Work:
        """The sum of what the nodes do."""
        del site
        wanted = self._wanted(out)
        every = [n.op.work(n.site, wanted[n.name]) for n in self.nodes if n.name in wanted]
        return Work(
            sum(w.macs for w in every),
            sum(w.elements for w in every),
            sum(w.loops for w in every),
        )

    def kernel(self, site: Site) -> Kernel:
        """How the accelerator runs it, which is decided when the graph has been partitioned."""
        del site
        assert self.chosen is not None, f"{self.name} has no implementation yet"
        return self.chosen

    def in_place(self, site: Site) -> tuple[int, ...]:
        """None: an accelerator may read and write in any order."""
        del site
        return ()

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute | None:
        """What a pass said of it under that name."""
        return dict(self.attributes).get(name, default)

    def _wanted(self, out: Region) -> Mapping[str, Region]:
        """By value inside, the region of it that region `out` of the output needs, if it needs any:
        of padding, nothing is read.  Found once for each region: searches ask again and again."""
        if out not in self._known:
            self._known[out] = self._found(out)
        return self._known[out]

    def _found(self, out: Region) -> Mapping[str, Region]:
        """The same, from the last node upwards."""
        wanted = {} if out.empty else {self.nodes[-1].name: out}
        for node in reversed(self.nodes):
            if node.name in wanted:
                needs = node.op.needs(node.site, wanted[node.name])
                for value, need in zip(node.inputs, needs, strict=True):
                    if not need.empty:
                        wanted[value.name] = wanted.get(value.name, need).hull(need)
        return wanted


def _computed(node: Node, known: Mapping[str, Array], wanted: Mapping[str, Region]) -> Array:
    """What is wanted of the node's output."""
    operands = tuple(known[value.name] for value in node.inputs)
    return node.op.evaluate(node.site, operands, wanted[node.name])
