"""Samples of the operators of `penstock.ops.detections`."""

from __future__ import annotations

import numpy as np

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import Data, DType, TensorType
from penstock.ops.detections import Detections


def _sample_anchors(boxes: int) -> tuple[TensorType, Data]:
    elements = np.random.default_rng(boxes).uniform(0.05, 0.95, (boxes, 4)).astype(np.float32)
    return TensorType(elements.shape, DType.FLOAT32), Data.of(elements)


SAMPLES = (
    sample(
        Detections(30, 3, (10.0, 10.0, 5.0, 5.0), 0.7, 0.9),
        int8(1, 20, 4, scale=0.05),
        int8(1, 20, 3, scale=1 / 256, zero=-128),
        _sample_anchors(20),
    ),
    sample(
        Detections(5, 3, (10.0, 9.0, 5.0, 4.0), 0.2, 0.5),
        int8(1, 20, 4, scale=0.05),
        int8(1, 20, 4, scale=1 / 256, zero=-128),
        _sample_anchors(20),
    ),
    sample(
        Detections(9, 2, (10.0, 10.0, 5.0, 5.0), -1.0, 0.4),
        int8(1, 13, 4, scale=0.1, zero=5),
        int8(1, 13, 2, scale=1 / 256, zero=-128),
        _sample_anchors(13),
    ),
)
