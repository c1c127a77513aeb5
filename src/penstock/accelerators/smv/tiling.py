"""tiling: how a kernel call is split into tiles that fit the scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from penstock.accelerators.smv.layers import layer_of_call
from penstock.uma import (
    AcceleratorTarget,
    Copies,
    Layer,
    LeastTraffic,
    Offloaded,
    PenstockError,
    Scratchpads,
    Smaug,
    Tiler,
    Tiling,
    choose,
)

ALIGNMENT = 8
"""The number of elements per pixel of a tile is rounded up to a multiple of this, the width of a
vector."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""The default timing of copies in cycles.  Source of the 100 cycles per copy: SMAUG's configuration
of its DMA engine; the other figures are assumptions."""
PROCESSING_ELEMENTS, MULTIPLIERS = 8, 32
"""The default number of processing elements, and of multipliers in each of them.
Source: SMAUG, SMV backend (kNumPEs, kNumMaccsPerPE)."""
TILERS: Mapping[str, Tiler] = {"least_traffic": LeastTraffic(), "smaug": Smaug()}


def scratchpads(target: AcceleratorTarget) -> Scratchpads:
    """Return the three scratchpads, with the sizes that the accelerator's attributes define.

    Partial sums stay in the scratchpad of outputs: they are never stored to memory."""
    sizes = (int(target.attrs[f"{role}_bytes"]) for role in ("input", "weights", "output"))
    return Scratchpads.separate(
        *sizes,
        alignment=ALIGNMENT,
        double_buffered=bool(target.attrs["double_buffering"]),
        spills=False,
        copies=replace(COPIES, bytes_per_cycle=int(target.attrs["bytes_per_cycle"])),
    )


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling:
    """Return the tiling of a call that computes `rows` consecutive output rows.

    The tiling is valid for any position of these rows in the output.  If `rows` is None, the call
    computes the whole output.

    Raises PenstockError if the tiler finds no tiling."""
    layer = layer_on_engine(offloaded, rows)
    return _tiled(_tiler(offloaded), layer, scratchpads(offloaded.target))


def rows_at_once(offloaded: Offloaded, rows: int) -> int:
    """Return the largest number of rows, at most `rows`, for which the tiler finds a tiling.

    If it finds none for two rows or more, the result is 1.  A call with more rows computes them in
    intervals of this length.

    A tiler that can split rows finds a tiling for every number of rows.  SMAUG's tiler may find
    none for some number although it finds tilings for fewer rows and for more."""
    for fewer in range(rows, 1, -1):
        with suppress(PenstockError):
            tiling_of(offloaded, fewer)
            return fewer
    return 1


def why_no_tile(offloaded: Offloaded) -> str:
    """Return the reason why a layer cannot be tiled, or an empty text if it can.

    Both a call that computes all rows and a call that computes one row must have a tiling.  A batch
    of images is always computed in one call."""
    shape = offloaded.output.shape
    try:
        for rows in (None,) if len(shape) == 4 and shape[0] > 1 else (None, 1):
            tiling_of(offloaded, rows)
    except PenstockError as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """Return a call that computes `rows` consecutive output rows as a loop nest, for the tiler.

    If `rows` is None, the call computes the whole output.  SMAUG's rule receives unary and
    element-wise operators as a loop over all elements."""
    return layer_of_call(offloaded, rows, flat=isinstance(_tiler(offloaded), Smaug))


def _tiler(offloaded: Offloaded) -> Tiler:
    """Return the tiler of a composite: one that is registered, or the accelerator's attribute."""
    return offloaded.tiler(TILERS[str(offloaded.target.attrs["tiler"])])


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    """Return the tiling that the tiler chooses for a layer and the scratchpads `memories`.

    Results are cached.  Raises PenstockError if there is no tiling."""
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)
