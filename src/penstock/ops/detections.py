"""Detections: the boxes that an object detector has found, without those that overlap better ones.

    boxes    (1, N, 4)  int8     codes of centre y, centre x, height and width
    scores   (1, N, C)  int8     of each class; with C = classes + 1, the first is the background
    anchors  (N, 4)     float32  centre y, centre x, height and width; constant
    y        (1, 6 * most + 1)  float32   boxes (ymin, xmin, ymax, xmax), classes, scores, count

    centre = code / scale * size + centre of the anchor, half = exp(code / scale) / 2 * size

Boxes are sorted by the score of their best class, ties by index.  A box is dropped if a better one
that is kept overlaps it by more than `overlap` of their common area.

Source: TFLite, custom operator TFLite_Detection_PostProcess, `kernels/detection_postprocess.cc`
(fast non-maximum suppression): factors of sizes in double precision, all else in single precision.
Unused elements of the output, which the reference leaves undefined, are 0.  Where scores have a
zero point, and a scale that is no power of two, TFLite's depend on the processor's vectors; here
they are scale * (element - zero point).
"""

from __future__ import annotations

import math

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, result_of
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Table,
    Types,
    Work,
    members,
)
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.checks import require, require_count, require_dtype, require_int8
from penstock.ops.reshape import Reshape
from penstock.ops.slice import part

MOST_BOXES = 2**20
_CODES = np.arange(-128, 128)


