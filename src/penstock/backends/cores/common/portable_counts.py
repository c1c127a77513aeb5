"""Counts how often each section of a portable kernel (a loop body or a copy, for example) is
executed while the kernel computes a whole output.

A kernel is a loop nest.  Its cycles are a linear function of these counts:

    row      a row of the output                  output   an output element
    pixel    a column of an output row            loop     an entry into an innermost loop
    read     a lookup of an input row's address   step     an iteration of an innermost loop
    copy     a run of bytes that is copied        byte     a byte of such a run
    fill     a run of bytes that is filled        filled   a byte of such a run
    wide step     an iteration of an innermost loop over int16 or int32 elements
    get N         a read of an input element of N bytes, such as "get 4"
    put N         a write of an output element of N bytes

`cycle_model.py` multiplies each count by the cycles that one execution of the section takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.backends.cores.common.counts import Counts, Params, taps_inside
from penstock.backends.cores.common.exchange_counts import exchange_counts
from penstock.backends.cores.common.movement_counts import (
    channel_runs,
    concatenated_columns,
    concatenated_rows,
    gathered,
    listed,
    rearranged,
    strided,
)
from penstock.ir.op import Kernel, Op, Site, row_count
from penstock.ir.region import Region
from penstock.opkit.lstm import GATES

SVDF_BLOCK = 8
"""Filters that `svdf_time_s8` and `svdf_time_s16` compute at a time."""


def portable_counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """Return how often each section of a portable kernel runs; None for other kernels."""
    count = COUNT_FUNCTIONS.get(kernel.name)
    if count is None and kernel.name != op.kernel(site).name:
        return None
    p = dict(kernel.params)
    rows = row_count(site.output.shape)
    own = _elementwise(op, site) if count is None else count(p, site)
    return {"row": rows, **own} if kernel.by_rows else own


def _elementwise(op: Op, site: Site) -> Counts:
    """Return the counts of a portable kernel that has no entry in `COUNT_FUNCTIONS`.

    Such kernels are mostly element-wise.  The counted sections are "pixel", "output" (output
    elements) and "step" (multiply-accumulates)."""
    work = op.work(site, Region.whole(site.output.shape))
    y = site.output
    channels = y.shape[-1] if y.shape else 1
    return {"pixel": y.elements // channels, "output": y.elements, "step": work.macs}


def _windows(p: Params, site: Site) -> tuple[int, int, int]:
    """Return (rows, columns, images), whose product is the number of taps inside the input.

    The product counts the taps of the windows of all output pixels.

    rows: number of window rows inside the input, added up over the output rows of an image.
    columns: number of window columns inside the input, added up over the output columns.
    images: batch size."""
    images = site.output.shape[0]
    return (
        taps_inside(p["in_h"], p["out_h"], p["kernel_h"], p["stride_h"], p["pad_top"],
                    p.get("dilation_h", 1)),
        taps_inside(p["in_w"], p["out_w"], p["kernel_w"], p["stride_w"], p["pad_left"],
                    p.get("dilation_w", 1)),
        images,
    )  # fmt: skip


def _convolution(p: Params, site: Site) -> Counts:
    """Return how often each section of `conv2d_s8` runs.

    An innermost loop processes a whole row of a window if the taps of the row are contiguous, and a
    single tap otherwise."""
    rows, columns, images = _windows(p, site)
    channels, depth = p["out_c"], p["in_c"] // p["groups"]
    is_run = p["groups"] == 1 and p["dilation_w"] == 1
    loops = rows * (p["out_w"] if is_run else columns)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        "read": images * rows,
        "loop": images * loops * channels,
        "step": images * rows * columns * channels * depth,
    }


def _depthwise(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        "read": images * rows,
        "loop": images * rows * p["out_w"] * p["out_c"],
        "step": images * rows * columns * p["out_c"],
    }


def _pool(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        "loop": images * rows * p["out_w"] * p["out_c"],
        "step": images * rows * columns * p["out_c"],
    }


def _reduction(p: Params, site: Site) -> Counts:
    """Return the counts of a reduction kernel, whose inner loop is over the channels to reduce."""
    outputs = site.output.elements
    reads = outputs * p["span_n"] * p["span_h"]
    loops = reads * p["span_w"]
    return {"output": outputs, "read": reads, "loop": loops, "step": loops * p["span_c"]}


def _resampled(p: Params, site: Site) -> Counts:
    """Return how often each section of `resample_s8` runs: one innermost loop per input row."""
    outputs = site.output.elements
    reads = outputs * p["taps_h"]
    return {"output": outputs, "read": reads, "step": reads * p["taps_w"]}


def _running(p: Params, site: Site) -> Counts:
    """Return how often each section of `running_max_s8` or `running_sum_s8` runs.

    These kernels accumulate over the input rows: they compute row r of the output from row r of the
    input and row r - 1 of the output."""
    rows = row_count(site.inputs[0].shape)
    columns = taps_inside(
        p["in_w"], p["out_w"], p["kernel_w"], p["stride_w"], p["pad_left"], p["dilation_w"]
    )
    return {
        "pixel": rows * p["out_w"],
        "output": rows * p["out_w"] * p["in_c"],
        "step": rows * columns * p["in_c"],
    }


def _running_product(p: Params, site: Site) -> Counts:
    outputs = site.output.elements
    return {"output": outputs, "step": outputs * p["row"]}


def _lstm(p: Params, site: Site) -> Counts:
    """Return how often each section of `lstm_s8` runs.

    The kernel computes one output per time step, batch element and unit.  For each of the unit's
    four gates, it runs an innermost loop over the int8 inputs ("step") and one over the int16
    hidden state ("wide step")."""
    outputs = row_count(site.output.shape) * p["batch"] * p["units"]
    return {
        "output": outputs,
        "step": outputs * GATES * p["in_c"],
        "wide step": outputs * GATES * p["units"],
    }


def _real_recurrence(p: Params, site: Site) -> Counts:
    """Return how often each section of `lstm_s8_f32` or `gru_s8_f32` runs.

    For each unit and gate, an innermost loop over the int8 inputs ("step") precedes one over the
    fixed-point hidden state ("wide step")."""
    *_, weights, _, _ = site.inputs
    sequences = row_count(site.output.shape) * p["batch"]
    return {
        "output": sequences * p["units"],
        "step": sequences * weights.shape[0] * p["in_c"],
        "wide step": sequences * weights.shape[0] * p["units"],
    }


def _fully_connected(p: Params, site: Site) -> Counts:
    return {"output": site.output.elements, "step": site.output.elements * p["in_c"]}


def _transposed(p: Params, site: Site) -> Counts:
    """Return how often each section of `transpose_conv_s8` runs.

    Row k of the window contributes to an output row only if the stride divides
    (output row + padding - k).  The same holds for columns."""
    outputs = site.output.elements
    taps = p["kernel_h"] * p["kernel_w"]
    products = site.inputs[0].elements // p["in_c"] * taps * p["out_c"]
    return {
        "output": outputs,
        "read": outputs * p["kernel_h"],
        "loop": outputs * taps / p["stride_h"],
        "step": products * p["in_c"],
    }


def _each_element(p: Params, site: Site) -> Counts:
    """Return the count "output" of a kernel with a single loop: the number of output elements."""
    return {"output": site.output.elements}


def _clamped(p: Params, site: Site) -> Counts:
    """Return how often each section of `relu_f32` runs.

    "output" counts all elements.  "bounded" counts comparisons with an upper bound: one per element
    if the clamp has an upper bound, otherwise none."""
    elements = site.output.elements
    return {"output": elements, "bounded": elements * p["bounded"]}


def _converted(p: Params, site: Site) -> Counts:
    """Return how often each section of a conversion between element types runs.

    The sections are "get N", which reads an element of N bytes, and "put N", which writes one."""
    elements = site.output.elements
    sizes = site.inputs[0].dtype.size_bytes, site.output.dtype.size_bytes
    return {f"get {sizes[0]}": elements, f"put {sizes[1]}": elements}


def _truncated(p: Params, site: Site) -> Counts:
    """Return how often the section of `cast_f32_integers` that writes an element runs: "bool" for
    Booleans, "put N" for integers of N bytes."""
    form = "bool" if p["out_bool"] else f"put {p['out_bytes']}"
    return {form: site.output.elements}


def _cumulative(p: Params, site: Site) -> Counts:
    """Return how often each section of a cumulative sum runs.

    "loop" counts the vectors along the summed axis, including the first addition of each: it adds
    to 0, which is fast in software floating point.  "step" counts all other additions.  "bit"
    counts the bits of all quotients, since the kernel divides each vector's index by `inner`."""
    loops = p["outer"] * p["inner"]
    bits = p["inner"] * sum(k.bit_length() for k in range(p["outer"]))
    return {"loop": loops, "bit": bits, "step": site.output.elements - loops}


