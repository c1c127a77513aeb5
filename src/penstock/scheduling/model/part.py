"""Part: the schedulable unit, a graph node with the engine and the kernels that can run it.

A part has one preferred kernel and optional variants: a fallback kernel that needs less scratch
memory, and kernels that read constants from a prefetched copy.  `Plan` selects the variant: by the
scratch bytes that the plan provides, and by the prefetches that it contains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.brief import Brief
from penstock.ir.graph import Node, Value
from penstock.ir.op import ConstantPrefetch, Kernel, row_axis
from penstock.ir.region import Region


@dataclass(frozen=True, slots=True, repr=False)
class Part(Brief):
    """A unit of scheduling: one node, its engine and its kernels.

    nodes: the node that the kernel computes, as a tuple of one; empty for a streamed input.
    engine: name of the engine that runs the part.
    kernel: preferred kernel.
    streamed_input: for a part without nodes, the network input whose rows the caller supplies.
    fallback: kernel with the least scratch; used where a plan has no room for `kernel`'s scratch.
    prefetching: kernels that read constants from a prefetched copy, by increasing copy size.
    """

    nodes: tuple[Node, ...]
    engine: str
    kernel: Kernel
    streamed_input: Value | None = None
    fallback: Kernel | None = None
    prefetching: tuple[Kernel, ...] = ()

    def with_kernel(self, kernel: Kernel) -> Part:
        """Return this part with `kernel` as its only kernel."""
        if self.fallback is None and not self.prefetching and self.kernel is kernel:
            return self
        return replace(self, kernel=kernel, fallback=None, prefetching=())

    def kernel_within(self, scratch_bytes: int) -> Kernel:
        """Return the preferred kernel if `scratch_bytes` suffice for it, else the fallback kernel.

        A part without a fallback kernel always runs the preferred one.
        """
        if self.fallback is not None and self.kernel.scratch_bytes > scratch_bytes:
            return self.fallback
        return self.kernel

    def kernel_for(self, prefetch: ConstantPrefetch) -> Kernel:
        """Return the kernel that reads the constants copied by `prefetch`."""
        return next(kernel for kernel in self.prefetching if kernel.prefetch == prefetch)

    def within(self, scratch_bytes: int) -> Part:
        """Return this part with one kernel: the preferred one if it fits, else the fallback kernel.

        The preferred kernel fits if it needs at most `scratch_bytes`, or if there is no other.
        """
        return self.with_kernel(self.kernel_within(scratch_bytes))

    @property
    def least_scratch_bytes(self) -> int:
        """Scratch bytes of the kernel that needs the least."""
        return self.kernel_within(0).scratch_bytes

    @property
    def name(self) -> str:
        """Name of the output tensor."""
        return self.output.name

    @property
    def output(self) -> Value:
        """The tensor that the part computes."""
        return self.streamed_input if self.streamed_input is not None else self.nodes[-1].output

    @property
    def kind_and_origin(self) -> tuple[str, str]:
        """Operator kind and location in the model file, for reports.

        ("pull", "") for a streamed input.
        """
        return (self.nodes[-1].kind, self.nodes[-1].origin) if self.nodes else ("pull", "")

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Operands of the kernel, constants included."""
        return self.nodes[-1].inputs if self.nodes else ()

    @property
    def constants(self) -> tuple[Value, ...]:
        """Constant arrays that the kernel reads as stored in the model, such as weights."""
        read = (self.inputs[k] for k, _ in self.kernel.constants)
        return tuple({v.name: v for v in read if v.type.rank}.values())

    def constant_reads_of_later_calls(self, constant: Value) -> tuple[int, int]:
        """Return (number of regions, bytes) of a constant that each call after the first one reads.

        This is the whole constant, unless the part accumulates.  A call of an accumulating part
        reads only the weights of its own rows, so that all calls together read the constant once;
        the first call is charged with all these bytes, and later calls with none.
        """
        if not self.kernel.accumulates:
            return 1, constant.type.size_bytes
        shape = self.output.type.shape
        axis = row_axis(len(shape))
        needs = self.needs(Region.whole(shape).replace(axis, (shape[axis] - 1, shape[axis])))
        pairs = zip(self.inputs, needs, strict=True)
        return sum(v.name == constant.name and not need.empty for v, need in pairs), 0

    @property
    def variable_inputs(self) -> tuple[Value, ...]:
        """Non-constant tensors that the part reads and does not compute itself."""
        made = {node.output.name for node in self.nodes}
        every = (v for node in self.nodes for v in node.variable_inputs if v.name not in made)
        return tuple({v.name: v for v in every}.values())

    def needs(self, out: Region) -> tuple[Region, ...]:
        """Return, for each input, the region that is read to compute region `out` of the output."""
        return tuple(r for node in self.nodes[-1:] for r in node.op.needs(node.site, out))

    def in_place(self) -> tuple[int, ...]:
        """Return the indices of the inputs that the output may overwrite (see `Op.in_place`)."""
        return tuple(k for node in self.nodes[-1:] for k in node.op.in_place(node.site))

    def macs(self, out: Region) -> int:
        """Return the multiply-accumulates of output region `out`, skipped channels included."""
        return sum(node.op.work(node.site, out).macs for node in self.nodes[-1:])

    def executed_macs(self, nominal: int) -> int:
        """Return how many of `nominal` multiply-accumulates the kernel executes.

        The kernel skips output channels whose result is constant.
        """
        shape = self.output.type.shape
        return self.kernel.executed_macs(nominal, shape[-1] if shape else 1)


PULL = Kernel("pull", by_rows=True)
"""Kernel of a streamed input: the caller supplies any interval of rows."""
