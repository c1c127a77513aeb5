"""Propagators of TVM's cascader, derived from penstock's operators and two layouts.

The differences are in storage: depthwise weights are ordered by output channel, bias and scale of a
channel take 10 bytes, and an axis on which an operand has one element counts as broadcast.

Source: TVM v0.16, `relay/backend/contrib/ethosu/te`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, RootModel

from benchmarks.case_file import Record
from benchmarks.tensor_layouts import NHCWB16, NHWC, Layout, StoredAxis, between
from penstock.errors import UsageError
from penstock.ir.affine import Affine
from penstock.ir.op import Op, Site
from penstock.ir.tensor import DType, TensorType
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pool import MaxPool2D
from penstock.ops.unary import Abs

LAYOUTS = {layout.name: layout for layout in (NHWC, NHCWB16)}
BY_CHANNEL = Layout("(O, K, L, 1) of (1, K, L, O)", tuple(map(StoredAxis, (3, 1, 2, 0))))
SCALE_AND_BIAS = Layout("10 bytes for each channel", (StoredAxis(0), StoredAxis(None, 10)))

LayoutName = Literal["NHWC", "NHCWB16"]
Positive = Annotated[int, Field(gt=0)]
Pair = tuple[Positive, Positive]
Shape4 = tuple[Positive, Positive, Positive, Positive]
Forms = Mapping[str, Affine]
"""Affine transforms by input: ifm, ifm2, weight, bias."""


class Windowed(Record):
    """A window that slides over rows and columns."""

    op: Literal["conv2d", "depthwise_conv2d", "pooling"]
    kernel: Pair
    stride: Pair = (1, 1)
    padding_tlbr: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    ifm_layout: LayoutName = "NHWC"
    ofm_layout: LayoutName = "NHWC"
    ifm_shape_nhwc: Shape4
    ofm_channels: Positive

    def forms(self) -> Forms:
        op, shapes = self.op_and_shapes()
        n, height, width, _ = self.ifm_shape_nhwc
        rows, columns = self._windows()
        y = (n, rows.outputs(height), columns.outputs(width), self.ofm_channels)
        x_layout, y_layout = LAYOUTS[self.ifm_layout], LAYOUTS[self.ofm_layout]
        weight_layout = BY_CHANNEL if self.op == "depthwise_conv2d" else NHWC
        found = zip(
            ("ifm", "weight", "bias"),
            _forms_of(op, shapes, y),
            (x_layout, weight_layout, SCALE_AND_BIAS),
            strict=False,  # a pool has one input
        )
        return {name: between(form, stored, y_layout, y) for name, form, stored in found}

    def op_and_shapes(self) -> tuple[Op, tuple[tuple[int, ...], ...]]:
        """penstock's operator, and the shapes of its inputs."""
        rows, columns = self._windows()
        x, outputs = self.ifm_shape_nhwc, self.ofm_channels
        if self.op == "pooling":
            return MaxPool2D(rows, columns), (x,)
        if self.op == "conv2d":
            return Conv2D(rows, columns), (x, (outputs, *self.kernel, x[3]), (outputs,))
        multiplier, rest = divmod(outputs, x[3])
        if rest:
            raise UsageError("bench-023", f"{outputs} channels are no multiple of {x[3]}")
        op = DepthwiseConv2D(rows, columns, multiplier)
        return op, (x, (1, *self.kernel, outputs), (outputs,))

    def _windows(self) -> tuple[Window, Window]:
        top, left, bottom, right = self.padding_tlbr
        return (
            Window(self.kernel[0], self.stride[0], self.dilation[0], top, bottom),
            Window(self.kernel[1], self.stride[1], self.dilation[1], left, right),
        )


class Binary(Record):
    """Two operands; the second may be broadcast."""

    op: Literal["binary_elementwise"]
    ofm_shape_nhwc: Shape4
    ifm2_shape_nhwc: Shape4
    ifm_layout: LayoutName = "NHWC"
    ifm2_layout: LayoutName = "NHWC"
    ofm_layout: LayoutName = "NHWC"

    def forms(self) -> Forms:
        y, x2 = self.ofm_shape_nhwc, self.ifm2_shape_nhwc
        if any(extent not in (1, whole) for extent, whole in zip(x2, y, strict=True)):
            raise UsageError("bench-023", f"{list(x2)} does not stretch to {list(y)}")
        ifm, ifm2 = _forms_of(Add(), (y, x2), y)
        y_layout = LAYOUTS[self.ofm_layout]
        return {
            "ifm": between(ifm, LAYOUTS[self.ifm_layout], y_layout, y),
            "ifm2": between(_stretched(ifm2, x2), LAYOUTS[self.ifm2_layout], y_layout, y),
        }


class Unary(Record):
    """One operand."""

    op: Literal["unary_elementwise"]
    ofm_shape_nhwc: Shape4
    ifm_layout: LayoutName = "NHWC"
    ofm_layout: LayoutName = "NHWC"

    def forms(self) -> Forms:
        y = self.ofm_shape_nhwc
        (ifm,) = _forms_of(Abs(), (y,), y)
        return {"ifm": between(ifm, LAYOUTS[self.ifm_layout], LAYOUTS[self.ofm_layout], y)}


class Identity(Record):
    """Requantisation of a tensor of any rank, in the order of its axes."""

    op: Literal["identity"]
    ifm_shape: tuple[Positive, ...]

    def forms(self) -> Forms:
        (ifm,) = _forms_of(Quantize(), (self.ifm_shape,), self.ifm_shape)
        return {"ifm": ifm}


class Operator(RootModel[Windowed | Binary | Unary | Identity]):
    """One of the operators; `op` distinguishes them."""

    root: Annotated[Windowed | Binary | Unary | Identity, Field(discriminator="op")]


def _forms_of(
    op: Op, shapes: tuple[tuple[int, ...], ...], y: tuple[int, ...]
) -> tuple[Affine, ...]:
    """Affine transforms of penstock's operator between tensors of these shapes."""
    types = tuple(TensorType(shape, DType.INT8) for shape in shapes)
    return op.affine(Site(types, TensorType(y, DType.INT8), (None,) * len(types)))


def _stretched(form: Affine, shape: tuple[int, ...]) -> Affine:
    """The same boxes with constant bounds on every axis of one element except the batch."""
    one = (0,) * form.out_rank + (1,)
    rows = (
        one if axis and extent == 1 else row
        for axis, (row, extent) in enumerate(zip(form.matrix, shape, strict=True))
    )
    return replace(form, matrix=tuple(rows))
