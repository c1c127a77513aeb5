"""Counts how often each section of a portable kernel that copies elements is executed: of slices,
padding, permutations, concatenations and gathers.  `portable_counts.py` lists the sections."""

from __future__ import annotations

from penstock.backends.cores.common.counts import Counts, Params, taps_inside
from penstock.ir.op import Site, row_count

MOST_SMALL_BYTES, LONG_COPY_BYTES = 16, 16
"""Largest constant size that compilers copy inline; least size that memcpy copies in a loop."""
INLINE_RUNS = (1, 3, 8)
"""Sizes of runs in bytes that `channel_runs` copies inline."""


def gathered(p: Params, site: Site) -> Counts:
    return {"step": p["count"] * p["depth"], **_copied(p["count"], p["slice_bytes"])}


def rearranged(p: Params, site: Site) -> Counts:
    copies = site.output.size_bytes // p["run_bytes"]
    return {**_copied(copies, p["run_bytes"]), "loop": copies / p["extent2"]}


def channel_runs(p: Params, site: Site) -> Counts:
    """Return how often each section of `channel_runs` runs.

    Runs of some sizes are copied inline, by loops of their own ("loop 3", "copy 3").  For all
    others, an innermost loop copies words of 4 bytes ("step"), or bytes if the runs are not whole
    words.  If a row is a single run of words, these are "word", and "whole" counts the runs."""
    rows, size = row_count(site.output.shape), p["run_bytes"]
    pieces = rows * p["pieces"]
    runs = pieces * p["count"]
    fills = rows * p["fills"]
    counts = {"row": rows, "fill": fills, "filled": fills * p["row_bytes"]}
    if size in INLINE_RUNS:
        return {**counts, f"loop {size}": pieces, f"copy {size}": runs}
    is_words = size % 4 == 0
    if runs == rows and is_words:
        return {**counts, "whole": rows, "word": rows * size // 4}
    steps = {"step": runs * size // 4} if is_words else {"byte": runs * size}
    return {**counts, "loop": pieces, "copy": runs, **steps}


def _copied(copies: int, size_bytes: int) -> Counts:
    """Return the counts "copy" and "byte" of `copies` copies of `size_bytes` bytes each; or "small
    copy" and "small byte" for up to `MOST_SMALL_BYTES` bytes, which compilers copy inline."""
    small = "small " * (size_bytes <= MOST_SMALL_BYTES)
    return {f"{small}copy": copies, f"{small}byte": copies * size_bytes}


def strided(p: Params, site: Site) -> Counts:
    """Return how often each section of `strided` runs.

    The kernel slices or pads a tensor.  If the slice takes consecutive channels (step 1), the
    kernel copies all channels of a pixel at once; otherwise, it copies channel by channel."""
    p = {**p, "out_n": row_count(site.output.shape) // p["out_h"]}
    inside = {
        axis: taps_inside(p[f"in_{axis}"], p[f"out_{axis}"], 1, p[f"step_{axis}"],
                          -p[f"start_{axis}"], 1)
        for axis in "nhwc"
    }  # fmt: skip
    rows = inside["n"] * inside["h"]
    pixels = rows * inside["w"]
    filled = rows * (p["out_w"] - inside["w"])
    size = p["element_bytes"]
    empty = p["out_n"] * p["out_h"] - rows
    bytes_filled = (empty * p["out_w"] + filled) * p["out_c"] * size
    if p["step_c"] != 1:
        outside = pixels * (p["out_c"] - inside["c"])
        return {
            "pixel": pixels,
            "output": pixels * inside["c"],
            "fill": empty + filled + outside,
            "byte": pixels * inside["c"] * size,
            "filled": bytes_filled,
        }
    ends = (p["start_c"] < 0) + (p["out_c"] + p["start_c"] > p["in_c"])
    return {
        **_copied(pixels, p["out_c"] * size),
        "fill": empty + filled + ends * pixels,
        "filled": bytes_filled,
    }


def listed(p: Params, site: Site) -> Counts:
    copies = row_count(site.output.shape) * p["out_w"] * p["out_c"]
    return {"pixel": copies // p["out_c"], **_copied(copies, p["element_bytes"])}


def concatenated_rows(p: Params, site: Site) -> Counts:
    return {"byte": site.output.size_bytes}


def concatenated_columns(p: Params, site: Site) -> Counts:
    pieces = row_count(site.output.shape) * p["pieces"]
    long = [x.size_bytes for x in site.inputs if x.size_bytes >= LONG_COPY_BYTES * pieces]
    copies = len(long) * pieces
    return {"short copy": p["inputs"] * pieces - copies, "copy": copies, "byte": sum(long)}
