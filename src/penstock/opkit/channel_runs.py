"""Kernels that copy short runs of channels: of each pixel, or of each pack of channels.

A copy with `memcpy` takes about a hundred cycles even if it is short.  These kernels copy each run
in a loop instead.
"""

from __future__ import annotations

from penstock.ir.op import Kernel, Site
from penstock.opkit.axis_map import AxisMap, StridedMap

MOST_BYTES, MOST_WORD_BYTES = 24, 128
"""Maximum size of a run: if it is copied byte by byte, and in words of 4 bytes.  `memcpy` is faster
for longer runs."""


def pixel_kernel(site: Site, maps: tuple[AxisMap, ...], fill: int) -> Kernel | None:
    """Return a kernel that copies consecutive channels of each pixel and fills those after them.

    maps: how the axes of the output map to those of the input (`Selection.maps`).
    fill: the element that fills the channels after those of the input.

    The result is None if another axis changes, if the number of channels is the same, if the output
    begins with filled channels, or if the runs are too long."""
    x, y = site.inputs[0], site.output
    last = maps[-1] if len(maps) > 2 else None
    if not isinstance(last, StridedMap) or last.step != 1 or last.start < 0:
        return None
    if any(axis != StridedMap() for axis in maps[:-1]) or x.shape[:-1] != y.shape[:-1]:
        return None
    if x.shape[-1] == y.shape[-1]:
        return None  # whole rows are copied
    size, (width, channels) = x.dtype.size_bytes, y.shape[-2:]
    run_bytes = (min(x.shape[-1], last.start + channels) - last.start) * size
    if not is_short(run_bytes):
        return None
    return _kernel(
        run_bytes,
        (width * channels * size, width),
        (0, x.shape[-1] * size),
        (0, channels * size),
        start=last.start * size,
        fill=fill if run_bytes < channels * size else None,
    )


def pack_kernel(site: Site, packs: int, *, packing: bool) -> Kernel | None:
    """Return a kernel that groups the channels of a row into packs, or the inverse.

    packs: the number of packs in a row.
    packing: True to group the channels, False for the inverse.

    The result is None if the runs are too long.  With one pack or one column, no element moves, so
    each row is a single run."""
    image, blocks = (site.inputs[0], site.output) if packing else (site.output, site.inputs[0])
    size, (width, channels) = image.dtype.size_bytes, image.shape[-2:]
    row_bytes, run_bytes = width * channels * size, blocks.shape[-1] * size
    if packs == 1 or width == 1:
        packs, width, run_bytes = 1, 1, row_bytes
        if row_bytes % 4:
            return None
    elif not is_short(run_bytes):
        return None
    in_image = (run_bytes, packs * run_bytes)
    in_blocks = (width * run_bytes, run_bytes)
    source, target = (in_image, in_blocks) if packing else (in_blocks, in_image)
    return _kernel(run_bytes, (row_bytes, width), source, target, pieces=packs)


def _kernel(
    run_bytes: int,
    row: tuple[int, int],
    source: tuple[int, int],
    target: tuple[int, int],
    *,
    pieces: int = 1,
    start: int = 0,
    fill: int | None = None,
) -> Kernel:
    """Return the kernel `channel_runs` with its parameters.

    row: the bytes of an output row, and the number of runs in a piece.
    source, target: the distances in bytes between pieces and between runs, of input and output.
    start: where the first run begins in an input row.
    fill: the element that fills the gaps between runs; None if there are none.
    """
    return Kernel(
        "channel_runs",
        params=(
            ("run_bytes", run_bytes),
            ("row_bytes", row[0]),
            ("fills", int(fill is not None)),
            ("fill", fill or 0),
            ("pieces", pieces),
            ("count", row[1]),
            ("start", start),
            ("in_piece", source[0]),
            ("in_step", source[1]),
            ("out_piece", target[0]),
            ("out_step", target[1]),
        ),
        by_rows=True,
    )


def is_short(run_bytes: int) -> bool:
    """Return whether a copy in a loop is faster than `memcpy`."""
    return 0 < run_bytes <= (MOST_BYTES if run_bytes % 4 else MOST_WORD_BYTES)
