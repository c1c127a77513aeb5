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
    of_row: returns, for the part at a position, the fixed cycles that it spends on each row of each
        band, however many columns the band has (`BandSource.row_cycles`).
    """

    model: CostModel
    of_row: Callable[[int], float]


@dataclass(frozen=True, slots=True, eq=False)
class ChainCosts:
    """What the parts of a chain cost in its bands, and what they cost without recomputation.

    inside: positions of its parts, in ascending order.
    per_share: two rows, multiply-accumulates and cycles, with one entry per part: the cost of
        computing its output once, in the bands of the chain.  A part whose share of its output in
        all calls is 1.5 (`chain_shares`), because it computes half of it twice, costs 1.5 times as
        much.
    once: [multiply-accumulates, cycles] that all parts together need if they do not run as a chain,
        compute each element once, and run their preferred kernels.
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
