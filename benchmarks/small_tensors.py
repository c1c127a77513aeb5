"""Small tensors for samples of operators; seeded, so that tests are repeatable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.op import Op, Site
from penstock.ir.tensor import Data, DType, Quantisation, TensorType


def int8(*shape: int, scale: float = 0.05, zero: int = -3) -> TensorType:
    """An int8 activation of `shape`."""
    return TensorType(shape, DType.INT8, Quantisation((float(np.float32(scale)),), (zero,)))


def reals(*shape: int) -> TensorType:
    """A float32 tensor of `shape`."""
    return TensorType(shape, DType.FLOAT32)


def integers(*shape: int) -> TensorType:
    """An int32 tensor of `shape`, without quantisation."""
    return TensorType(shape, DType.INT32)


def weights(
    *shape: int, axis: int | None = None, scale: float = 0.02, zero: int = 0
) -> tuple[TensorType, Data]:
    """Random int8 weights, with one scale per index of `axis` if it is given."""
    rng = np.random.default_rng(shape)
    count = 1 if axis is None else shape[axis]
    scales = tuple(float(np.float32(scale * (1 + 0.37 * k))) for k in range(count))
    type = TensorType(shape, DType.INT8, Quantisation(scales, (zero,) * count, axis))
    return type, Data.of(rng.integers(-127, 128, shape).astype(np.int8))


def wide_weights(*shape: int, scale: float = 0.003) -> tuple[TensorType, Data]:
    """Random int16 weights with one scale."""
    rng = np.random.default_rng(shape)
    type = TensorType(shape, DType.INT16, Quantisation((float(np.float32(scale)),), (0,)))
    return type, Data.of(rng.integers(-300, 301, shape).astype(np.int16))


def bias(channels: int) -> tuple[TensorType, Data]:
    """Random int32 biases."""
    rng = np.random.default_rng([channels, 1])
    data = rng.integers(-2000, 2000, channels).astype(np.int32)
    return TensorType((channels,), DType.INT32), Data.of(data)


def real_weights(*shape: int) -> tuple[TensorType, Data]:
    """Random float32 weights."""
    data = np.random.default_rng([*shape, 3]).normal(0, 0.5, shape).astype(np.float32)
    return TensorType(shape, DType.FLOAT32), Data.of(data)


def narrow_weights(*shape: int) -> tuple[TensorType, Data]:
    """Random float32 weights that int8 holds."""
    data = np.random.default_rng([*shape, 4]).integers(-127, 128, shape).astype(np.float32)
    return TensorType(shape, DType.FLOAT32), Data.of(data)


def real_bias(channels: int) -> tuple[TensorType, Data]:
    """Random float32 biases."""
    data = np.random.default_rng([channels, 2]).normal(0, 0.5, channels).astype(np.float32)
    return TensorType((channels,), DType.FLOAT32), Data.of(data)


@dataclass(frozen=True, slots=True)
class Sample:
    """A small instance of an operator."""

    op: Op
    site: Site


Operand = TensorType | tuple[TensorType, Data]


def sample(op: Op, *operands: Operand, scale: float = 0.1, zero: int = 5) -> Sample:
    """A sample of `op`; an operand that is a pair is constant; `scale`, `zero` of the output."""
    pairs = [operand if isinstance(operand, tuple) else (operand, None) for operand in operands]
    types = tuple(type for type, _ in pairs)
    result = op.result_type(types)
    quantised = result.dtype in (DType.INT8, DType.UINT8, DType.INT16)
    q = Quantisation((float(np.float32(scale)),), (zero,)) if quantised else None
    output = TensorType(result.shape, result.dtype, q)
    return Sample(op, Site(types, output, tuple(data for _, data in pairs)))