@frozen
class Detections(OperatorDefaults):
    """Decodes boxes and keeps the best that do not overlap.

    `most`: number of boxes to keep.  `classes`: without the background.  `scales`: of the codes of
    y, x, height and width.  `least_score`, `overlap`: thresholds."""

    most: int
    classes: int
    scales: tuple[float, float, float, float]
    least_score: float
    overlap: float

    TFLITE = ("CUSTOM:TFLite_Detection_PostProcess",)

    def result_type(self, inputs: Types) -> TensorType:
        boxes, scores, anchors = require_count(inputs, 3, "detections")
        require_int8(boxes, "boxes")
        require_int8(scores, "scores")
        require_dtype(anchors, "anchors", DType.FLOAT32)
        count = boxes.shape[1] if boxes.rank == 3 else 0
        require(
            boxes.shape == (1, count, 4) and 0 < count <= MOST_BOXES,
            f"boxes have shape {list(boxes.shape)}, must be [1, N, 4]",
        )
        columns = ((self.classes,), (self.classes + 1,))
        require(
            self.classes > 0 and scores.shape[:2] == (1, count) and scores.shape[2:] in columns,
            f"scores have shape {list(scores.shape)}, must be [1, {count}, N], where N is "
            f"{self.classes} or {self.classes + 1}",
        )
        require(anchors.shape == (count, 4), f"anchors have shape {list(anchors.shape)}")
        require(0 < self.most <= MOST_BOXES, f"{self.most} detections are wanted")
        return TensorType((1, 6 * self.most + 1), DType.FLOAT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        boxes, scores, anchors = inputs
        lower, upper = self._decoded(site, boxes[0], anchors)
        kind = scores[0, :, self._background(site) :]
        best = kind.argmax(axis=1)
        highest = kind.max(axis=1).astype(np.int64)
        order = np.argsort(-highest, kind="stable")
        order = order[highest[order] >= self._least(site)]
        found = np.zeros((self.most, 6), np.float32)
        count = 0
        while order.size and count < self.most:
            first, order = order[0], order[1:]
            score = np.float32(highest[first] - site.inputs[1].zero_point)
            score *= np.float32(site.inputs[1].scale)
            found[count] = (*lower[first], *upper[first], best[first], score)
            shared = _overlaps(lower[first], upper[first], lower[order], upper[order])
            order = order[~(shared > np.float32(self.overlap))]
            count += 1
        parts = (found[:, :4].ravel(), found[:, 4], found[:, 5], [count])
        return np.concatenate(parts).astype(np.float32)[None][out.slices]

    def needs(self, site: Site, out: Region) -> Regions:
        return tuple(Region.whole(x.shape) for x in site.inputs)

    def affine(self, site: Site) -> Affines:
        return tuple(Affine.constant(x.shape, site.output.rank) for x in site.inputs)

    def work(self, site: Site, out: Region) -> Work:
        boxes, columns = site.inputs[1].shape[1:]
        whole = boxes * (2 * columns + 8 * min(self.most, boxes))
        return Work(0, out.elements * -(-whole // site.output.elements))

    def kernel(self, site: Site) -> Kernel:
        boxes, scores, _ = site.inputs
        centres, halves = self._factors(boxes)
        reals = np.array([scores.scale, self.overlap], np.float32)
        return Kernel(
            "detections_s8_f32",
            params=members(
                boxes=boxes.shape[1],
                columns=scores.shape[2],
                offset=self._background(site),
                most=self.most,
                least=self._least(site),
                score_zero=scores.zero_point,
            ),
            tables=(
                ("reals", Table.of(reals)),
                ("centres", Table.of(centres.astype("<f8").ravel().view(np.int32))),
                ("halves", Table.of(halves.astype("<f8").ravel().view(np.int32))),
            ),
            constants=((2, "anchors"),),
            scratch_bytes=257 * 4 + 5 * boxes.shape[1],
        )

    def _background(self, site: Site) -> int:
        return site.inputs[1].shape[2] - self.classes

    def _least(self, site: Site) -> int:
        """The least element of a score that reaches the threshold; 128 if none does."""
        x = site.inputs[1]
        reals = x.real_numbers(_CODES)
        reached = _CODES[reals >= np.float32(self.least_score)]
        return int(reached[0]) if reached.size else 128

    def _factors(self, boxes: TensorType) -> tuple[Array, Array]:
        """Factors of the sizes of anchors, for centres and for halves, by axis and code."""
        reals = boxes.real_numbers(_CODES)
        y, x, h, w = (float(np.float32(scale)) for scale in self.scales)
        codes = reals.astype(np.float64)
        halves = [[0.5 * _exp(float(code) / scale) for code in codes] for scale in (h, w)]
        return np.stack([codes / y, codes / x]), np.array(halves)

    def _decoded(self, site: Site, codes: Array, anchors: Array) -> tuple[Array, Array]:
        """Lower and upper corners (y, x) of all boxes."""
        centres, halves = self._factors(site.x)
        sizes, axes = anchors[:, 2:].astype(np.float64), np.arange(2)
        at = codes.astype(np.int64) + 128
        with np.errstate(over="ignore", invalid="ignore"):
            moved = centres[axes, at[:, :2]] * sizes + anchors[:, :2].astype(np.float64)
            half = (halves[axes, at[:, 2:]] * sizes).astype(np.float32)
            return moved.astype(np.float32) - half, moved.astype(np.float32) + half


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _overlaps(lower: Array, upper: Array, lowers: Array, uppers: Array) -> Array:
    """The area that a box shares with each of others, in relation to that of both."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size, sizes = upper - lower, uppers - lowers
        area, areas = size[0] * size[1], sizes[:, 0] * sizes[:, 1]
        both = np.maximum(np.minimum(upper, uppers) - np.maximum(lower, lowers), np.float32(0))
        shared = both[:, 0] * both[:, 1]
        return np.where((area <= 0) | (areas <= 0), np.float32(0), shared / (area + areas - shared))


def from_foreign(node: ForeignNode) -> Nodes:
    """The operator, and slices of its output for the four outputs of the node."""
    boxes, scores = node.x, node.input(1)
    if boxes.dtype is DType.FLOAT32:
        raise node.unsupported(
            "boxes and scores are float32, must be quantised",
            help="convert the model so that it reads the quantised tensors, or compute it in your "
            "application",
        )
    if node.integer("use_regular_nms"):
        raise node.unsupported("use_regular_nms is 1, must be 0")
    classes = node.integer("num_classes")
    if min(node.integer("max_classes_per_detection", 1), classes) != 1:
        raise node.unsupported("several classes per detection, must be one")
    names = ("y_scale", "x_scale", "h_scale", "w_scale")
    y, x, h, w = (node.real(name) for name in names)
    require(min(y, x, h, w) > 0, f"scales of codes are {[y, x, h, w]}, must be positive")
    overlap = node.real("nms_iou_threshold")
    require(0 < overlap <= 1, f"nms_iou_threshold is {overlap}, must be above 0 and at most 1")
    most = node.integer("max_detections")
    op = Detections(most, classes, (y, x, h, w), node.real("nms_score_threshold"), overlap)
    inputs = (boxes, scores, _real_anchors(node))
    name = node.y.name
    found = Value(f"{name}/detections", result_of(op, inputs))
    yield Made(op, inputs, found)
    shapes = ((1, most, 4), (1, most), (1, most), (1,))
    starts = (0, 4 * most, 5 * most, 6 * most)
    for k, (start, shape) in enumerate(zip(starts, shapes, strict=True)):
        type = TensorType((1, math.prod(shape)), DType.FLOAT32)
        result = node.output(k)
        result = Value(result.name, TensorType(shape, DType.FLOAT32), None, result.origin)
        taken = result if type == result.type else Value(f"{name}/part{k}", type)
        yield Made(part((0, start), type.shape), (found,), taken)
        if taken is not result:
            yield Made(Reshape(shape), (taken,), result)


def _real_anchors(node: ForeignNode) -> Value:
    """The anchors as real numbers."""
    value, elements = node.input(2), node.constant(2)
    if value.dtype is DType.FLOAT32:
        return value
    require_int8(value.type, "anchors")
    steps = elements.astype(np.float32) - np.float32(value.zero_point)
    return Value.constant(f"{node.y.name}/anchors", steps * np.float32(value.scale))
