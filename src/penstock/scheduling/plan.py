"""Plan: how one cascade runs.  A cascade is parts that run together, stripe by stripe."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ir.region import Region
from penstock.scheduling.cost import Cost


@dataclass(frozen=True, slots=True)
class Stripe:
    """The region of a part's output that is computed at one time."""

    region: Region


@dataclass(frozen=True, slots=True)
class Plan:
    """A cascade: its parts (indices into Parts, in order) and how each is striped.

    For now one part, and one stripe that is its whole output."""

    parts: tuple[int, ...]
    stripes: tuple[Stripe, ...]
    cost: Cost
