"""Counts how often each section of a DSP kernel (a loop body or a copy, for example) is executed
while the kernel computes a whole output.

The count "cycles" is the number of cycles of the loops in assembly, counted instruction by
instruction with the timing of `simulators/cortex_m_timing.py`.  The other counts are for sections
of the surrounding C code, as in `common/counts.py`; "window four", for example, is the
number of copies of four bytes of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.backends.cores.common.counts import Counts, Params, portable_counts, taps_along
from penstock.backends.cores.family import CycleModel
from penstock.ir.op import Kernel, Op, Site
from penstock.ir.tensor import row_count

QUAD = 4
# Name of the kernel that computes pairs of consecutive pixels, even if they are in two rows.
PAIRED = "conv2d_s8_dsp"
BLOCK_PAIRS = 4  # Pairs of inputs per iteration of the unrolled loop.
# Cycles of two windows and four outputs: prologue, epilogue and the first two pairs of inputs; each
# further block of four pairs; a half block of two pairs; corrections of negative accumulators.
TILE, BLOCK, HALF_BLOCK, CORRECTIONS = 107, 68, 36, 22
# Cycles of one window and four outputs: per sixteen inputs; per four remaining inputs; prologue and
# epilogue.
ROW_BLOCK, ROW_FOUR, ROW_QUAD = 87, 25, 62
# Cycles of two pixels read in place and four outputs: prologue and epilogue; per contiguous run;
# per sixteen inputs of a run; per four remaining inputs of a run.
RUNS_QUAD, RUN, RUNS_BLOCK, RUNS_FOUR = 76, 20, 155, 46
# Cycles of one pixel read in place and four outputs: prologue and epilogue; per sixteen inputs of a
# run; per four remaining inputs. Each run takes `RUN` cycles as well.
LONE_QUAD, LONE_BLOCK, LONE_FOUR = 64, 87, 25


def dsp_counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """Return how often each section of a DSP kernel runs; None for other kernels."""
    count = COUNT_FUNCTIONS.get(kernel.name)
    if count is None:
        return None
    return {"row": row_count(site.output.shape), **count(Params(kernel.params), site)}


def tile_cycles(pairs: int, signed: int) -> int:
    """Return the cycles of two pixels of four output channels, including requantisation."""
    blocks, rest = divmod(pairs - 2, BLOCK_PAIRS)
    return TILE + BLOCK * blocks + HALF_BLOCK * (rest > 0) + CORRECTIONS * signed


def row_cycles(fours: int, signed: int) -> int:
    """Return the cycles of four output elements that read the same row of inputs, including
    requantisation."""
    blocks, rest = divmod(fours, 4)
    return ROW_QUAD + ROW_BLOCK * blocks + ROW_FOUR * rest + CORRECTIONS * signed // 2


def _clamped(p: Params, site: Site) -> int:
    # An activation with bounds narrower than int8 clamps every output.  Otherwise the number is 0,
    # because the instructions of the loops saturate to int8 anyway.
    return site.output.elements * (p.least > -128 or p.most < 127)


def odd_cycles(kernel: Kernel) -> int:
    """Return the additional cycles of a call that computes an odd number of pixels."""
    # `conv2d_s8_dsp` computes pixels in pairs, and its counts assume that a pixel takes half as
    # long as a pair.  The last of an odd number of pixels takes longer.
    if kernel.name != PAIRED:
        return 0
    p = Params(kernel.params)
    fours = _quads(p)
    pair = fours * tile_cycles(p.pairs, p.is_signed)
    alone = p.kernel_h * p.kernel_w == 1 and not p.row_rest
    if alone and not (p.quads_rest or p.spread or p.outsiders):
        # The kernel reads the last window in place and computes a single pixel.
        return fours * row_cycles(p.row_fours, p.is_signed) - pair // 2
    return pair - pair // 2  # The last pixel takes as long as a pair.


def _quads(p: Params) -> int:
    """The number of groups of four output channels; the last group may be incomplete."""
    return p.quads + (p.quads_rest > 0)


def _convolution(p: Params, site: Site) -> Counts:
    # The kernel gathers windows: it copies their elements to scratch.  It gathers two neighbouring
    # windows at once if all their taps are inside the input, and other windows one by one.
    images, height, width, channels = site.output.shape
    twos, alone, lines = _windows(p)
    fours, singles, taps = p.row_fours, p.row_rest, p.kernel_h
    pixels = images * height * width
    pairs = pixels / 2
    spread, outsiders = p.spread, p.outsiders
    twos, alone, lines = images * twos, images * alone, images * lines
    runs = p.kernel_w if p.dilation_w > 1 else 1
    return {
        "cycles": pairs * _quads(p) * tile_cycles(p.pairs, p.is_signed),
        "tap row": images * height * taps,
        "pair": pairs,
        "rest": pairs * (p.quads_rest > 0),
        "clamp": pairs * (_clamped(p, site) > 0),
        "clamped": _clamped(p, site) if not spread else pixels * spread * (_clamped(p, site) > 0),
        "two": twos,
        "two row": twos * taps,
        "two four": twos * taps * fours,
        "two single": twos * taps * singles,
        "window": alone,
        "window row": alone * taps,
        "window four": alone * taps * fours,
        "window single": alone * taps * singles,
        "line": lines * runs,
        "line byte": lines * (4 * fours + singles),
        "spread": pixels * (spread > 0),
        "spread one": pixels * spread,
        "spread all": pixels * channels * (spread > 0),
        "outsiders": pixels * (outsiders > 0),
        "outsider": pixels * outsiders,
        "outsider pair": pixels * outsiders * p.pairs,
    }


def _windows(p: Params) -> tuple[int, int, int]:
    """Return (twos, alone, lines), which count how the windows of an image are copied to scratch.

    twos: number of pairs of windows that are copied together.
    alone: number of windows that are copied alone.
    lines: number of rows, in windows copied alone, that are first gathered in a buffer: they
        extend into the padding, or their taps are not contiguous (dilation)."""
    width = p.out_w
    before = min(width, p.inner_lower)
    inner = max(0, min(width, p.inner_upper) - before)
    after = width - before - inner
    twos = alone = lines = 0
    waits = False
    for row in range(p.out_h):
        top = row * p.stride_h - p.pad_top
        outside = sum(not 0 <= top + k * p.dilation_h < p.in_h for k in range(p.kernel_h))
        odd = waits ^ bool(before % 2)
        paired = (inner - odd) // 2 if not outside and inner > odd else 0
        unpaired = inner - 2 * paired
        twos += paired
        alone += before + unpaired + after
        lines += (before + after) * p.kernel_h + unpaired * outside
        waits ^= bool(width % 2)
    return twos, alone, lines


def _direct(p: Params, site: Site) -> Counts:
    # The kernel computes two output pixels at a time, each from a window of the input.  In an
    # innermost loop, it processes a run: taps that are contiguous in each of the two windows.  If
    # both windows are inside the input, a run is a row of the window; otherwise, it is one tap.
    images, height, width, _ = site.output.shape
    fours = p.in_c // QUAD
    lower, upper = p.inner_lower, p.inner_upper
    inside = sum(
        all(0 <= row * p.stride_h - p.pad_top + k * p.dilation_h < p.in_h
            for k in range(p.kernel_h))
        for row in range(height)
    )  # fmt: skip
    pairs, lone = images * height * (width // 2), images * height * (width % 2)
    inner_pairs = (
        images * inside * sum(lower <= k and k + 1 < upper for k in range(0, width - 1, 2))
    )
    inner_lone = images * inside * (width % 2) * (lower < width <= upper)
    taps = p.kernel_h * p.kernel_w
    kinds = (
        (inner_pairs, inner_lone, p.kernel_h, p.kernel_w * fours),
        (pairs - inner_pairs, lone - inner_lone, taps, fours),
    )
    cycles = runs = 0
    for some_pairs, some_lone, count, length in kinds:
        blocks, rest = divmod(length, 4)
        signed = CORRECTIONS * p.is_signed
        two = RUNS_QUAD + signed + count * (RUN + RUNS_BLOCK * blocks + RUNS_FOUR * rest)
        one = LONE_QUAD + signed // 2 + count * (RUN + LONE_BLOCK * blocks + LONE_FOUR * rest)
        cycles += _quads(p) * (some_pairs * two + some_lone * one)
        runs += count * (2 * some_pairs + some_lone)
    return {
        "cycles": cycles,
        "tap row": images * height * p.kernel_h,
        "pair": pairs + lone,
        "pixel": 2 * pairs + lone,
        "run": runs,
        "rest": (pairs + lone) * (p.quads_rest > 0),
        "clamped": _clamped(p, site),
    }


def _groups(p: Params, site: Site) -> Counts:
    # The kernel computes two pixels of a merged group at a time.  A merged group consists of
    # neighbouring channel groups that are computed as one.
    images, height, width, _ = site.output.shape
    taps = p.kernel_h * p.kernel_w
    blocks, rest = divmod(p.group_in // QUAD, 4)
    two = RUNS_QUAD + CORRECTIONS * p.is_signed
    two += taps * (RUN + RUNS_BLOCK * blocks + RUNS_FOUR * rest)
    pairs = images * height * -(-width // 2)
    groups = pairs * p.groups
    quads = -(-p.group_out // QUAD)
    return {
        "cycles": groups * quads * two,
        "pair": pairs,
        "tap row": 2 * pairs * p.kernel_h,
        "tap": 2 * pairs * taps,
        "group": groups,
        "group tap": groups * taps,
        "whole": groups * (p.group_out >= QUAD),
        "rest": groups * (p.group_out % QUAD > 0),
        "clamped": _clamped(p, site),
    }


def _depthwise(p: Params, site: Site) -> Counts:
    # The kernel computes four channels at a time.  If 4 does not divide the number of channels, the
    # last group of four overlaps the one before.
    images, height, width, _ = site.output.shape
    taps = p.kernel_h * p.kernel_w
    runs = _runs(p, images)
    pixels = images * height * width
    passes = 1 + (p.in_c % QUAD > 0)
    quads = pixels * -(-p.in_c // QUAD)
    nine = taps == 9
    return {
        "lines": images * height,
        "pixel": pixels * passes,
        "run": runs,
        "pass": runs * passes,
        "found row": runs * p.kernel_h,
        "found tap": runs * taps,
        "moved tap": runs * taps * (passes - 1),
        "nine": quads * nine,
        "quad": quads * (not nine),
        "tap": quads * taps * (not nine),
        "corrected": quads * p.is_signed,
        "clamped": _clamped(p, site),
    }


def _runs(p: Params, images: int) -> int:
    """How often the depthwise kernel computes the addresses of taps."""
    # It computes them for the first of several neighbouring pixels whose windows are inside the
    # input, and increments them for the others; anew for each pixel at the padding.
    lower, upper = p.inner_lower, p.inner_upper
    inside = sum(
        row * p.stride_h >= p.pad_top
        and row * p.stride_h - p.pad_top + (p.kernel_h - 1) * p.dilation_h < p.in_h
        for row in range(p.out_h)
    )
    reused = max(0, upper - lower - 1) * inside
    return images * (p.out_h * p.out_w - reused)


def _fully_connected(p: Params, site: Site) -> Counts:
    # A loop in assembly ("cycles") computes groups of four outputs.  After the full groups, it is
    # called a second time for the remaining one to three outputs, if any ("tail").  These outputs
    # are then copied one by one ("rest").
    batches, fours = p.batches, p.in_c // QUAD
    quads, rest = divmod(p.out_c, QUAD)
    return {
        "cycles": batches * (quads + (rest > 0)) * row_cycles(fours, p.is_signed),
        "batch": batches,
        "tail": batches * (quads > 0 and rest > 0),
        "rest": batches * rest,
        "clamped": _clamped(p, site),
    }


def _separate_forms(p: Params, site: Site) -> Counts:
    # "quad": groups of four outputs.  "step": four inputs times the weights of four outputs.
    quads = p.batches * -(-p.out_c // QUAD)
    return {
        "batch": p.batches,
        "quad": quads,
        "step": quads * p.in_c // QUAD,
        "output": site.output.elements,
    }


def _pool(p: Params, site: Site) -> Counts:
    # The kernel computes eight channels at a time.  If 8 does not divide the number of channels,
    # the last group of eight overlaps the one before.
    images, height, width, channels = site.output.shape
    rows, columns = taps_along(p, "h"), taps_along(p, "w")
    eights = -(-channels // 8)
    pixels = images * height * width
    averages, clamps = p.averages, _clamped(p, site) > 0
    return {
        "tap row": images * rows,
        "pixel": pixels,
        "divided": pixels * averages,
        "eight": pixels * eights,
        "mean": pixels * eights * averages,
        "eight row": images * rows * width * eights,
        "largest tap": images * rows * columns * eights * (1 - averages),
        "summed tap": images * rows * columns * eights * averages,
        "clamped": pixels * eights * clamps,
    }


def _pairs(p: Params, site: Site) -> Counts:
    # The kernels process runs of consecutive elements, four elements at a time.  If 4 does not
    # divide the length of a run, the last group of four overlaps the one before.
    rows = row_count(site.output.shape)
    calls = rows * p.calls
    runs = calls * p.runs
    rest = calls * (p.length % QUAD > 0)
    return {
        "batch": calls,
        "run": runs,
        "rest": rest,
        "repeated": calls * (p.repeated0 + p.repeated1),
        "four": runs * (p.length // QUAD) + rest,
        "corrected": (runs * (p.length // QUAD) + rest) * (p.get("correction", 0) != 0),
        "clamped": _clamped(p, site) / QUAD,
    }


def _partial(p: Params, site: Site) -> Counts:
    # "pixel" counts the output vectors, "quad" their groups of four outputs, and "rest" the groups
    # with fewer than four.  "step" counts the iterations of the inner loop, each of which
    # multiplies four inputs by the weights of four outputs.
    vectors = site.output.elements // p.out_c
    quads = vectors * -(-p.out_c // QUAD)
    return {
        "pixel": vectors,
        "quad": quads,
        "rest": vectors * (p.out_c % QUAD > 0),
        "step": quads * p.in_c // QUAD,
    }


# Count functions by kernel name.
COUNT_FUNCTIONS: Mapping[str, Callable[[Params, Site], Counts]] = {
    "add_s8_dsp": _pairs,
    "conv2d_direct_s8_dsp": _direct,
    "conv2d_groups_s8_dsp": _groups,
    "conv2d_s8_dsp": _convolution,
    "depthwise_conv2d_s8_dsp": _depthwise,
    "fully_connected_forms_s8_dsp": _separate_forms,
    "fully_connected_s8_dsp": _fully_connected,
    "mul_s8_dsp": _pairs,
    "partial_product_s8_dsp": _partial,
    "pool2d_s8_dsp": _pool,
}


# Cycle model of Cortex-M4, M7 and M33.


def counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """Return how often each section of a DSP or portable kernel runs; None for other kernels."""
    return dsp_counts(op, site, kernel) or portable_counts(op, site, kernel)


DSP_CYCLES = CycleModel("penstock.backends.cores.dsp", counts, odd_cycles)
