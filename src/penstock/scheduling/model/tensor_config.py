"""TensorConfig: in which stripes a plan computes a tensor, and how much of it is kept.

Source: TVM RFC 0037 and its class `TensorConfig`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.brief import Brief
from penstock.ir.region import Region
from penstock.scheduling.model.stripe import Stripes, count_stripes


class BufferMode(Enum):
    """How much of a tensor is in memory while a cascade runs.

    FULL: all of it, since parts outside the cascade write or read it, or since one call computes
        it.
    ROLLING: the rows that have been computed and that are still to be read.  Each is computed once.
    RECOMPUTE: only the columns of the band that is being computed and, in a chain, only the rows
        that the current call needs.  Elements that several bands or calls need are computed several
        times, except columns that a band keeps for the next one.
    """

    FULL = "full"
    ROLLING = "rolling"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True, repr=False)
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
