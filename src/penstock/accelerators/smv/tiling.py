"""tiling: how a kernel call is split into tiles that fit the scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from penstock.uma import (
    AcceleratorTarget,
    Copies,
    Layer,
    LeastTraffic,
    Node,
    Offloaded,
    PenstockError,
    Scratchpads,
    Smaug,
    Tiler,
    Tiling,
    choose,
    layer_of,
)

OUTPUTS_AT_ONCE, CHANNELS_AT_ONCE = 8, 32
"""The number of processing elements, and the number of products that each of them sums in a cycle.
Source: SMAUG, SMV backend (kNumPEs, kNumMaccsPerPE)."""
ALIGNMENT = 8
"""The number of elements per pixel of a tile is rounded up to a multiple of this, the width of a
vector."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""The timing of copies in cycles.  Source of the 100 cycles per copy: SMAUG's configuration of its
DMA engine; the other figures are assumptions."""
SCALE_BYTES = 9
"""Bytes per output channel: 4 for the bias, 4 for the multiplier, 1 for the shift."""
TILERS: Mapping[str, Tiler] = {"least_traffic": LeastTraffic(), "smaug": Smaug()}
ELEMENTWISE = ("Add", "Sub", "Mul")


def scratchpads(target: AcceleratorTarget) -> Scratchpads:
    """Return the three scratchpads, with the sizes that the accelerator's attributes define.

    Partial sums stay in the scratchpad of outputs: they are never stored to memory."""
    sizes = (int(target.attrs[f"{role}_bytes"]) for role in ("input", "weights", "output"))
    return Scratchpads.separate(
        *sizes,
        alignment=ALIGNMENT,
        double_buffered=bool(target.attrs["double_buffering"]),
        spills=False,
        copies=COPIES,
    )


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling:
    """Return the tiling of a call that computes `rows` consecutive output rows.

    The tiling is valid for any position of these rows in the output.  If `rows` is None, the call
    computes the whole output.

    Raises PenstockError if the tiler finds no tiling."""
    name = str(offloaded.target.attrs["tiler"])
    if offloaded.main.kind in ELEMENTWISE:
        # SMAUG's rule flattens tensors, but the rows of a schedule may have arbitrary addresses.
        name = "least_traffic"
    layer = layer_on_engine(offloaded, rows)
    return _tiled(offloaded.tiler(TILERS[name]), layer, scratchpads(offloaded.target))


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

    Both a call that computes all rows and a call that computes one row must have a tiling."""
    try:
        for rows in (None, 1):
            tiling_of(offloaded, rows)
    except PenstockError as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """Return a call that computes `rows` consecutive output rows as a loop nest, for the tiler.

    The loop nest is valid for any position of these rows in the output.  If `rows` is None, the
    call computes the whole output.

    The loop nest has these properties of the engine:

    - A tile has all output channels, or a multiple of 8.  If the layer sums over input channels, a
      tile has all of these, or a multiple of 32.
    - The operand of biases also holds multipliers and shifts: 4 + 4 + 1 bytes per channel.
    - The input of a fully connected layer has shape (N, C)."""
    layer = offloaded.layer(rows)
    if offloaded.main.kind == "FullyConnected":
        layer = _flat(offloaded.main)
        layer = layer if rows is None else layer.stripe("n", rows)
    layer = layer.with_axis("c", least=OUTPUTS_AT_ONCE, step=OUTPUTS_AT_ONCE, lanes=OUTPUTS_AT_ONCE)
    if not layer.reduced:
        return layer
    n = CHANNELS_AT_ONCE
    layer = layer.with_axis("sum", least=n, step=n, lanes=n)
    x, w, scale = layer.inputs
    return replace(layer, inputs=(x, w, replace(scale, element_bytes=SCALE_BYTES)))


def _flat(node: Node) -> Layer:
    """Return the loop nest of a fully connected node, with its input reshaped to (N, C)."""
    x, w, bias = node.site.inputs
    flat = replace(x, shape=(node.output.type.shape[0], w.shape[1]))
    return layer_of(node.op, replace(node.site, inputs=(flat, w, bias)), node.name)


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    """Return the tiling that the tiler chooses for a layer and the scratchpads `memories`.

    Results are cached.  Raises PenstockError if there is no tiling."""
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)
