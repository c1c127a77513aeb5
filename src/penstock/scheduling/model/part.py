"""Part: what runs as a unit on one engine, with the engine and the kernels that can run it.

A part has a preferred kernel, and possibly others: a fallback kernel that needs less scratch
memory, and kernels that read constants from a prefetched copy.  A plan (`Plan`) determines which of
them runs, by the scratch memory that it provides and the prefetches that it contains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.graph import Node, Value, Values
from penstock.ir.op import ConstantPrefetch, Kernel, Regions
from penstock.ir.tensor import Region, row_axis, row_before
from penstock.scheduling.model.stripe import StripeConfig


@frozen
class CallTraffic:
    """Work and memory traffic of one kernel call.

    macs: multiply-accumulates, including those that the kernel skips.
    read_bytes: bytes read from each input, constants included.
    previous_row_bytes: bytes read from the output row before the call's rows, if the kernel
        computes each row from the previous one; 0 for other kernels.
    written_bytes: bytes written to the output.
    """

    macs: int
    read_bytes: tuple[int, ...]
    previous_row_bytes: int
    written_bytes: int


@frozen(repr=False)
class Part(Brief):
    """A unit of scheduling: a node or a streamed input, its engine and its kernels.

    The `Part` of TVM RFC 0037, whose propagators are those of the node's operator.

    nodes: the node, which may be a composite of several; empty if the part is a streamed input.
    engine: name of the engine that runs the part.
    kernel: preferred kernel.
    streamed_input: for a part without nodes, the network input whose rows the application supplies
        during the run.
    fallback: kernel that runs where the scratch memory is too small for the preferred one; None if
        there is none.
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
        """Return this part with a single kernel: the preferred one if it fits, else the fallback.

        The preferred kernel fits if it needs at most `scratch_bytes` of scratch memory.  It also
        remains if there is no fallback kernel.
        """
        return self.with_kernel(self.kernel_within(scratch_bytes))

    @property
    def counts_accesses(self) -> bool:
        """Whether the cost of calls includes all accesses to memories on this board: that of a
        kernel with a cost at addresses replaces the estimate of the search."""
        return self.kernel.placed is not None

    @property
    def least_scratch_bytes(self) -> int:
        """Scratch bytes of the fallback kernel; if there is none, those of the preferred kernel."""
        return self.kernel_within(0).scratch_bytes

    @property
    def name(self) -> str:
        """Name of the part, which is the name of its output tensor."""
        return self.output.name

    @property
    def output(self) -> Value:
        """The tensor that the part computes."""
        return self.streamed_input if self.streamed_input is not None else self.nodes[-1].output

    @property
    def kind_and_origin(self) -> tuple[str, str]:
        """Operator kind of the node and its location in the model file, for reports.

        ("pull", "") for a streamed input, a network input whose rows the application supplies
        during the run.
        """
        return (self.nodes[-1].kind, self.nodes[-1].origin) if self.nodes else ("pull", "")

    @property
    def inputs(self) -> Values:
        """Operands of the kernel, constants included."""
        return self.nodes[-1].inputs if self.nodes else ()

    @property
    def constants(self) -> Values:
        """Constants that the kernel reads as the model stores them, such as weights.

        Scalars, and constants that are converted at compile time, are left out.
        """
        read = (self.inputs[k] for k, _ in self.kernel.constants)
        return tuple({v.name: v for v in read if v.rank}.values())

    def constant_reads_of_later_calls(self, constant: Value) -> tuple[int, int]:
        """Return what each call but the first adds to the cost of reading a constant.

        The result is (accesses, bytes).  In general, each call reads the whole constant: the result
        is (1, 4096) for a constant of 4096 bytes.  For an accumulating kernel
        (`Kernel.accumulates`), the first call is charged with all bytes, so a later call adds only
        its accesses: usually (1, 0).
        """
        if not self.kernel.accumulates:
            return 1, constant.type.size_bytes
        # Each call reads only the weights for its own rows; the last row represents all later ones.
        # There are two accesses if the constant is two inputs of the part.
        shape = self.output.shape
        axis = row_axis(len(shape))
        needs = self.needs(Region.whole(shape).replace(axis, (shape[axis] - 1, shape[axis])))
        pairs = zip(self.inputs, needs, strict=True)
        return sum(v.name == constant.name and not need.empty for v, need in pairs), 0

    @property
    def variable_inputs(self) -> Values:
        """Inputs that are not constant, each once."""
        made = {node.output.name for node in self.nodes}
        every = (v for node in self.nodes for v in node.variable_inputs if v.name not in made)
        return tuple({v.name: v for v in every}.values())

    def needs(self, out: Region) -> Regions:
        """Return, for each input, the region that is read to compute region `out` of the output.

        The result is empty if the part is a streamed input, a network input whose rows the
        application supplies during the run.
        """
        return tuple(r for node in self.nodes[-1:] for r in node.op.needs(node.site, out))

    def input_stripes(self, output: StripeConfig) -> tuple[StripeConfig, ...]:
        """Return, for each input, the stripes that are read to compute stripes of the output.

        They are derived with the affine propagators of the operator, so they are not clipped: in a
        layer with padding, a stripe may begin before the first row of the input.
        """
        return tuple(
            output.propagate(affine)
            for node in self.nodes[-1:]
            for affine in node.op.affine(node.site)
        )

    def in_place(self) -> tuple[int, ...]:
        """Return the indices of the inputs that the output may overwrite.

        They are stated by the operator (`Op.in_place`) or by the kernel (`Kernel.whole_in_place`).
        """
        stated = (k for node in self.nodes[-1:] for k in node.op.in_place(node.site))
        return (*stated, *self.kernel.whole_in_place)

    def macs(self, out: Region) -> int:
        """Return the multiply-accumulates of output region `out`, for all channels.

        The count includes channels whose result is constant, which the kernel skips.
        """
        return sum(node.op.work(node.site, out).macs for node in self.nodes[-1:])

    def executed_macs(self, nominal: int) -> int:
        """Return how many of `nominal` multiply-accumulates the kernel executes.

        nominal: multiply-accumulates of all output channels.  The kernel skips the channels whose
            result is constant.
        """
        shape = self.output.shape
        return self.kernel.executed_macs(nominal, shape[-1] if shape else 1)

    def traffic(self, outs: Iterable[Region]) -> list[CallTraffic]:
        """Return the work and traffic of calls, one for each region of the output in `outs`."""
        element = self.output.dtype.size_bytes
        if not self.nodes:
            return [CallTraffic(0, (), 0, out.elements * element) for out in outs]
        op, site = self.nodes[-1].op, self.nodes[-1].site
        sizes = [type.dtype.size_bytes for type in site.inputs]
        return [
            CallTraffic(
                op.work(site, out).macs,
                tuple(n.elements * m for n, m in zip(op.needs(site, out), sizes, strict=True)),
                row_before(out).elements * element if self.kernel.recurrent else 0,
                out.elements * element,
            )
            for out in outs
        ]


PULL = Kernel("pull", by_rows=True)
"""Kernel of a streamed input: a call asks the application for any interval of rows."""
