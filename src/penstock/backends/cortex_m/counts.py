"""Counts: how often each part of a portable kernel runs for a whole output.

A kernel is nested loops.  What it takes is linear in how often each of them is entered:

    row      a row of the output                    output   an output element
    pixel    a column of such a row                 loop     an innermost loop
    read     a row of an input that is looked up    step     an iteration of an innermost loop
    copy     a run of bytes that is copied          byte     a byte of such a run
    fill     a run of bytes that is filled          filled   a byte of such a run

Where windows leave the input, loops and their steps are `clipped`: a compiler that specialises a
kernel can unroll the others.

`figures.py` knows what each of them costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.ir.op import Kernel, Op, Site, row_count
from penstock.ir.region import Region

MOST_SMALL_BYTES = 16
"""Of a run that a compiler copies without a call, where it knows its size."""
Counts = Mapping[str, float]
Params = Mapping[str, int]


def portable_counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """How often the parts of a portable kernel run; None where it is not portable."""
    counted = COUNTED.get(kernel.name)
    if counted is None and kernel.name != op.kernel(site).name:
        return None
    p = dict(kernel.params)
    rows = row_count(site.output.shape)
    own = _plain(op, site) if counted is None else counted(p, site)
    return {"row": rows, **own} if kernel.by_rows else own


def _plain(op: Op, site: Site) -> Counts:
    """Of kernels that compute element by element, or vector by vector."""
    work = op.work(site, Region.whole(site.output.shape))
    y = site.output
    return {"pixel": y.elements // y.shape[-1], "output": y.elements, "step": work.macs}


def _windows(p: Params, site: Site) -> tuple[int, int, int]:
    """Rows and columns of the input under all windows of an image's rows and columns; images."""
    images = site.output.shape[0]
    return (
        taps_inside(p["in_h"], p["out_h"], p["kernel_h"], p["stride_h"], p["pad_top"],
                    p.get("dilation_h", 1)),
        taps_inside(p["in_w"], p["out_w"], p["kernel_w"], p["stride_w"], p["pad_left"],
                    p.get("dilation_w", 1)),
        images,
    )  # fmt: skip


def taps_inside(
    extent: int, outputs: int, taps: int, stride: int, before: int, dilation: int
) -> int:
    """Taps that lie inside an axis, of the windows of all outputs along it.

    >>> taps_inside(extent=4, outputs=4, taps=3, stride=1, before=1, dilation=1)
    10
    """
    return sum(
        0 <= k * stride - before + tap * dilation < extent
        for k in range(outputs)
        for tap in range(taps)
    )


def _convolution(p: Params, site: Site) -> Counts:
    """Where taps lie side by side, a row of a window is one loop; else each tap is."""
    rows, columns, images = _windows(p, site)
    channels, depth = p["out_c"], p["in_c"] // p["groups"]
    is_run = p["groups"] == 1 and p["dilation_w"] == 1
    loops = rows * (p["out_w"] if is_run else columns)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        "read": images * rows,
        **_clipped(
            p, columns, images * loops * channels, images * rows * columns * channels * depth
        ),
    }


def _clipped(p: Params, columns: int, loops: int, steps: int) -> Counts:
    """Loops over the columns of windows and their steps; `columns`: of all windows of a row, those
    inside."""
    if columns < p["out_w"] * p["kernel_w"]:
        return {"clipped loop": loops, "clipped step": steps}
    return {"loop": loops, "step": steps}


def _depthwise(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        "read": images * rows,
        **_clipped(
            p,
            columns,
            images * rows * p["out_w"] * p["out_c"],
            images * rows * columns * p["out_c"],
        ),
    }


def _pool(p: Params, site: Site) -> Counts:
    rows, columns, images = _windows(p, site)
    return {
        "pixel": images * p["out_h"] * p["out_w"],
        "output": site.output.elements,
        **_clipped(
            p,
            columns,
            images * rows * p["out_w"] * p["out_c"],
            images * rows * columns * p["out_c"],
        ),
    }


def _reduction(p: Params, site: Site) -> Counts:
    """A row is looked up for each output; columns are a loop, and channels one within it."""
    outputs = site.output.elements
    reads = outputs * p["span_n"] * p["span_h"]
    loops = reads * p["span_w"]
    return {"output": outputs, "read": reads, "loop": loops, "step": loops * p["span_c"]}


def _running(p: Params, site: Site) -> Counts:
    """Totals under columns, from one row to the next."""
    rows = row_count(site.inputs[0].shape)
    columns = taps_inside(p["in_w"], p["out_w"], p["kernel_w"], p["stride_w"], p["pad_left"], 1)
    return {
        "pixel": rows * p["out_w"],
        "output": rows * p["out_w"] * p["in_c"],
        "step": rows * columns * p["in_c"],
    }


def _running_product(p: Params, site: Site) -> Counts:
    outputs = site.output.elements
    return {"output": outputs, "step": outputs * p["row"]}


def _fully_connected(p: Params, site: Site) -> Counts:
    return {"output": site.output.elements, "step": site.output.elements * p["in_c"]}


def _rearranged(p: Params, site: Site) -> Counts:
    copies = site.output.size_bytes // p["run_bytes"]
    return {**_copied(copies, p["run_bytes"]), "loop": copies / p["extent2"]}


def _copied(copies: int, size_bytes: int) -> Counts:
    """So many runs; a compiler that knows their size makes no calls for small ones."""
    small = "small " * (size_bytes <= MOST_SMALL_BYTES)
    return {f"{small}copy": copies, f"{small}byte": copies * size_bytes}


def _strided(p: Params, site: Site) -> Counts:
    """Runs of a pixel's channels, or its channels one by one; what is outside is filled."""
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


def _listed(p: Params, site: Site) -> Counts:
    copies = row_count(site.output.shape) * p["out_w"] * p["out_c"]
    return {"pixel": copies // p["out_c"], **_copied(copies, p["element_bytes"])}


def _rows_joined(p: Params, site: Site) -> Counts:
    return {"byte": site.output.size_bytes}


def _columns_joined(p: Params, site: Site) -> Counts:
    copies = row_count(site.output.shape) * p["pieces"] * p["inputs"]
    return {"copy": copies, "byte": site.output.size_bytes}


def _transposed(p: Params, site: Site) -> Counts:
    """Taps meet an input wherever the stride allows."""
    outputs = site.output.elements
    taps = p["kernel_h"] * p["kernel_w"]
    met = site.inputs[0].elements // p["in_c"] * taps * p["out_c"]
    return {
        "output": outputs,
        "read": outputs * p["kernel_h"],
        "loop": outputs * taps / p["stride_h"],
        "step": met * p["in_c"],
    }


def _lookup(p: Params, site: Site) -> Counts:
    return {"output": site.output.elements}


COUNTED: Mapping[str, Callable[[Params, Site], Counts]] = {
    "arg_extreme_s8": _reduction,
    "average_pool2d_s8": _pool,
    "concatenate_columns": _columns_joined,
    "concatenate_rows": _rows_joined,
    "conv2d_s8": _convolution,
    "depthwise_conv2d_s8": _depthwise,
    "fully_connected_s8": _fully_connected,
    "listed": _listed,
    "lookup_s8": _lookup,
    "max_pool2d_s8": _pool,
    "rearrange": _rearranged,
    "reduce_extreme_s8": _reduction,
    "running_max_s8": _running,
    "running_product_s8": _running_product,
    "running_sum_s8": _running,
    "strided": _strided,
    "total_s8": _reduction,
    "transpose_conv_s8": _transposed,
}
"""By the name of a kernel; others are `_plain`."""
