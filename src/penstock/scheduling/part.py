"""Part: nodes that run as one unit on one engine; Parts: the graph cut into them.

A part may have two kernels: the fastest one, and the one of least scratch, which serves where
there is no room for the scratch of the fastest.  A plan says how much room there is
(`Plan.scratch_bytes`).  And it may have others for which constants have been fetched before; a plan
says how many bytes (`Plan.fetched`).

A tensor's *storage* is the memory that holds it.  A value that is the bytes of another under a new
shape (an alias) shares its storage, so nodes that only make aliases are no parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.brief import Brief
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Fetch, Kernel, row_axis
from penstock.ir.region import Region
from penstock.scheduling.rows import RowParts


@dataclass(frozen=True, slots=True, repr=False)
class Part(Brief):
    """Nodes that run as one unit, for now one node, with the kernel that serves it.

    Or, without nodes, `pulled`: the input of the network whose rows the caller hands over.
    `lean`: the kernel of least scratch, which serves it where there is no room for `kernel`'s.
    `fetching`: kernels for which constants are fetched, by how many bytes."""

    nodes: tuple[Node, ...]
    engine: str
    kernel: Kernel
    pulled: Value | None = None
    lean: Kernel | None = None
    fetching: tuple[Kernel, ...] = ()

    def by(self, kernel: Kernel) -> Part:
        """The part with this kernel alone."""
        if self.lean is None and not self.fetching and self.kernel is kernel:
            return self
        return replace(self, kernel=kernel, lean=None, fetching=())

    def kernel_within(self, scratch_bytes: int) -> Kernel:
        """The kernel that serves it where there is so much room for scratch."""
        if self.lean is not None and self.kernel.scratch_bytes > scratch_bytes:
            return self.lean
        return self.kernel

    def kernel_for(self, fetch: Fetch) -> Kernel:
        """The kernel for which this is fetched."""
        return next(kernel for kernel in self.fetching if kernel.fetch == fetch)

    def within(self, scratch_bytes: int) -> Part:
        """The part with that kernel alone."""
        return self.by(self.kernel_within(scratch_bytes))

    @property
    def least_scratch_bytes(self) -> int:
        """Scratch that it cannot do without."""
        return self.kernel_within(0).scratch_bytes

    @property
    def name(self) -> str:
        return self.output.name

    @property
    def output(self) -> Value:
        return self.pulled if self.pulled is not None else self.nodes[-1].output

    @property
    def kind_and_origin(self) -> tuple[str, str]:
        """What the part does, and where it stands in the model file, in the user's words."""
        return (self.nodes[-1].kind, self.nodes[-1].origin) if self.nodes else ("pull", "")

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What the part's kernel reads, constants included."""
        return self.nodes[-1].inputs if self.nodes else ()

    @property
    def constants(self) -> tuple[Value, ...]:
        """Arrays that the kernel reads as they stand in the model, such as weights."""
        read = (self.inputs[k] for k, _ in self.kernel.constants)
        return tuple({v.name: v for v in read if v.type.rank}.values())

    def read_again(self, constant: Value) -> tuple[int, int]:
        """Regions and bytes of a constant that each call for rows but the first ones reads.

        All of it; but where the part accumulates, each call reads what its own rows multiply, so
        that calls for all rows read it once: the first one is charged with that."""
        if not self.kernel.accumulates:
            return 1, constant.type.size_bytes
        shape = self.output.type.shape
        axis = row_axis(len(shape))
        needs = self.needs(Region.whole(shape).replace(axis, (shape[axis] - 1, shape[axis])))
        pairs = zip(self.inputs, needs, strict=True)
        return sum(v.name == constant.name and not need.empty for v, need in pairs), 0

    @property
    def variable_inputs(self) -> tuple[Value, ...]:
        """Values that the part reads and does not make."""
        made = {node.output.name for node in self.nodes}
        every = (v for node in self.nodes for v in node.variable_inputs if v.name not in made)
        return tuple({v.name: v for v in every}.values())

    def needs(self, out: Region) -> tuple[Region, ...]:
        """Region of each input that region `out` of the output reads."""
        return tuple(r for node in self.nodes[-1:] for r in node.op.needs(node.site, out))

    def in_place(self) -> tuple[int, ...]:
        """Inputs over which the output may be written, see Op."""
        return tuple(k for node in self.nodes[-1:] for k in node.op.in_place(node.site))

    def macs(self, out: Region) -> int:
        """Nominal multiply-accumulates of region `out` of the output."""
        return sum(node.op.work(node.site, out).macs for node in self.nodes[-1:])

    def executed_macs(self, nominal: int) -> int:
        """How many of the nominal multiply-accumulates of some rows the part's kernel executes."""
        shape = self.output.type.shape
        return self.kernel.executed_macs(nominal, shape[-1] if shape else 1)


@dataclass(frozen=True, slots=True, repr=False)
class Left(Brief):
    """A node that accelerators leave to the processor: why, and what it costs there in cycles."""

    node: Node
    reason: str
    cycles: int


PULL = Kernel("pull", by_rows=True)
"""What stands for the caller, who hands over any rows."""


@dataclass(frozen=True, repr=False)
class Parts(Brief):
    """The graph as parts, in the graph's order; `accelerators`: the engines beside the processor,
    by name; `left`: where there are some, the nodes that none of them runs."""

    graph: Graph
    parts: tuple[Part, ...]
    accelerators: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Inputs of the graph that are there before anything runs."""
        pulled = {part.name for part in self.parts if part.pulled is not None}
        return tuple(v for v in self.graph.inputs if v.name not in pulled)

    @cached_property
    def fetches(self) -> bool:
        """Whether constants can be fetched for any part."""
        return any(part.fetching for part in self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the graph's values, which no other buffer may have."""
        return self.graph.names()

    @cached_property
    def rows(self) -> RowParts:
        """What each part needs, row by row."""
        return RowParts.of(self)

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """By name of a computed value or input, the name of the value whose storage holds it."""
        found = {value.name: value.name for value in self.graph.variables()}
        for node in self.graph.nodes:
            if node.op.ALIAS and node.inputs[0].data is None:
                found[node.output.name] = found[node.inputs[0].name]
        return found
