"""Seeded random inputs of a model, of five kinds that reveal different errors.

    uniform            all values of the type, equally likely
    gaussian           distributed around the zero point, like activations
    smooth             low frequencies along every axis, like images
    extremes           only the smallest and the largest value
    zero_point_sparse  the zero point, with 5 % random values

Only integer arithmetic on `Generator.integers` is used, so results do not depend on a math library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from penstock.errors import UnsupportedError

Array = NDArray[Any]
Integers = NDArray[np.int64]
Shape = tuple[int, ...]
# Shape, element type and quantisation zero point of one input.
InputType = tuple[Shape, DTypeLike, int]

# Float inputs are drawn as integers in [-FLOAT_STEPS, FLOAT_STEPS) and divided by it: [-1, 1).
FLOAT_STEPS = 1 << 15
# Booleans are drawn as integers in [-SIGNED_STEPS, SIGNED_STEPS), of which positive ones are true.
SIGNED_STEPS = 1 << 7


def draw_inputs(types: Sequence[InputType], set_number: int, seed: int) -> tuple[Array, ...]:
    """The inputs of one set, of kind `KINDS[set_number % len(KINDS)]`; a pure function."""
    rng = np.random.default_rng([seed, set_number])
    kind = KINDS[set_number % len(KINDS)]
    return tuple(
        draw_input(shape, dtype, zero_point, kind, rng) for shape, dtype, zero_point in types
    )


def draw_input(
    shape: Shape, dtype: DTypeLike, zero_point: int, kind: str, rng: np.random.Generator
) -> Array:
    """One input of one kind.  Raises UnsupportedError for an unsupported element type."""
    lower, upper = _range(np.dtype(dtype))
    drawn = _DRAW[kind](shape, lower, upper, zero_point, rng)
    if np.dtype(dtype).kind == "f":
        return (drawn / FLOAT_STEPS).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return drawn > 0
    return drawn.astype(dtype)


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "f":
        return -FLOAT_STEPS, FLOAT_STEPS
    if dtype.kind == "b":
        return -SIGNED_STEPS, SIGNED_STEPS
    if dtype.kind in "iu":  # Integers of 64 bits that networks compute with fit into 32.
        limits = np.iinfo(f"{dtype.kind}{min(dtype.itemsize, 4)}")
        return int(limits.min), int(limits.max) + 1
    raise UnsupportedError(
        "golden-001",
        f"random inputs of type {dtype} are not supported",
        where="an input of the model",
        why="the supported types are booleans, integers and floats",
        help="provide the inputs in an archive",
    )


def _uniform(
    shape: Shape, lower: int, upper: int, zero_point: int, rng: np.random.Generator
) -> Integers:
    return rng.integers(lower, upper, shape)


def _gaussian(
    shape: Shape, lower: int, upper: int, zero_point: int, rng: np.random.Generator
) -> Integers:
    """Clipped sum of twelve uniform numbers; the standard deviation is a quarter of the range."""
    step = (upper - lower) // 4
    total = rng.integers(-step // 2, step // 2 + 1, (12, *shape)).sum(axis=0)
    return np.clip(zero_point + total, lower, upper - 1)


def _smooth(
    shape: Shape, lower: int, upper: int, zero_point: int, rng: np.random.Generator
) -> Integers:
    period = 1 << 16
    total = np.zeros(shape, np.int64)
    for _ in range(3):
        phase = np.full(shape, rng.integers(0, period), np.int64)
        for axis, extent in enumerate(shape):
            slope = int(rng.integers(-period // max(extent, 2), period // max(extent, 2) + 1))
            along = np.arange(extent).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            phase = phase + slope * along
        total += np.abs(phase % period - period // 2)
    return lower + total * (upper - 1 - lower) // (3 * period // 2)


def _extremes(
    shape: Shape, lower: int, upper: int, zero_point: int, rng: np.random.Generator
) -> Integers:
    return np.where(rng.integers(0, 2, shape) == 0, lower, upper - 1)


def _zero_point_sparse(
    shape: Shape, lower: int, upper: int, zero_point: int, rng: np.random.Generator
) -> Integers:
    spikes = rng.integers(lower, upper, shape)
    return np.where(rng.integers(0, 20, shape) == 0, spikes, zero_point)


_Draw = Callable[[Shape, int, int, int, np.random.Generator], Integers]
_DRAW: dict[str, _Draw] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "smooth": _smooth,
    "extremes": _extremes,
    "zero_point_sparse": _zero_point_sparse,
}
KINDS = tuple(_DRAW)
