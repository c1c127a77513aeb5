"""Families of pools, reductions and resizes, and the windows that convolutions slide too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.operators.drawing import Drawing
from benchmarks.operators.elementwise import Family
from tools.tflite_writer import OptionValue, TensorSpec

PADDINGS = ("SAME", "VALID")


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window over rows and columns, as the schema's options say it."""

    height: int
    width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: str

    def outputs(self, rows: int, columns: int) -> tuple[int, int]:
        """How many positions it has along both axes."""
        sizes = zip(
            (rows, columns), (self.height, self.width), self.stride, self.dilation, strict=True
        )
        if self.padding == "SAME":
            found = [-(-extent // stride) for extent, _, stride, _ in sizes]
        else:
            found = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k, stride, dilation in sizes]
        return found[0], found[1]

    def options(self) -> dict[str, OptionValue]:
        found: dict[str, OptionValue] = {
            "padding": self.padding,
            "stride_h": self.stride[0],
            "stride_w": self.stride[1],
        }
        if self.dilation != (1, 1):
            found |= {"dilation_h_factor": self.dilation[0], "dilation_w_factor": self.dilation[1]}
        return found


def sliding(d: Drawing, rows: int, columns: int, dilated: bool, most: int = 5) -> Sliding:
    """A window that has an output."""
    while True:
        stride = (d.choose(1, 1, 2, 3), d.choose(1, 1, 2, 3))
        dilation = (d.choose(1, 1, 1, 2, 3), d.choose(1, 1, 1, 2, 3)) if dilated else (1, 1)
        size = d.integer(1, most), d.integer(1, most)
        window = Sliding(*size, stride, dilation, d.choose(*PADDINGS))
        if min(window.outputs(rows, columns)) > 0:
            return window


def pool(name: str, d: Drawing) -> None:
    """Input and output share one quantisation in the reference."""
    x = d.input(d.image())
    batches, rows, columns, channels = d.shape_of(x)
    window = sliding(d, rows, columns, dilated=False)
    d.operator(
        name,
        (x,),
        d.same((batches, *window.outputs(rows, columns), channels), x),
        **window.options(),
        filter_height=window.height,
        filter_width=window.width,
        fused_activation_function=d.activation_function(),
    )


def reduction(name: str, d: Drawing) -> None:
    x = d.input(d.choose(d.image(), d.shape()))
    shape = d.shape_of(x)
    axes = sorted({d.integer(0, len(shape) - 1) for _ in range(d.integer(1, 3))})
    if len(shape) == 4 and d.chance(0.4):
        axes = [1, 2]
    kept = d.chance(0.5)
    left = [(1 if a in axes else n) for a, n in enumerate(shape) if kept or a not in axes]
    listed = d.constant([a - len(shape) if d.chance(0.2) else a for a in axes])
    result = tuple(left)
    if name in ("REDUCE_MAX", "REDUCE_MIN"):
        y = d.same(result, x)
    else:
        y = d.output(result, d.scale_near(d.scale_of(x)))
    d.operator(name, (x, listed), y, keep_dims=kept)


def arg_extreme(name: str, d: Drawing) -> None:
    x = d.input(d.shape())
    shape = d.shape_of(x)
    axis = d.integer(0, len(shape) - 1)
    left = (*shape[:axis], *shape[axis + 1 :])
    y = d.tensor(TensorSpec("y", left, "int32"))
    d.operator(name, (x, d.constant([axis])), y, output_type="INT32")


def resize(name: str, d: Drawing) -> None:
    x = d.input(d.image())
    batches, rows, columns, channels = d.shape_of(x)
    size = (d.choose(rows * 2, rows, d.integer(1, 12)), d.choose(columns * 2, d.integer(1, 12)))
    aligned = d.chance(0.3)
    y = d.same((batches, *size, channels), x)
    centred = not aligned and d.chance(0.4)
    d.operator(name, (x, d.constant(size)), y, align_corners=aligned, half_pixel_centers=centred)


FAMILIES: Mapping[str, Family] = {
    "AVERAGE_POOL_2D": partial(pool, "AVERAGE_POOL_2D"),
    "MAX_POOL_2D": partial(pool, "MAX_POOL_2D"),
    **{name: partial(reduction, name) for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")},
    "ARG_MAX": partial(arg_extreme, "ARG_MAX"),
    "ARG_MIN": partial(arg_extreme, "ARG_MIN"),
    "RESIZE_BILINEAR": partial(resize, "RESIZE_BILINEAR"),
    "RESIZE_NEAREST_NEIGHBOR": partial(resize, "RESIZE_NEAREST_NEIGHBOR"),
}
