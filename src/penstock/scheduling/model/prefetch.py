"""Prefetch: a copy of a constant into faster memory, before calls that read the copy.

Two kinds of engine make such copies:

- A copy engine (DMA) copies a constant tensor for a processor.  The processor waits for the end of
  the copy before the cascade that reads it.
- An accelerator copies the first bytes of a kernel's constant table, during one of its own calls.

A copy starts in the cascade that reads it or, to overlap with computation, one cascade earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.ir.graph import Value
from penstock.ir.op import ConstantPrefetch
from penstock.scheduling.model.memories import MemoryAssignment


class PrefetchStart(Enum):
    """The cascade in which a prefetch starts.

    OWN_CASCADE: the cascade that reads the copy.
    PREVIOUS_CASCADE: the cascade just before that one, so that the copy overlaps with computation.
    """

    PREVIOUS_CASCADE = "previous cascade"
    OWN_CASCADE = "own cascade"


@dataclass(frozen=True, slots=True)
class AcceleratorCopy:
    """A copy of constants that an accelerator makes for one of its parts.

    part: index of the part that reads the copy.
    prefetch: the bytes copied, and the commands for the copy.
    """

    part: int
    prefetch: ConstantPrefetch


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A copy of `size_bytes` of a constant from memory region `source` to region `target`.

    constant: name of what is copied.  A copy engine copies a constant tensor, an accelerator a
        table of constants of a kernel.
    start: the cascade in which the copy starts.  A copy engine starts it when that cascade begins,
        an accelerator in the first call of that cascade.
    accelerator: details of a copy that an accelerator makes; None if the copy engine makes it.

    The copy occupies memory in `target` until the cascade that reads it ends.
    """

    constant: str
    size_bytes: int
    source: str
    target: str
    start: PrefetchStart
    accelerator: AcceleratorCopy | None = None

    @property
    def early(self) -> bool:
        """Whether the copy starts one cascade before the cascade that reads it."""
        return self.start is PrefetchStart.PREVIOUS_CASCADE

    @staticmethod
    def by_copy_engine(
        constant: Value, target: str, memory: MemoryAssignment, start: PrefetchStart
    ) -> Prefetch:
        """Return a prefetch in which the copy engine copies a constant tensor.

        target: name of the memory region to copy to.
        memory: defines the region of constants, from which the tensor is copied.
        start: the cascade in which the copy starts.
        """
        size = constant.type.size_bytes
        return Prefetch(constant.name, size, memory.constants, target, start)

    @staticmethod
    def by_accelerator(
        part: int, prefetch: ConstantPrefetch, memory: MemoryAssignment, start: PrefetchStart
    ) -> Prefetch:
        """Return a prefetch in which an accelerator copies bytes of a kernel's constant table.

        part: index of the part whose kernel reads the table.
        prefetch: the bytes copied, and the commands for the copy.
        memory: defines the region of constants (the source) and the default region (the target).
        start: the cascade in which the copy starts.
        """
        source, target = memory.constants, memory.default
        copy = AcceleratorCopy(part, prefetch)
        return Prefetch(prefetch.table, prefetch.size_bytes, source, target, start, copy)
