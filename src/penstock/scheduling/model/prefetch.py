"""Prefetch: a copy of a constant into faster memory before the calls that read it there.

Two engines make such copies.  A copy engine (DMA) copies a constant tensor for a processor, which
waits for the copy before the cascade that reads it.  An accelerator copies part of a kernel's table
during one of its own calls.  Either copy starts with the cascade that reads the constant, or one
cascade earlier to overlap with computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.ir.graph import Value
from penstock.ir.op import ConstantPrefetch
from penstock.scheduling.model.memory_assignment import MemoryAssignment


class PrefetchStart(Enum):
    """The cascade in which a prefetch starts, relative to the cascade that reads the constant."""

    PREVIOUS_CASCADE = "previous cascade"
    OWN_CASCADE = "own cascade"


@dataclass(frozen=True, slots=True)
class AcceleratorCopy:
    """What a prefetch by an accelerator copies, and for which part.

    part: index of the part that reads the copy, and whose accelerator makes it.
    prefetch: the bytes copied, and the commands for the copy.
    """

    part: int
    prefetch: ConstantPrefetch


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A copy of `size_bytes` of a constant from memory region `source` to region `target`.

    constant: name of the constant tensor, or of the kernel table for an accelerator's copy.
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
        """Whether the copy starts in the previous cascade."""
        return self.start is PrefetchStart.PREVIOUS_CASCADE

    @staticmethod
    def by_copy_engine(
        constant: Value, target: str, memory: MemoryAssignment, start: PrefetchStart
    ) -> Prefetch:
        """Return a prefetch by the copy engine of a constant tensor to memory region `target`.

        memory: defines the region of constants, from which the tensor is copied.
        """
        size = constant.type.size_bytes
        return Prefetch(constant.name, size, memory.constants, target, start)

    @staticmethod
    def by_accelerator(
        part: int, prefetch: ConstantPrefetch, memory: MemoryAssignment, start: PrefetchStart
    ) -> Prefetch:
        """Return a prefetch by an accelerator of a kernel table to the default region of tensors.

        part: index of the part whose kernel reads the table.
        prefetch: the bytes copied, and the commands for the copy.
        memory: defines the region of constants (the source) and the default region (the target).
        """
        source, target = memory.constants, memory.default
        copy = AcceleratorCopy(part, prefetch)
        return Prefetch(prefetch.table, prefetch.size_bytes, source, target, start, copy)
