"""Resizing: how nodes of TFLite and of ONNX map output positions to input positions.

ONNX Resize and Upsample sample axis by axis, in single precision.

Source: ONNX operator specification, Resize; order of operations as in onnxruntime
(`core/providers/cpu/tensor/upsamplebase.h`).
"""

from __future__ import annotations

from enum import Enum
from math import isclose
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.tensor import Array, Interval, Region
from penstock.opkit.checks import require, require_elements
from penstock.opkit.onnx_constants import real_numbers
from penstock.opkit.selection import Form


class Sampling(Enum):
    """Mapping of output positions to input positions.

    LEGACY: o * in / out.  HALF_PIXEL: pixel centres are at one half.  ALIGN_CORNERS: the first and
    last positions coincide."""

    LEGACY = "legacy"
    HALF_PIXEL = "half-pixel"
    ALIGN_CORNERS = "align-corners"


def foreign_resize(node: ForeignNode) -> tuple[int, int, Sampling]:
    """(rows, columns, sampling) of a TFLite node."""
    sizes = node.constant_ints(1)
    require(len(sizes) == 2, f"input 1 has {len(sizes)} elements, must have 2: rows, columns")
    align, half = node.integer("align_corners"), node.integer("half_pixel_centers")
    if align and half:
        raise node.unsupported("align_corners and half_pixel_centers exclude each other")
    if align:
        return sizes[0], sizes[1], Sampling.ALIGN_CORNERS
    return sizes[0], sizes[1], Sampling.HALF_PIXEL if half else Sampling.LEGACY


class Needing(Protocol):
    """The reads along one axis."""

    def needs(self, out: Interval, /) -> Interval:
        """Input interval that an output interval reads."""
        ...


def image_needs(rows: Needing, columns: Needing, out: Region) -> Region:
    """The region of an image that a region of one with other rows and columns reads."""
    n, h, w, c = out.intervals
    return Region.of(n, rows.needs(h), columns.needs(w), c)


def image_affine(rows: Form, columns: Form) -> Affine:
    """Affine form of images whose rows and columns have these forms."""
    factors, extra, offset = zip((1, 0, 0), rows, columns, (1, 0, 0), strict=True)
    return Affine.diagonal(factors, extra, offset)


Positions = NDArray[np.float32]

CROP = "tf_crop_and_resize"
MODEL_AXES = (0, 2, 3, 1)
"""Axis of the model's images, (N, C, H, W), by axis of the graph's."""
COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
)
POLICIES = ("stretch", "not_larger", "not_smaller")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


@frozen
class ResizedAxis:
    """An axis of `extent` that becomes one of `outputs`, by `scale`."""

    extent: int
    outputs: int
    scale: np.float32

    @property
    def is_unchanged(self) -> bool:
        return self.outputs == self.extent and self.scale == 1

    def positions(self, coordinates: str) -> Positions:
        """The position in the input of each output index."""
        o, half, one = np.arange(self.outputs, dtype=np.float32), np.float32(0.5), np.float32(1)
        match coordinates:
            case "asymmetric":
                return o / self.scale
            case "align_corners":
                last, most = np.float32(self.extent - 1), np.float32(self.outputs - 1)
                return o * last / most if self.outputs > 1 else o
            case "pytorch_half_pixel" if self.outputs == 1:
                return o
            case "tf_half_pixel_for_nn":
                return (o + half) / self.scale
            case "half_pixel_symmetric":
                adjustment = np.float32(self.outputs) / (self.scale * np.float32(self.extent))
                centre = np.float32(self.extent) / np.float32(2)
                return centre * (one - adjustment) + ((o + half) / self.scale - half)
            case _:
                # As `half_pixel`, and `pytorch_half_pixel` of more than one output.
                return (o + half) / self.scale - half

    def nearest(self, coordinates: str, rounding: str) -> tuple[int, ...]:
        """The input index that each output index repeats."""
        return self.at(self.positions(coordinates), rounding)

    def at(self, x: Positions, rounding: str) -> tuple[int, ...]:
        """The input index nearest to each position."""
        match rounding:
            case "round_prefer_floor":
                # Half down; `round_prefer_ceil` rounds half up.
                found = np.ceil(x - np.float32(0.5))
            case "round_prefer_ceil":
                found = np.floor(x + np.float32(0.5))
            case "floor":
                found = np.floor(x)
            case "ceil":
                found = np.ceil(x)
            case _:
                found = np.ceil(x) if self.scale < 1 else np.trunc(x)
        return tuple(int(k) for k in np.clip(found, 0, self.extent - 1))


