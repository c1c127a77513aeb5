"""ChainPlan: the memory and the cycles of a cascade that recomputes some of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.scheduling.bands.chain_shape import ChainShape
from penstock.scheduling.model.cost import CostModel


@dataclass(frozen=True, slots=True)
class PartCycles:
    """Cycles of the parts of an execution order.

    model: estimates the cycles of parts.
    of_row: function from the position of a part to those of its cycles for a row of a band that do
        not depend on the number of columns (`BandSource.row_cycles`).
    """

    model: CostModel
    of_row: Callable[[int], float]


@dataclass(frozen=True, slots=True, eq=False)
class ChainCosts:
    """The costs of a chain, which depend on how much each part computes in all calls together.

    inside: positions of its parts.
    per_share: multiply-accumulates, and cycles, of each part for all elements of its output, as two
        rows.  Multiplied by the share of the elements that the part computes, they are its costs.
    once: the sums of these numbers without recomputation: the multiply-accumulates, and the cycles
        that the preferred kernels take.
    """

    inside: np.ndarray
    per_share: np.ndarray
    once: np.ndarray


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A choice of the tensors that a cascade recomputes, with the cascade's memory and cycles.

    chains: shape of each chain, by the position of its last part.
    peak_bytes: live bytes at the peak of the cascade.
    time: estimated cycles of the overhead of calls, of recomputation, and of the delay by fallback
        kernels.  Left out are the cycles in which the preferred kernels compute each element once;
        they are the same for all plans of the cascade.
    macs: multiply-accumulates that recomputation adds.
    stripe: maximum number of rows per call.
    """

    chains: dict[int, ChainShape]
    peak_bytes: int
    time: int
    macs: float
    stripe: int

    @property
    def members(self) -> frozenset[int]:
        """Positions of the parts whose outputs are recomputed."""
        return frozenset(p for chain in self.chains.values() for p in chain.members)
