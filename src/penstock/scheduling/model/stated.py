"""Cascades as users state them: by names, so that they apply to the parts of any target.

`pipeline/stated_schedules.py` makes schedules of them, and states what a schedule does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields

from penstock.brief import Brief, shortened
from penstock.choices import one_of
from penstock.frozen import frozen
from penstock.scheduling.model.plan import BufferMode
from penstock.scheduling.model.stripe import StripeConfig


@frozen
class StatedChain:
    """Consecutive parts of a cascade that recompute the tensors between them; see `plan.Chain`."""

    parts: tuple[str, ...]
    columns: int
    keeps_halos: bool = False


@frozen
class StatedPrefetch:
    """A copy of constants by the accelerator that runs a part; see `plan.Prefetch`.

    table, size_bytes: the constant table, and how much of it is copied; None: as much as possible.
    early: whether the copy starts in the previous cascade, whose first call must be of the same
        accelerator; None: if that is so.
    """

    part: str
    table: str | None = None
    size_bytes: int | None = None
    early: bool | None = None


@frozen(repr=False)
class Cascade:
    """Parts that run together, stripe by stripe.

    parts: names of the parts, in execution order, or the name of one.  Only the output of the last
        one is read by parts outside of the cascade.
    stripe: shape of a stripe of the last part's output, one number per axis, or a configuration
        with its order of loops; None: `rows` applies.
    loops: the axes that are divided, the outermost loop first; by default in ascending order.
    modes: buffer modes (or their names, such as "recompute") of tensors between the parts, by name;
        `ROLLING` if not stated.  `DOUBLE` applies to the constants of the part of that name.
    rows: instead of `stripe`: the most rows that each part computes per call, wherever it can
        compute some rows; None: all rows.
    memory: names of memory regions, by the name of a tensor that the parts compute; the first
        memory of the target for others.
    scratch_bytes: memory for the kernels, which determines those that run; None: as much as the
        preferred kernels need.
    nearest_first, chains, columns, whole_requests: with `rows`: see `plan.Plan`.
    prefetches: copies of constants by the accelerator that runs the parts.
    """

    parts: tuple[str, ...]
    stripe: tuple[int, ...] | StripeConfig | None = None
    loops: tuple[int, ...] | None = None
    modes: Mapping[str, BufferMode] = field(default_factory=dict[str, BufferMode])
    rows: int | None = None
    memory: Mapping[str, str] = field(default_factory=dict[str, str])
    scratch_bytes: int | None = None
    nearest_first: bool = False
    chains: tuple[StatedChain, ...] = ()
    columns: int | None = None
    prefetches: tuple[StatedPrefetch, ...] = ()
    whole_requests: bool = False

    def __post_init__(self) -> None:
        known = [mode.value for mode in BufferMode]
        modes = {
            name: BufferMode(one_of(str(getattr(mode, "value", mode)), known, "modes"))
            for name, mode in self.modes.items()
        }
        object.__setattr__(self, "modes", modes)
        parts = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        object.__setattr__(self, "parts", parts)

    def __repr__(self) -> str:
        """Return what differs from a cascade of which only the parts are stated."""
        values = ((f.name, getattr(self, f.name), getattr(_PLAIN, f.name)) for f in fields(self))
        shown = (f"{name}={value!r}" for name, value, default in values if value != default)
        return shortened(f"Cascade({', '.join(shown)})")


_PLAIN = Cascade(())


@frozen(repr=False)
class StatedSchedule(Brief):
    """Cascades in execution order.  Parts that none of them names run alone, as whole layers.

    alternative: number of the equivalent graph whose parts they name (`Parts.alternative`); 0: the
        network's own.
    """

    cascades: tuple[Cascade, ...]
    alternative: int = 0