def resized_axes(node: OnnxNode) -> tuple[ResizedAxis, ...]:
    """How a node resizes the axes of its image, (N, H, W, C).

    Raises ModelError or UnsupportedError."""
    x, rank = node.x.shape, len(node.order)
    listed = node.integers("axes", tuple(range(rank)))
    require(
        all(-rank <= axis < rank for axis in listed),
        f"axes are {list(listed)}, must be within [{-rank}, {rank})",
    )
    sizes = node.constant_ints(3) if node.optional(3) is not None else ()
    factors = () if sizes else _factors(node)
    policy = node.text("keep_aspect_ratio_policy", "stretch", POLICIES)
    if sizes and policy != "stretch":
        sizes, factors = (), _of_one_ratio(node, listed, sizes, larger=policy == "not_smaller")
    given = len(sizes or factors)
    require(given == len(listed), f"there are {given} sizes or factors, must be {len(listed)}")
    by_axis = {axis % rank: k for k, axis in enumerate(listed)}
    found: list[ResizedAxis] = []
    for extent, axis in zip(x, MODEL_AXES, strict=True):
        k = by_axis.get(axis)
        if k is None or axis >= rank:
            found.append(ResizedAxis(extent, extent, np.float32(1)))
        elif sizes:
            require(0 <= sizes[k] < 2**31, f"sizes are {list(sizes)}, must be positive")
            require_elements((sizes[k],), "an axis of the result")
            found.append(ResizedAxis(extent, sizes[k], np.float32(sizes[k]) / np.float32(extent)))
        else:
            half = np.float32(0 if policy == "stretch" else 0.5)
            outputs = int(np.floor(np.float32(extent) * factors[k] + half))
            require_elements((outputs,), "an axis of the result")
            found.append(ResizedAxis(extent, outputs, factors[k]))
    return tuple(found)


def _of_one_ratio(
    node: OnnxNode, listed: tuple[int, ...], sizes: tuple[int, ...], *, larger: bool
) -> tuple[np.float32, ...]:
    """The same factor for all axes: the largest or the smallest that the sizes state."""
    shape: dict[int, int] = dict(zip(MODEL_AXES, node.x.shape, strict=True))
    rank = len(node.order)
    ratios = [size / shape[axis % rank] for axis, size in zip(listed, sizes, strict=True)]
    return (np.float32(max(ratios) if larger else min(ratios)),) * len(listed)


def real_positions(node: OnnxNode, axis: ResizedAxis, model_axis: int) -> Array:
    """The position in the input of each output index of a float32 tensor, in double precision.

    Source: ONNX operator specification, Resize, where lengths are scale times extent."""
    o, scale, last = np.arange(axis.outputs, dtype=np.float64), float(axis.scale), axis.extent - 1
    exact = axis.outputs / axis.extent
    if np.float32(exact) == axis.scale:  # of stated sizes, or a factor as near as float32 can be
        scale = exact
    length = scale * axis.extent
    match node.text("coordinate_transformation_mode", "half_pixel"):
        case "align_corners":
            if not isclose(length, axis.outputs, rel_tol=1e-6):
                # ONNX's tests divide by 2.4 - 1 for 4 elements times 0.6, onnxruntime by 2 - 1.
                raise node.unsupported(
                    f"with align_corners, {axis.extent} elements become {length:.4g}, must be a "
                    "whole number",
                    help="state sizes instead of factors: ONNX's tests and onnxruntime differ",
                )
            return o * last / (axis.outputs - 1) if axis.outputs > 1 else o * 0
        case mode if mode == CROP:
            start, end = _region(node, model_axis)
            if length == 1:
                return o + (start + end) * last / 2
            return start * last + o * (end - start) * last / (length - 1)
        case "pytorch_half_pixel" if length == 1:
            return o - 0.5
        case "half_pixel_symmetric":
            return axis.extent / 2 * (1 - axis.outputs / length) + (o + 0.5) / scale - 0.5
        case mode:
            is_asymmetric = mode == "asymmetric" or coordinates_of(node) == "asymmetric"
            return o / scale if is_asymmetric else (o + 0.5) / scale - 0.5


def _region(node: OnnxNode, model_axis: int) -> tuple[float, float]:
    """The part of an axis that a crop takes, as shares of the distance of its ends."""
    rank, roi = len(node.order), real_numbers(node, 1).ravel()
    listed = [axis % rank for axis in node.integers("axes", tuple(range(rank)))]
    require(len(roi) == 2 * len(listed), f"the region has {len(roi)} numbers")
    k = listed.index(model_axis) if model_axis in listed else None
    return (0.0, 1.0) if k is None else (float(roi[k]), float(roi[k + len(listed)]))


def _factors(node: OnnxNode) -> tuple[np.float32, ...]:
    """Factors of axes: an attribute of the first Upsample, later an input."""
    if "scales" in node.attributes:
        numbers = node.attributes["scales"]
        found = np.array(numbers, np.float32).ravel()
    else:
        # From opset 11 on, the region of interest is input 1.
        of_roi = node.name == "Resize" and node.opset >= 11
        found = real_numbers(node, 2 if of_roi else 1).astype(np.float32).ravel()
    require(
        bool(np.isfinite(found).all() and (found > 0).all() and (found < 2**15).all()),
        f"factors are {found.tolist()!r:.80}, must be positive numbers",
    )
    return tuple(np.float32(f) for f in found)


def coordinates_of(node: OnnxNode) -> str:
    """The node's coordinate mode.  Raises UnsupportedError for one that crops."""
    if node.name == "Upsample" or node.opset < 11:
        return "asymmetric"
    return node.text("coordinate_transformation_mode", "half_pixel", COORDINATES)


def rounding_of(node: OnnxNode) -> str:
    """How the node rounds positions to indices."""
    if node.name == "Upsample" or node.opset < 11:
        return "floor"
    return node.text("nearest_mode", "round_prefer_floor", ROUNDINGS)
