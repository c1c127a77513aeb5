"""Prefetch: a copy of constants into faster memory, which an accelerator makes during its calls.

The accelerator copies the first bytes of a constant table of a kernel: in the first call of the
cascade that reads the copy or, to overlap with more computation, of the previous cascade.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