def _softmax(p: Params, site: Site) -> Counts:
    """Return how often each section of a floating-point softmax runs.

    "pixel" counts vectors; its cycles include those of a vector's greatest element, because the
    exponential of this element, exp(0), is computed fast.  "output" counts all other elements."""
    outputs = site.output.elements
    pixels = outputs // p["depth"]
    return {"pixel": pixels, "output": outputs - pixels}


def _svdf_time(p: Params, site: Site) -> Counts:
    """Return how often each section of `svdf_time_s8` or `svdf_time_s16` runs.

    These kernels read each time step once per block of `SVDF_BLOCK` filters."""
    blocks = -(-p["filters"] // SVDF_BLOCK)
    return {
        "output": site.output.elements,
        "read": blocks * p["steps"],
        "loop": p["filters"],
        "step": p["filters"] * p["steps"],
    }


COUNT_FUNCTIONS: Mapping[str, Callable[[Params, Site], Counts]] = {
    "abs_f32": _each_element,
    "arg_extreme_f32": _reduction,
    "arg_extreme_s8": _reduction,
    "average_pool2d_s8": _pool,
    "cast_f32_integers": _truncated,
    "cast_integers": _converted,
    "cast_integers_f32": _converted,
    "ceil_f32": _each_element,
    "channel_runs": channel_runs,
    "concatenate_columns": concatenated_columns,
    "concatenate_rows": concatenated_rows,
    "conv2d_s8": _convolution,
    "cumsum_f32": _cumulative,
    "cumsum_s32": _cumulative,
    "cumsum_s8": _cumulative,
    "depthwise_conv2d_s8": _depthwise,
    "dequantize_s8_f32": _each_element,
    "elu_f32": _each_element,
    "erf_f32": _each_element,
    "exchange_axes": exchange_counts,
    "exp_f32": _each_element,
    "floor_f32": _each_element,
    "fully_connected_s8": _fully_connected,
    "gather_nd": gathered,
    "gru_s8_f32": _real_recurrence,
    "hidden_f32_s8": _each_element,
    "listed": listed,
    "log_f32": _each_element,
    "log_softmax_f32": _softmax,
    "logistic_f32": _each_element,
    "lookup_s8": _each_element,
    "lstm_s8": _lstm,
    "lstm_s8_f32": _real_recurrence,
    "max_pool2d_s8": _pool,
    "neg_f32": _each_element,
    "neg_s32": _each_element,
    "quantize_f32_s8": _each_element,
    "quantize_wide": _converted,
    "rearrange": rearranged,
    "reduce_extreme_s8": _reduction,
    "relu_f32": _clamped,
    "resample_s8": _resampled,
    "round_f32": _each_element,
    "rsqrt_f32": _each_element,
    "running_max_s8": _running,
    "running_product_s8": _running_product,
    "running_sum_s8": _running,
    "softmax_f32": _softmax,
    "sqrt_f32": _each_element,
    "square_f32": _each_element,
    "strided": strided,
    "svdf_feature_s8": _fully_connected,
    "svdf_time_s16": _svdf_time,
    "svdf_time_s8": _svdf_time,
    "tanh_f32": _each_element,
    "total_f32": _reduction,
    "total_s8": _reduction,
    "transpose_conv_s8": _transposed,
}
"""Count functions by kernel name; `_elementwise` applies to all other portable kernels."""
