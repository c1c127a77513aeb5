"""tiling: how a kernel call is split into tiles that fit the scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import product

from penstock.uma import (
    AcceleratorTarget,
    CapacityError,
    Copies,
    Layer,
    LeastTraffic,
    Offloaded,
    Scratchpads,
    Tiler,
    TileSequence,
    TileSequencer,
    Tiling,
    UnsupportedError,
    choose,
    choose_sequence,
)
from penstock_smv.layers import layer_of_call
from penstock_smv.smaug import Smaug

ALIGNMENT = 8
"""The number of elements per pixel of a tile is rounded up to a multiple of this, the width of a
vector."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""The default timing of copies in cycles.  Source of the 100 cycles per copy: SMAUG's configuration
of its DMA engine; the other figures are assumptions."""
PROCESSING_ELEMENTS, MULTIPLIERS = 8, 32
"""The default number of processing elements, and of multipliers in each of them.
Source: SMAUG, SMV backend (kNumPEs, kNumMaccsPerPE)."""
REFUSALS = (CapacityError, UnsupportedError)
"""The errors by which a tiler refuses a layer.  Any other error is a mistake of the tiler."""
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


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling | TileSequence:
    """Return the tiling of a call that computes `rows` consecutive output rows.

    The tiling is valid for any position of these rows in the output.  If `rows` is None, the call
    computes the whole output.  If the tiler is a `TileSequencer`, the result is a sequence of tiles
    for the whole output, whatever the value of `rows`.

    Raises CapacityError or UnsupportedError (`REFUSALS`) if the tiler finds no tiling."""
    tiler, memories = _tiler(offloaded), scratchpads(offloaded.target)
    if isinstance(tiler, TileSequencer):
        return _sequence(tiler, layer_on_engine(offloaded), memories)
    return _tiled(tiler, layer_on_engine(offloaded, rows), memories)


def rows_at_once(offloaded: Offloaded, rows: int) -> int:
    """Return the largest number of rows, at most `rows`, for which the tiler finds a tiling.

    If the tiler finds none for two rows or more, the result is 1.  A call that computes more rows
    than the result divides them into intervals of this length.

    The function tries every number from `rows` down, because a tiler that cannot split rows, such
    as SMAUG's, may find a tiling for 4 and for 6 rows, for example, but none for 5."""
    for fewer in range(rows, 1, -1):
        with suppress(*REFUSALS):
            tiling_of(offloaded, fewer)
            return fewer
    return 1


def why_no_tile(offloaded: Offloaded) -> str:
    """Return why the tiler finds no tiling for the calls of a layer, as a phrase for an error
    message; "" if it finds one for each.

    Calls compute all rows of the output or some of them, so a tiling must exist for all rows and
    for a single row.  For a batch of images, and with a tiler that returns tile sequences, all
    calls compute all rows, so only the first tiling must exist."""
    shape, sequenced = offloaded.output.shape, isinstance(_tiler(offloaded), TileSequencer)
    try:
        for rows in (None,) if sequenced or (len(shape) == 4 and shape[0] > 1) else (None, 1):
            tiling_of(offloaded, rows)
    except REFUSALS as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """Return the loop nest, for the tiler, of a call that computes `rows` consecutive output rows.

    If `rows` is None, the call computes the whole output.  For SMAUG's tiler, a unary or
    element-wise operator on tensors of one shape is a single loop over all elements."""
    return layer_of_call(offloaded, rows, flat=isinstance(_tiler(offloaded), Smaug))


def _tiler(offloaded: Offloaded) -> Tiler:
    """Return the tiler of a composite.

    It is the first of these that exists: the tiler that is registered for the composite's pattern
    or main operator; the tiler that the kernel's `OpStrategy` gives as `schedule`; the tiler that
    the accelerator's attribute `tiler` names."""
    return offloaded.tiler(TILERS[str(offloaded.target.attrs["tiler"])])


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    """Return the tiling that the tiler chooses for a layer and the scratchpads `memories`.

    Results are cached.  Raises CapacityError or UnsupportedError (`REFUSALS`) if there is no
    tiling."""
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)


@lru_cache(maxsize=256)
def _sequence(tiler: TileSequencer, layer: Layer, memories: Scratchpads) -> TileSequence:
    """Return the first sequence of tiles of a tiler that the engine can execute for a layer.

    Results are cached.  Raises CapacityError if there is none."""
    return choose_sequence(tiler, layer, memories, overwritten_sums)


def overwritten_sums(sequence: TileSequence) -> tuple[str, ...]:
    """Check that no final element of an output tile overwrites a partial sum that a later visit
    still needs.  Return () if none does, otherwise a tuple with one phrase for the error message.

    Within a pixel of the output tile, the final int8 element of channel c is at byte c, and its
    int32 partial sum is at bytes 4 * c to 4 * c + 3.  For example, the final elements of channels 8
    to 15 would overwrite the partial sums of channels 2 and 3."""
    if not sequence.has_partial_sums:
        return ()
    output = sequence.layer.output
    *outer, channels = (d.axis or "" for d in output.dimensions)
    size = output.unfinished_bytes
    live: set[tuple[tuple[int, ...], tuple[int, int]]] = set()
    final: set[tuple[tuple[int, ...], tuple[int, int]]] = set()
    for visit, step, (_, ends) in zip(
        sequence.visits, sequence.steps, sequence.accumulation, strict=True
    ):
        first = sequence.held(visit, output).intervals[-1][0]
        lower, upper = step.box[channels]
        part = tuple(visit.tile.get(name, 0) for name in outer), (lower - first, upper - first)
        (final if ends else live).add(part)
        live -= final
        for (pixels, (a, b)), (others, (c, d)) in product(final, live):
            if pixels == others and a < size * d and size * c < b:
                return ("finished elements would overwrite incomplete sums of the same pixels",)
        if step.stores:
            final.clear()
    return ()
