"""Counts how often each section of a portable kernel (a loop body or a copy, for example) is
executed while the kernel computes a whole output.

A kernel is a loop nest.  Its cycles are a linear function of these counts:

    row      a row of the output                  output   an output element
    pixel    a column of an output row            loop     an entry into an innermost loop
    read     a lookup of an input row's address   step     an iteration of an innermost loop
    copy     a run of bytes that is copied        block    32 or, at its end, 16 bytes of the run
    word     4 bytes after the blocks             byte     a byte after the words
    fill     a run of bytes that is filled        filled   a byte of such a run
    wide step     an iteration of an innermost loop over int16 or int32 elements
    get N         a read of an input element of N bytes, such as "get 4"
    put N         a write of an output element of N bytes

`CycleModel` multiplies each count by the cycles that one execution of the section takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from penstock.compiled import compiled
from penstock.ir.op import Kernel, Op, Site
from penstock.ir.tensor import Region, row_count
from penstock.opkit.layers import QUAD
from penstock.opkit.lstm import GATES

Counts = Mapping[str, float]  # How often each section of a kernel runs, by the section's name.


class Params(dict[str, int]):
    """Parameters of a kernel by name (`Kernel.params`), which are attributes, too."""

    def __getattr__(self, name: str) -> int:
        return self[name]


def taps_inside(
    extent: int, outputs: int, taps: int, stride: int, before: int, dilation: int
) -> int:
    """Return the number of taps that are inside an input axis, summed over all outputs along it.

    The axis has `extent` elements and is preceded by `before` elements of padding.  Each of the
    `outputs` windows has `taps` taps, `dilation` apart; windows are `stride` apart.

    >>> taps_inside(extent=4, outputs=4, taps=3, stride=1, before=1, dilation=1)
    10
    """
    return sum(
        0 <= k * stride - before + tap * dilation < extent
        for k in range(outputs)
        for tap in range(taps)
    )


def taps_along(p: Params, axis: str) -> int:
    """Return that number for the windows of a kernel along axis "h" or "w"."""
    extent, outputs, taps, stride = (p[f"{n}_{axis}"] for n in ("in", "out", "kernel", "stride"))
    before = p.pad_top if axis == "h" else p.pad_left
    return taps_inside(extent, outputs, taps, stride, before, p.get(f"dilation_{axis}", 1))


# Counts how often each section of the kernel `exchange_axes` is executed, if it runs in place.
#
# Exchanging rows and columns permutes the pixels of an image.  A permutation consists of cycles, in
# each of which every pixel moves to the index of the next one.  The kernel visits all indices, and
# moves the pixels of a cycle when it visits the least index of this cycle.  To find out whether an
# index is the least of its cycle, the kernel follows the cycle from this index until it reaches a
# lower index, or returns to the index itself.


@compiled
def _steps_and_swaps(rows: int, columns: int) -> tuple[int, int]:
    steps, swaps = 0, 0
    for first in range(rows * columns):
        k, moved = first % rows * columns + first // rows, 0
        while k > first:
            k = k % rows * columns + k // rows
            moved += 1
        steps += moved + 1
        if k == first:
            steps += moved + 1
            swaps += moved
    return steps, swaps


@lru_cache(maxsize=256)
def steps_and_swaps(rows: int, columns: int) -> tuple[int, int]:
    """Return (steps, swaps) for an image of `rows` x `columns` pixels.

    steps: how often the kernel computes the next index on a cycle of the permutation, to find the
        least index of the cycle or to move its pixels.

    With a single row, each pixel is a cycle of its own.  It takes no swap and two steps: one finds
    that the index is the least of its cycle, the other that the cycle has no further pixel.

    >>> steps_and_swaps(1, 5), steps_and_swaps(2, 2)
    ((10, 0), (9, 1))
    """
    steps, swaps = _steps_and_swaps(rows, columns)
    return int(steps), int(swaps)


def exchange_counts(p: Params, site: Site) -> Counts:
    """Return how often each section of the kernel `exchange_axes` runs, by the section's name.

    p: parameters of the kernel, by name."""
    # "step": computes the next index on a cycle of the permutation (`steps_and_swaps`).
    # "swap": swaps two pixels, first eight bytes at a time ("eight"), then the remaining bytes one
    #   by one ("byte").
    steps, swaps = steps_and_swaps(p.rows, p.columns)
    eights, rest = divmod(p.pixel_bytes, 8)
    return {"step": steps, "swap": swaps, "eight": swaps * eights, "byte": swaps * rest}


# Counts how often each section of a portable kernel that copies elements is executed: of slices,
# padding, permutations, concatenations and gathers.  `counts.py` lists the sections.


HALF_BLOCK_BYTES, WORD_BYTES = 16, 4  # What `penstock_copy` copies at once.
INLINE_RUNS = (1, 3, 8)  # Sizes of runs in bytes that `channel_runs` copies inline.


def gathered(p: Params, site: Site) -> Counts:
    return {"step": p.count * p.depth, **_copied(p.count, p.slice_bytes)}


def rearranged(p: Params, site: Site) -> Counts:
    copies = site.output.size_bytes // p.run_bytes
    if p.run_bytes == 4 and p.rows2 == 0:
        return {"line": copies / p.extent2, "moved": copies}
    return {**_copied(copies, p.run_bytes), "loop": copies / p.extent2}


def channel_runs(p: Params, site: Site) -> Counts:
    """Return how often each section of `channel_runs` runs."""
    # Runs of some sizes are copied by loops of their own ("loop 3", "copy 3").
    rows, size = row_count(site.output.shape), p.run_bytes
    pieces = rows * p.pieces
    runs = pieces * p.count
    fills = rows * p.fills
    counts = {"row": rows, "fill": fills, "filled": fills * p.row_bytes}
    if size in INLINE_RUNS:
        return {**counts, f"loop {size}": pieces, f"copy {size}": runs}
    return {**counts, "loop": pieces, **_copied(runs, size)}


def _copied(copies: int, size_bytes: int) -> Counts:
    """The counts of `copies` runs of `size_bytes` bytes, which `penstock_copy` copies in blocks, of
    which the last may be half a block, then in words, then in bytes."""
    halves, rest = divmod(size_bytes, HALF_BLOCK_BYTES)
    words, rest = divmod(rest, WORD_BYTES)
    counts = {"copy": 1, "block": halves / 2, "word": words, "byte": rest}
    return {part: copies * count for part, count in counts.items()}


def _copied_elements(copies: int, size_bytes: int) -> Counts:
    """The same of elements: those of a word are copied directly ("element")."""
    return {"element": copies} if size_bytes == WORD_BYTES else _copied(copies, size_bytes)


def strided(p: Params, site: Site) -> Counts:
    """Return how often each section of `strided` runs."""
    # The kernel slices or pads a tensor.  If the slice takes consecutive channels (step 1), the
    # kernel copies all channels of a pixel at once; otherwise, it copies channel by channel.
    p = Params(p, out_n=row_count(site.output.shape) // p.out_h)
    inside = {
        axis: taps_inside(p[f"in_{axis}"], p[f"out_{axis}"], 1, p[f"step_{axis}"],
                          -p[f"start_{axis}"], 1)
        for axis in "nhwc"
    }  # fmt: skip
    rows = inside["n"] * inside["h"]
    pixels = rows * inside["w"]
    filled = rows * (p.out_w - inside["w"])
    size = p.element_bytes
    empty = p.out_n * p.out_h - rows
    bytes_filled = (empty * p.out_w + filled) * p.out_c * size
    if p.step_c != 1:
        outside = pixels * (p.out_c - inside["c"])
        return {
            "pixel": pixels,
            **_copied_elements(pixels * inside["c"], size),
            "fill": empty + filled + outside,
            "filled": bytes_filled,
        }
    ends = (p.start_c < 0) + (p.out_c + p.start_c > p.in_c)
    return {
        **_copied(pixels, p.out_c * size),
        "fill": empty + filled + ends * pixels,
        "filled": bytes_filled,
    }


def listed(p: Params, site: Site) -> Counts:
    copies = row_count(site.output.shape) * p.out_w * p.out_c
    return {"pixel": copies // p.out_c, **_copied_elements(copies, p.element_bytes)}


def concatenated_rows(p: Params, site: Site) -> Counts:
    return {**_copied(row_count(site.output.shape), p.row_bytes), "copy": 0}


def concatenated_columns(p: Params, site: Site) -> Counts:
    rows = row_count(site.output.shape)
    pieces = rows * p.pieces
    every = [_copied(pieces, x.size_bytes // pieces) for x in site.inputs]
    counts = {part: sum(one[part] for one in every) for part in every[0]}
    return {**counts, "read": rows * p.inputs}


SVDF_BLOCK = 8  # Filters that `svdf_time_s8` and `svdf_time_s16` compute at a time.


def portable_counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """Return how often each section of a portable kernel runs; None for other kernels."""
    count = COUNT_FUNCTIONS.get(kernel.name)
    if count is None and kernel.name != op.kernel(site).name:
        return None
    p = Params(kernel.params)
    rows = row_count(site.output.shape)
    own = _elementwise(op, site, p) if count is None else count(p, site)
    return {"row": rows, **own} if kernel.by_rows else own


def _elementwise(op: Op, site: Site, p: Params) -> Counts:
    """The counts of a portable kernel that has no entry in `COUNT_FUNCTIONS`."""
    # Such kernels are mostly element-wise.  The counted sections are "pixel", "output" (output
    # elements) and "step" (multiply-accumulates).
    work = op.work(site, Region.whole(site.output.shape))
    y = site.output
    channels = p.out_c if "step0_c" in p else y.shape[-1] if y.shape else 1
    return {"pixel": y.elements // channels, "output": y.elements, "step": work.macs}


def _windows(p: Params, site: Site) -> tuple[int, int, int]:
    """Return (rows, columns, images), whose product is the number of taps inside the input.

    The product counts the taps of the windows of all output pixels.

    rows: number of window rows inside the input, added up over the output rows of an image.
    columns: number of window columns inside the input, added up over the output columns.
    images: batch size."""
    return taps_along(p, "h"), taps_along(p, "w"), site.output.shape[0]


def _convolution(p: Params, site: Site) -> Counts:
    # An innermost loop processes a whole row of a window if the taps of the row are contiguous, and
    # a single tap otherwise.
    rows, columns, images = _windows(p, site)
    channels, depth = p.out_c, p.in_c // p.groups
    is_run = p.groups == 1 and p.dilation_w == 1
    loops = rows * (p.out_w if is_run else columns)
    return {
        "pixel": images * p.out_h * p.out_w,
        "output": site.output.elements,
        "read": images * rows,
        "loop": images * loops * channels,
        "step": images * rows * columns * channels * depth,
    }


def _quads(p: Params) -> int:
    """The number of groups of four outputs that float kernels compute together."""
    groups = p.get("groups", 1)
    return groups * -(-p.out_c // groups // QUAD)


def _real_convolution(p: Params, site: Site) -> Counts:
    """As `_convolution`; an iteration of an innermost loop adds products to four outputs."""
    quads = _quads(p)
    counts = _convolution(Params(p, out_c=quads), site)
    return _by_products(p, {**counts, "output": counts["pixel"] * quads})


def _by_weights(p: Params, counts: Counts, *steps: str) -> Counts:
    """Steps of float32 kernels that read int8 weights are parts of their own."""
    narrow = p.weight_bytes == 1
    return {f"narrow {k}" if narrow and k in steps else k: n for k, n in counts.items()}


def _by_products(p: Params, counts: Counts) -> Counts:
    """The same of kernels that compute four outputs together, and "product" for each product of
    outputs that exist: in software floating point, those with zeros take little."""
    products = counts["step"] * p.out_c / _quads(p)
    return {**_by_weights(p, counts, "step"), "product": products}


def _real_depthwise(p: Params, site: Site) -> Counts:
    """Channels are computed by fours, the last ones, or all with a depth multiplier, singly."""
    rows, columns, images = _windows(p, site)
    fours = p.out_c // QUAD if p.multiplier_d == 1 else 0
    singles = p.out_c - fours * QUAD
    pixels = images * p.out_h * p.out_w
    counts = {
        "pixel": pixels,
        "read": images * rows,
        "loop": images * rows * p.out_w * (fours + singles),
        "four": pixels * fours,
        "single": pixels * singles,
        "four step": images * rows * columns * fours,
        "single step": images * rows * columns * singles,
    }
    return _by_weights(p, counts, "four step", "single step")


def _real_products(p: Params, site: Site) -> Counts:
    outputs = site.output.elements // p.out_c * _quads(p)
    return _by_products(p, {"output": outputs, "step": outputs * p.in_c})


def _real_transposed(p: Params, site: Site) -> Counts:
    quads = _quads(p)
    outputs = site.output.elements // p.out_c * quads
    taps = p.kernel_h * p.kernel_w
    met = site.x.elements // p.in_c * taps * quads
    counts = {
        "output": outputs,
        "read": outputs * p.kernel_h,
        "loop": outputs * taps / p.stride_h,
        "met": met,
        "step": met * p.in_c,
    }
    return _by_products(p, counts)


def _depthwise(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p.out_h * p.out_w,
        "output": site.output.elements,
        "read": images * rows,
        "loop": images * rows * p.out_w * p.out_c,
        "step": images * rows * columns * p.out_c,
    }


def _wide_channels(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    one_run = p.depth in (1, p.dilation_w * p.in_c)
    return {
        "pixel": images * p.out_h * p.out_w,
        "output": images * p.out_h * p.out_w * p.wide,
        "read": images * rows,
        "loop": images * rows * (p.out_w if one_run else columns) * p.wide,
        "step": images * rows * columns * p.wide * p.depth,
    }


def _wide_outputs(p: Params, site: Site) -> Counts:
    outputs = p.batches * p.wide
    return {"output": outputs, "step": outputs * p.in_c}


def _pool(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p.out_h * p.out_w,
        "output": site.output.elements,
        "loop": images * rows * p.out_w * p.out_c,
        "step": images * rows * columns * p.out_c,
    }


def _real_pool(p: Params, site: Site) -> Counts:
    # One innermost loop for each tap of a pixel, and two for all channels of a pixel.
    rows, columns, images = _windows(p, site)
    taps = images * rows * columns
    return {
        "pixel": images * p.out_h * p.out_w,
        "output": site.output.elements,
        "loop": taps,
        "step": taps * p.out_c,
    }


def _reduction(p: Params, site: Site) -> Counts:
    """The counts of a reduction kernel, whose inner loop is over the channels to reduce."""
    outputs = site.output.elements
    reads = outputs * p.span_n * p.span_h
    loops = reads * p.span_w
    return {"output": outputs, "read": reads, "loop": loops, "step": loops * p.span_c}


def _arg_extreme(p: Params, site: Site) -> Counts:
    """A step compares an element of the axis, from the second one on."""
    outputs = site.output.elements
    return {"output": outputs, "step": outputs * (p.span_n * p.span_h * p.span_w * p.span_c - 1)}


def _resampled(p: Params, site: Site) -> Counts:
    """How often each section of `resample_s8` runs: one innermost loop per input row."""
    outputs = site.output.elements
    reads = outputs * p.taps_h
    return {"output": outputs, "read": reads, "step": reads * p.taps_w}


def _resampled_reals(p: Params, site: Site) -> Counts:
    """How often each section of `resample_f32` runs: of two rows and columns, `pixel` and `output`;
    else `loop` once per tap of a pixel, and `step` once per tap of an element."""
    outputs = site.output.elements
    pixels = outputs / p.channels
    if (p.taps_h, p.taps_w) == (2, 2):
        return {"pixel": pixels, "output": outputs}
    taps = p.taps_h * p.taps_w
    return {"loop": pixels * taps, "step": outputs * taps}


def _running(p: Params, site: Site) -> Counts:
    # These kernels accumulate over the input rows: they compute row r of the output from row r of
    # the input and row r - 1 of the output.
    rows = row_count(site.x.shape)
    columns = taps_along(p, "w")
    return {
        "pixel": rows * p.out_w,
        "output": rows * p.out_w * p.in_c,
        "step": rows * columns * p.in_c,
    }


def _running_product(p: Params, site: Site) -> Counts:
    outputs = site.output.elements
    return {"output": outputs, "step": outputs * p.row}


def _lstm(p: Params, site: Site) -> Counts:
    # The kernel computes one output per time step, batch element and unit.  For each of the unit's
    # four gates, it runs an innermost loop over the int8 inputs ("step") and one over the int16
    # hidden state ("wide step").
    outputs = row_count(site.output.shape) * p.batch * p.units
    return {
        "output": outputs,
        "step": outputs * GATES * p.in_c,
        "wide step": outputs * GATES * p.units,
    }


def _real_recurrence(p: Params, site: Site) -> Counts:
    # For each unit and gate, an innermost loop over the int8 inputs ("step") precedes one over the
    # fixed-point hidden state ("wide step").
    *_, weights, _, _ = site.inputs
    sequences = row_count(site.output.shape) * p.batch
    return {
        "output": sequences * p.units,
        "step": sequences * weights.shape[0] * p.in_c,
        "wide step": sequences * weights.shape[0] * p.units,
    }


def _fully_connected(p: Params, site: Site) -> Counts:
    return {"output": site.output.elements, "step": site.output.elements * p.in_c}


def _transposed(p: Params, site: Site) -> Counts:
    # Row k of the window contributes to an output row only if the stride divides (output row +
    # padding - k).  The same holds for columns.
    outputs = site.output.elements
    taps = p.kernel_h * p.kernel_w
    products = site.x.elements // p.in_c * taps * p.out_c
    return {
        "output": outputs,
        "read": outputs * p.kernel_h,
        "loop": outputs * taps / p.stride_h,
        "step": products * p.in_c,
    }


def _each_element(p: Params, site: Site) -> Counts:
    return {"output": site.output.elements}


def _clamped(p: Params, site: Site) -> Counts:
    # "output" counts all elements.  "bounded" counts comparisons with an upper bound: one per
    # element if the clamp has an upper bound, otherwise none.
    elements = site.output.elements
    return {"output": elements, "bounded": elements * p.bounded}


def _converted(p: Params, site: Site) -> Counts:
    # The sections are "get N", which reads an element of N bytes, and "put N", which writes one.
    elements = site.output.elements
    sizes = site.x.dtype.size_bytes, site.output.dtype.size_bytes
    return {f"get {sizes[0]}": elements, f"put {sizes[1]}": elements}


def _truncated(p: Params, site: Site) -> Counts:
    """How often the section of `cast_f32_integers` that writes an element runs: "bool" for
    Booleans, "put N" for integers of N bytes."""
    form = "bool" if p.out_bool else f"put {p.out_bytes}"
    return {form: site.output.elements}


def _halves(p: Params, site: Site) -> Counts:
    return {"narrow" if p.narrows else "widen": site.output.elements}


def _cumulative(p: Params, site: Site) -> Counts:
    # "loop" counts the vectors along the summed axis, including the first addition of each: it adds
    # to 0, which is fast in software floating point.  "step" counts all other additions.  "bit"
    # counts the bits of all quotients, since the kernel divides each vector's index by `inner`.
    loops = p.outer * p.inner
    bits = p.inner * sum(k.bit_length() for k in range(p.outer))
    return {"loop": loops, "bit": bits, "step": site.output.elements - loops}


def _softmax(p: Params, site: Site) -> Counts:
    # "pixel" counts vectors; its cycles include those of a vector's greatest element, because the
    # exponential of this element, exp(0), is computed fast.  "output" counts all other elements.
    outputs = site.output.elements
    pixels = outputs // p.depth
    return {"pixel": pixels, "output": outputs - pixels}


def _shift_softmax(p: Params, site: Site) -> Counts:
    # "loop" counts groups.
    outputs = site.output.elements
    return {"pixel": outputs // p.depth, "loop": outputs // p.group, "output": outputs}


def _svdf_time(p: Params, site: Site) -> Counts:
    # These kernels read each time step once per block of `SVDF_BLOCK` filters.
    blocks = -(-p.filters // SVDF_BLOCK)
    return {
        "output": site.output.elements,
        "read": blocks * p.steps,
        "loop": p.filters,
        "step": p.filters * p.steps,
    }


# Count functions by kernel name; `_elementwise` applies to all other portable kernels.
COUNT_FUNCTIONS: Mapping[str, Callable[[Params, Site], Counts]] = {
    **dict.fromkeys(
        (
            "abs_f32",
            "ceil_f32",
            "dequantize_s8_f32",
            "elu_f32",
            "erf_f32",
            "erfc_f32",
            "exp_f32",
            "floor_f32",
            "hard_swish_f32",
            "hidden_f32_s8",
            "log_f32",
            "logistic_f32",
            "lookup_s8",
            "neg_f32",
            "neg_s32",
            "quantize_f32_s8",
            "round_f32",
            "rsqrt_f32",
            "sqrt_f32",
            "square_f32",
            "tanh_f32",
        ),
        _each_element,
    ),
    "arg_extreme_f32": _arg_extreme,
    "arg_extreme_s8": _reduction,
    "average_pool2d_f32": _real_pool,
    "average_pool2d_s8": _pool,
    "average_pool2d_u8": _pool,
    "cast_f32_integers": _truncated,
    "cast_halves": _halves,
    "cast_integers": _converted,
    "cast_integers_f32": _converted,
    "channel_runs": channel_runs,
    "concatenate_columns": concatenated_columns,
    "concatenate_rows": concatenated_rows,
    "conv2d_f32": _real_convolution,
    "conv2d_s8": _convolution,
    "cumsum_f32": _cumulative,
    "cumsum_s32": _cumulative,
    "cumsum_s8": _cumulative,
    "depthwise_conv2d_f32": _real_depthwise,
    "depthwise_conv2d_s8": _depthwise,
    "exchange_axes": exchange_counts,
    "fully_connected_f32": _real_products,
    "fully_connected_s8": _fully_connected,
    "gather_nd": gathered,
    "gru_s8_f32": _real_recurrence,
    "listed": listed,
    "log_softmax_f32": _softmax,
    "lstm_s8": _lstm,
    "lstm_s8_f32": _real_recurrence,
    "max_pool2d_f32": _real_pool,
    "max_pool2d_s8": _pool,
    "quantize_wide": _converted,
    "rearrange": rearranged,
    "reduce_extreme_s8": _reduction,
    "relu_f32": _clamped,
    "resample_f32": _resampled_reals,
    "resample_s8": _resampled,
    "running_max_s8": _running,
    "running_product_s8": _running_product,
    "running_sum_s8": _running,
    "shift_softmax_s8": _shift_softmax,
    "softmax_f32": _softmax,
    "strided": strided,
    "svdf_feature_s8": _fully_connected,
    "svdf_time_s16": _svdf_time,
    "svdf_time_s8": _svdf_time,
    "total_f32": _reduction,
    "total_s8": _reduction,
    "transpose_conv_f32": _real_transposed,
    "transpose_conv_s8": _transposed,
    "wide_channels_s8": _wide_channels,
    "wide_outputs_s8": _wide_outputs,
}
