"""Bias of a layer: an input, zeros if absent."""

from __future__ import annotations

import numpy as np

from penstock.ir.foreign import ForeignNode
from penstock.ir.graph import Value
from penstock.ir.tensor import Data, DType, TensorType


def with_bias(node: ForeignNode, channels: int, k: int = 2) -> Value:
    """Input k of the node, or zeros of shape (channels,)."""
    bias = node.optional(k)
    if bias is not None:
        return bias
    zeros = Data.of(np.zeros(channels, np.int32))
    return Value(f"{node.output().name}/no_bias", TensorType((channels,), DType.INT32), zeros)
