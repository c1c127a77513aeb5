"""Requantisation of accumulators by real multipliers, one per tensor or per channel.

Source: TFLite, `PopulateConvolutionQuantizationParams` (kernel_util.cc): the product of scales is
computed in double precision.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.choices import Rounding
from penstock.errors import UnsupportedError
from penstock.fixedpoint import Int64s, quantise_multiplier, requantise, wrap_int32
from penstock.frozen import frozen
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, OperatorDefaults, Site, Table, Tables, members, row_kernel
from penstock.ir.tensor import Array, Interval, Region, TensorType, row_count
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require
from penstock.requantisation.form import reachable

LARGEST_SCALED = 2**31 - 2**8
"""Where scaled values end, so that C can add a zero point to them in int32."""


def fitting_multiplier(real: float, largest: int) -> tuple[int, int]:
    """(multiplier, shift) of a real multiplier for values of magnitude up to `largest`.

    Raises UnsupportedError if values may overflow int32 before, while or after they are scaled."""
    if largest < 2**31 and real * largest < LARGEST_SCALED:
        found = Multipliers.of([real])
        if found.largest(np.array([largest], np.int64))[0] < LARGEST_SCALED:
            return found.multipliers[0], found.shifts[0]
    raise UnsupportedError(
        "model-025",
        f"values up to {largest} are multiplied by {real:.4g}, made of the scales; they must stay "
        f"below 2**31, and times the next power of two below {LARGEST_SCALED}",
        why="the reference computes the output in 32 bits before it clamps it",
        help="check the scales of the node's inputs and output",
    )


@frozen
class Multipliers:
    """Fixed-point multipliers and shifts, one of each per output channel.

    `addends`: numbers that are added to the products, which are then rounded once; () for none."""

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    addends: tuple[int, ...] = ()

    @staticmethod
    def of(reals: list[float]) -> Multipliers:
        pairs = [quantise_multiplier(real) for real in reals]
        return Multipliers(tuple(m for m, _ in pairs), tuple(s for _, s in pairs))

    def repeated(self, count: int) -> Multipliers:
        """Each multiplier `count` times."""
        parts = (self.multipliers, self.shifts, self.addends)
        return Multipliers(*(tuple(np.repeat(part, count).tolist()) for part in parts))

    def reals(self) -> NDArray[np.float64]:
        """The multipliers as real numbers."""
        shifts = np.array(self.shifts, np.float64)
        return np.array(self.multipliers, np.float64) * 2.0 ** (shifts - 31)

    def largest(self, values: Int64s) -> NDArray[np.float64]:
        """The greatest magnitude while non-negative values, one per channel, are scaled."""
        # Left shifts come before the product: undefined in TensorFlow's C where they overflow,
        # and onnxruntime saturates.
        if self.addends:
            addends = np.abs(self.addends) * 2.0 ** (np.array(self.shifts) - 31)
            return values.astype(np.float64) * np.abs(self.reals()) + addends
        shifts = np.array(self.shifts, np.float64)
        return values.astype(np.float64) * np.where(shifts > 0, 2.0**shifts, self.reals())

    def rounding(self, otherwise: Rounding) -> Rounding:
        """The rounding of the products."""
        return Rounding.SINGLE if self.addends else otherwise

    def forms(self, zero_point: int, rounding: Rounding) -> Int64s:
        """The arithmetic of each channel as six numbers, see `certified.h`: (channels, 6)."""
        parts = self.multipliers, self.shifts, self.addends or (0,) * len(self.shifts)
        multiplier, shift, addend = (np.array(part, np.int64) for part in parts)
        return reference_forms(multiplier, shift, addend, zero_point, self.rounding(rounding))

    def tables(self, zero_point: int) -> Tables:
        """Kernel tables `multiplier` and `shift`, or `forms` if there are addends."""
        if self.addends:
            return (("forms", form_table(self.forms(zero_point, Rounding.SINGLE))),)
        return (
            ("multiplier", Table.integers(self.multipliers)),
            ("shift", Table.of(np.array(self.shifts, np.int8))),
        )

    def apply(
        self,
        accumulators: Int64s,
        channels: slice,
        zero_point: int,
        bounds: tuple[int, int],
        rounding: Rounding = Rounding.DOUBLE,
    ) -> Array:
        """Output elements of accumulators (..., channels): scaled, offset, clamped."""
        multiplier = np.array(self.multipliers, np.int64)[channels]
        shift = np.array(self.shifts, np.int64)[channels]
        addend = np.array(self.addends, np.int64)[channels] if self.addends else 0
        rounding = self.rounding(rounding)
        return requantise(accumulators, multiplier, shift, zero_point, bounds, rounding, addend)


# Attributes of nodes that state the arithmetic of their requantisation, which no ONNX file has:
# per channel, or for all, `MULTIPLIERS` and `ADDENDS`, and the `SHIFT` of the sums.
MULTIPLIERS, ADDENDS, SHIFT = "stated multipliers", "stated addends", "stated shift"


def stated_multipliers(node: OnnxNode, channels: int) -> Multipliers | None:
    """The multipliers of so many channels that an ONNX node states; None if it states none."""
    if MULTIPLIERS not in node.attributes:
        return None
    multipliers, addends = node.integers(MULTIPLIERS), node.integers(ADDENDS)
    found = Multipliers(multipliers, (31 - node.integer(SHIFT),) * len(multipliers), addends)
    return found if len(multipliers) == channels else found.repeated(channels)


def reference_forms(
    multiplier: Int64s, shift: Int64s, addend: Int64s, zero_point: int, rounding: Rounding
) -> Int64s:
    """The arithmetic of the reference, of channels without a proved form, as `certified.h` has it.

    Arrays of shape (channels); the result has shape (channels, 6)."""
    none, zero = np.zeros_like(shift), np.full_like(shift, zero_point)
    if rounding is Rounding.DOUBLE:
        return np.stack((none - 1, multiplier, shift, zero, none, none), axis=1)
    total = 31 - shift
    added = addend + (np.int64(1) << total - 1)
    low, high = wrap_int32(added), added >> 32
    return np.stack((none - 2, multiplier, total, zero, low, high), axis=1)


def form_table(forms: Int64s) -> Table:
    """The table of requantisation forms that a kernel reads, as int32.

    forms: the six numbers that encode the form of each channel, with shape (channels, 6)."""
    return Table.of(forms.astype(np.int32).ravel())


def product_multiplier(x: TensorType, w: TensorType, y: TensorType) -> tuple[int, int]:
    """(multiplier, shift) of products of tensors with one scale each."""
    return quantise_multiplier(x.scale * w.scale / y.scale)


@lru_cache(maxsize=1024)
def channel_multipliers(x: TensorType, w: TensorType, y: TensorType, channels: int) -> Multipliers:
    """Multipliers scale_x * scale_w[c] / scale_y of `channels` output channels."""
    assert w.quantisation is not None
    scales = w.quantisation.scales
    # One scale for the tensor counts for each channel.
    every = scales if len(scales) == channels else scales * channels
    # Double precision and this order, as in the reference.
    return Multipliers.of([x.scale * scale / y.scale for scale in every])


@frozen
class SumRequantisation(OperatorDefaults):
    """Base of operators that requantise int32 sums, one multiplier per channel.

        x  (..., C)  int32
        y  (..., C)  int8     clamp(zero_y + M[c] * x)

    `reach`: interval of the sums of each channel; () for any int32."""

    multipliers: Multipliers
    activation: Activation = Activation.NONE
    rounding: Rounding = Rounding.DOUBLE
    reach: tuple[Interval, ...] = ()

    def require_channels(self, x: TensorType) -> None:
        """Raises ModelError unless there is one multiplier for each channel of the sums."""
        given = len(self.multipliers.multipliers)
        require(given == x.shape[-1], f"{given} multipliers for {x.shape[-1]} channels")

    def requantised(self, site: Site, sums: Array, out: Region) -> Array:
        """Elements of region `out` of the output, given their sums."""
        return self.multipliers.apply(
            sums.astype(np.int64),
            out.slices[-1],
            site.output.zero_point,
            self.activation.bounds(site.output),
            self.rounding,
        )

    def kernel_from(self, site: Site, first_row: int) -> Kernel:
        """The kernel that computes row r of the output from row `first_row` + r of the sums."""
        shape = site.x.shape
        return row_kernel(
            "requantise_s32",
            members(
                first_row=first_row,
                width=math.prod(shape[:-1]) // row_count(shape),
                channels=shape[-1],
                out_zero=site.output.zero_point,
            ),
            self.activation.params(site.output),
            self.multipliers.tables(site.output.zero_point),
            single_rounding=self.rounding is Rounding.SINGLE,
        )


def reach_of_sums(x: TensorType, weights: Array, bias: Array) -> tuple[Interval, ...]:
    """Interval of the sums of each channel: bias plus products of weights (O, C) and inputs x."""
    products = weights.astype(np.int64), bias.astype(np.int64)
    ends = reachable(*products, x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point)
    return tuple(zip(*(end.tolist() for end in ends), strict=True))
