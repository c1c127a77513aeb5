"""Plan: how to run one cascade, a sequence of parts that are interleaved stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from enum import Enum
from functools import reduce

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import ConstantPrefetch, Kernel
from penstock.ir.tensor import Region
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.stripe import Stripes, count_stripes


class PrefetchStart(Enum):
    """The cascade in which a prefetch starts.

    OWN_CASCADE: the cascade that reads the copy.
    PREVIOUS_CASCADE: the cascade just before that one, so that the copy overlaps with computation.
    """

    PREVIOUS_CASCADE = "previous cascade"
    OWN_CASCADE = "own cascade"


@frozen
class Prefetch:
    """A copy of constants from memory region `source` to region `target`.

    part: index of the part that reads the copy.
    copy: the bytes copied, and the commands for the copy.
    start: the cascade in whose first call the copy starts.

    The copy occupies memory in `target` until the cascade that reads it ends.
    """

    part: int
    copy: ConstantPrefetch
    source: str
    target: str
    start: PrefetchStart

    @property
    def early(self) -> bool:
        """Whether the copy starts one cascade before the cascade that reads it."""
        return self.start is PrefetchStart.PREVIOUS_CASCADE

    @property
    def size_bytes(self) -> int:
        """Bytes that are copied."""
        return self.copy.size_bytes

    @staticmethod
    def of(
        part: int, copy: ConstantPrefetch, memory: MemoryAssignment, start: PrefetchStart
    ) -> Prefetch:
        """Return a prefetch from the region of constants to the default region of `memory`."""
        return Prefetch(part, copy, memory.constants, memory.default, start)


@frozen
class Chain:
    """Parts of a cascade that run as a single part, whose intermediate tensors are recomputed.

    parts: indices in `Parts.parts`, in execution order; in the search, positions in the order.
    columns: number of columns of a band; each call computes its rows band by band.
    keeps_halos: whether a band keeps columns that the next one needs, or both compute them.
    """

    parts: tuple[int, ...]
    columns: int
    keeps_halos: bool = False


@frozen(repr=False)
class Plan(Brief):
    """How to run a cascade (parts interleaved stripe by stripe), and its cost.

    The `Plan` of TVM RFC 0037.

    parts: indices into `Parts.parts`, in execution order.
    stripe: maximum number of output rows that a part computes per call; None: all rows.  If a call
        does not compute all rows, those that it computes are of one image.
    nearest_first: if a call lacks rows of several inputs, the order in which these are computed:
        the input of highest advance first if False, the input of lowest advance first if True.  The
        advance of a tensor is high if its first few rows already require many rows of the network's
        inputs (`row_tables.advances`).
    costs: cost of each part, in the order of `parts`; empty before costing.
    prefetches: copies of constants that accelerators make for this cascade.
    waiting: cost of the stalls that prefetches cause; zero if `costs` includes these stalls, as
        costs computed after placement may.
    scratch_bytes: size of the scratch memory, which the parts use one after the other.  A part runs
        its preferred kernel if this memory is large enough for it, else its fallback kernel.  If an
        accelerator prefetches constants for a part, the part runs the kernel that reads the copy.
    placed_scratch_bytes: size of the scratch memory at the addresses of a placement, where that is
        more, because rows of tensors are scattered in memory; 0 before placement.
    breakdowns: cycles of each part by hardware resource, which depend on tensor addresses; None for
        a part without this information.  Empty before placement.

    In a schedule, single parts stand for parts that run in bands of columns or in tiles
    (`Schedule.bands`, `FusedPart`).  The search and the text of a schedule refer to the
    original parts instead.  Their plans state in addition:

    columns: number of columns of a band, if the whole cascade runs in bands.  `stripe` and
        `scratch_bytes` then apply inside each band, and `costs` has one entry, for all bands.
    chains: in execution order.  `scratch_bytes` does not include the memory of the tensors that
        they recompute, and `costs` has one entry for all parts of a chain, in the place of the last
        one.
    in_tiles: whether an accelerator runs the parts as one, tile by tile; `costs` then has a single
        entry.
    whole_requests: whether a part computes all rows that a call of another part lacks in one call,
        even if they are more than `stripe`.  They are live at the same time in any case.  A part
        that is a cascade of its own computes as many stripes in a call as do not raise the peak, or
        as many rows if that saves calls.
    """

    parts: tuple[int, ...]
    stripe: int | None
    nearest_first: bool = False
    costs: tuple[Cost, ...] = ()
    prefetches: tuple[Prefetch, ...] = ()
    scratch_bytes: int = 0
    waiting: Cost = NOTHING
    placed_scratch_bytes: int = 0
    breakdowns: tuple[Breakdown | None, ...] = field(default=(), compare=False)
    columns: int | None = None
    chains: tuple[Chain, ...] = ()
    in_tiles: bool = False
    whole_requests: bool = False

    @property
    def in_bands(self) -> bool:
        """Whether the cascade, or a chain of it, runs in bands of columns."""
        return self.columns is not None or bool(self.chains)

    def with_scratch(self, scratch_bytes: int) -> Plan:
        """Return a plan without costs with other scratch memory."""
        # called very often, and faster than `dataclasses.replace`
        return Plan(
            self.parts,
            self.stripe,
            self.nearest_first,
            prefetches=self.prefetches,
            scratch_bytes=scratch_bytes,
            columns=self.columns,
            chains=self.chains,
            whole_requests=self.whole_requests,
        )

    @property
    def bare(self) -> Plan:
        """The plan without costs and breakdowns.

        It is the key under which costs are memoised, and the start of a variant with new costs.
        """
        if not self.costs:
            return self
        return replace(self, costs=(), waiting=NOTHING, breakdowns=())

    @property
    def scratch_block_bytes(self) -> int:
        """Size of the memory block of the scratch memory; 0 for none."""
        return max(self.scratch_bytes, self.placed_scratch_bytes)

    def has_scratch(self, kernel: Kernel) -> bool:
        """Whether calls of a kernel receive the address of the scratch memory."""
        may_need = kernel.placed_scratch is not None and self.scratch_block_bytes > 0
        return kernel.scratch_bytes > 0 or may_need

    def kernel(self, k: int, part: Part) -> Kernel:
        """Return the kernel of `part` that this plan runs.

        k: index of the part in `Parts.parts`.
        """
        for prefetch in self.prefetches:
            if prefetch.part == k:
                return part.kernel_for(prefetch.copy)
        return part.kernel_within(self.scratch_bytes)

    def with_selected_kernel(self, k: int, part: Part) -> Part:
        """Return `part` with only one kernel: the one that this plan runs.

        k: index of the part in `Parts.parts`.
        """
        return part.with_kernel(self.kernel(k, part))

    @property
    def cost(self) -> Cost:
        """Total cost of the cascade: of its parts, and of its prefetches."""
        return reduce(Cost.__add__, self.costs, self.waiting)


class BufferMode(Enum):
    """How much of a tensor is in memory while a cascade runs.

    FULL: all of it, since parts outside the cascade write or read it, or since one call computes
        it.
    ROLLING: the rows that have been computed and that are still to be read.  Each is computed once.
    RECOMPUTE: only the columns of the band that is being computed and, in a chain, only the rows
        that the current call needs.  Elements that several bands or calls need are computed several
        times, except columns that a band keeps for the next one.
    DOUBLE: of constants, which the accelerator of a part copies while earlier calls run: as much as
        the next calls read, beside what the current ones read (`Prefetch`).
    """

    FULL = "full"
    ROLLING = "rolling"
    RECOMPUTE = "recompute"
    DOUBLE = "double"


@frozen(repr=False)
class TensorConfig(Brief):
    """In which stripes a plan computes a tensor, and how much of it is kept.

    tensor: name of the tensor.
    memory: name of the memory region that holds the tensor.
    mode: how much of the tensor is in memory while the plan runs.
    stripes: the stripes, one per kernel call, as a sequence of stripe configurations.  Several
        configurations are needed if the sizes or distances of the stripes change.  For example, the
        first rows of a tensor may be computed in smaller stripes.  The stripes are in execution
        order, except those of a tensor that is computed in bands of columns: each configuration
        then lists its stripes band by band, even if they are executed in another order.
    """

    tensor: str
    memory: str
    mode: BufferMode
    stripes: Stripes

    @property
    def count(self) -> int:
        """Number of stripes, and so of kernel calls."""
        return count_stripes(self.stripes)

    def regions(self) -> Iterator[Region]:
        """Yield the region of the tensor that each kernel call computes."""
        for config in self.stripes:
            yield from config.regions()
