"""Families of operators that move elements: the output is quantised as the input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from benchmarks.operators.drawing import Drawing, Shape
from benchmarks.operators.elementwise import Family
from tools.tflite_writer import OptionValue, TensorSpec


def concatenation(d: Drawing) -> None:
    shape = d.shape()
    axis = d.integer(0, len(shape) - 1)
    first = d.input(shape)
    extents = [d.integer(1, 5) for _ in range(d.integer(0, 3))]
    others = [d.operand((*shape[:axis], n, *shape[axis + 1 :]), first) for n in extents]
    whole = (*shape[:axis], shape[axis] + sum(extents), *shape[axis + 1 :])
    options: dict[str, OptionValue] = {
        "axis": d.choose(axis, axis - len(shape)),
        "fused_activation_function": "NONE",
    }
    d.operator("CONCATENATION", (first, *others), d.same(whole, first), **options)


def pack(d: Drawing) -> None:
    shape = d.shape(d.integer(1, 3))
    axis, count = d.integer(0, len(shape)), d.integer(1, 4)
    first = d.input(shape)
    others = [d.operand(shape, first) for _ in range(count - 1)]
    y = d.same((*shape[:axis], count, *shape[axis:]), first)
    d.operator("PACK", (first, *others), y, axis=axis, values_count=count)


def unpack(d: Drawing) -> None:
    shape = d.shape(d.integer(2, 4))
    axis = d.integer(0, len(shape) - 1)
    x = d.input(shape)
    outputs = [d.same((*shape[:axis], *shape[axis + 1 :]), x) for _ in range(shape[axis])]
    d.operator("UNPACK", (x,), *outputs, axis=axis, num=shape[axis])


def to_batch(d: Drawing) -> None:
    rank = d.choose(3, 4)
    shape = d.shape(rank, most=200)
    blocks = tuple(d.integer(1, 3) for _ in range(rank - 2))
    before = [d.choose(0, d.integer(0, 3)) for _ in blocks]
    after = [
        d.choose(0, 1) * k + -(n + b) % k
        for n, b, k in zip(shape[1:-1], before, blocks, strict=True)
    ]
    x = d.input(shape)
    padded = [n + b + a for n, b, a in zip(shape[1:-1], before, after, strict=True)]
    result = (
        shape[0] * int(np.prod(blocks)),
        *(n // k for n, k in zip(padded, blocks, strict=True)),
        shape[-1],
    )
    paddings = d.constant(list(zip(before, after, strict=True)))
    d.operator("SPACE_TO_BATCH_ND", (x, d.constant(blocks), paddings), d.same(result, x))


def from_batch(d: Drawing) -> None:
    rank = d.choose(3, 4)
    batches, *space, channels = d.shape(rank, most=60)
    blocks = tuple(d.integer(1, 3) for _ in space)
    whole = [n * k for n, k in zip(space, blocks, strict=True)]
    before = [d.integer(0, min(2, n - 1)) for n in whole]
    after = [d.integer(0, min(2, n - 1 - b)) for n, b in zip(whole, before, strict=True)]
    x = d.input((batches * int(np.prod(blocks)), *space, channels))
    kept = [n - b - a for n, b, a in zip(whole, before, after, strict=True)]
    crops = d.constant(list(zip(before, after, strict=True)))
    y = d.same((batches, *kept, channels), x)
    d.operator("BATCH_TO_SPACE_ND", (x, d.constant(blocks), crops), y)


def depth_to_space(d: Drawing) -> None:
    batches, rows, columns, channels = d.image(most=80)
    block = d.integer(1, 3)
    x = d.input((batches, rows, columns, channels * block**2))
    y = d.same((batches, rows * block, columns * block, channels), x)
    d.operator("DEPTH_TO_SPACE", (x,), y, block_size=block)


def space_to_depth(d: Drawing) -> None:
    batches, rows, columns, channels = d.image(most=80)
    block = d.integer(1, 3)
    x = d.input((batches, rows * block, columns * block, channels))
    y = d.same((batches, rows, columns, channels * block**2), x)
    d.operator("SPACE_TO_DEPTH", (x,), y, block_size=block)


def gather(d: Drawing) -> None:
    shape = d.shape()
    axis = d.integer(0, len(shape) - 1)
    indices = d.rng.integers(0, shape[axis], d.integer(1, 5))
    x = d.input(shape)
    y = d.same((*shape[:axis], len(indices), *shape[axis + 1 :]), x)
    d.operator("GATHER", (x, d.constant(indices)), y, axis=axis)


def pad(name: str, d: Drawing) -> None:
    shape = d.shape(most=150)
    pairs = [(d.choose(0, d.integer(0, 3)), d.choose(0, d.integer(0, 3))) for _ in shape]
    x = d.input(shape)
    operands = [x, d.constant(pairs)]
    if name == "PADV2":
        spec = d.tensors[x]
        value = np.array(d.rng.integers(-128, 128), np.int8)
        fill = TensorSpec("fill", (), "int8", spec.scales, spec.zero_points, data=value)
        operands.append(d.tensor(fill))
    d.operator(name, tuple(operands), d.same(_padded(shape, pairs), x))


def mirror_pad(d: Drawing) -> None:
    shape = d.shape(most=150)
    mode = d.choose("REFLECT", "SYMMETRIC")
    most = [n - (mode == "REFLECT") for n in shape]
    pairs = [(d.integer(0, min(3, n)), d.integer(0, min(3, n))) for n in most]
    x = d.input(shape)
    operands = (x, d.constant(pairs))
    d.operator("MIRROR_PAD", operands, d.same(_padded(shape, pairs), x), mode=mode)


def _padded(shape: Shape, pairs: list[tuple[int, int]]) -> Shape:
    return tuple(n + sum(pair) for n, pair in zip(shape, pairs, strict=True))


def reshape(d: Drawing) -> None:
    shape = d.shape()
    count = int(np.prod(shape))
    x = d.input(shape)
    result = d.choose((count,), (1, count), (count, 1), shape[::-1])
    d.operator("RESHAPE", (x, d.constant(result)), d.same(result, x), new_shape=result)


def expand_dims(d: Drawing) -> None:
    shape = d.shape(d.integer(1, 3))
    axis = d.integer(0, len(shape))
    x = d.input(shape)
    y = d.same((*shape[:axis], 1, *shape[axis:]), x)
    d.operator("EXPAND_DIMS", (x, d.constant(np.array([axis]))), y)


def squeeze(d: Drawing) -> None:
    shape = list(d.shape(d.integer(1, 3)))
    shape.insert(d.integer(0, len(shape)), 1)
    axes = tuple(a for a, n in enumerate(shape) if n == 1)
    x = d.input(tuple(shape))
    y = d.same(tuple(n for n in shape if n != 1), x)
    d.operator("SQUEEZE", (x,), y, squeeze_dims=axes)


def shape_of(d: Drawing) -> None:
    x = d.input(d.shape())
    y = d.tensor(TensorSpec("y", (len(d.shape_of(x)),), "int32"))
    d.operator("SHAPE", (x,), y, out_type="INT32")


def box(d: Drawing) -> None:
    shape = d.shape()
    starts = [d.integer(0, n - 1) for n in shape]
    sizes = [d.integer(1, n - s) for n, s in zip(shape, starts, strict=True)]
    x = d.input(shape)
    said = [
        -1 if d.chance(0.2) and s + k == n else k
        for s, k, n in zip(starts, sizes, shape, strict=True)
    ]
    operands = (x, d.constant(starts), d.constant(said))
    d.operator("SLICE", operands, d.same(tuple(sizes), x))


def strided_slice(d: Drawing) -> None:
    shape = d.shape()
    starts, ends, steps, extents = [], [], [], []
    for extent in shape:
        step = d.choose(1, 1, 2, 3, -1, -2)
        lower, upper = sorted((d.integer(0, extent), d.integer(0, extent)))
        if lower == upper:
            lower, upper = 0, extent
        start, end = (lower, upper) if step > 0 else (upper - 1, lower - 1 - extent * (not lower))
        starts.append(start)
        ends.append(end)
        steps.append(step)
        extents.append(-(-(upper - lower) // abs(step)))
    shrunk = [
        n == 1 and step == 1 and d.chance(0.3) for n, step in zip(extents, steps, strict=True)
    ]
    kept = tuple(n for n, gone in zip(extents, shrunk, strict=True) if not gone)
    if not kept:
        shrunk, kept = [False] * len(shape), tuple(extents)
    x = d.input(shape)
    operands = (x, d.constant(starts), d.constant(ends), d.constant(steps))
    mask = sum(1 << axis for axis, gone in enumerate(shrunk) if gone)
    masks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
    d.operator("STRIDED_SLICE", operands, d.same(kept, x), **masks, shrink_axis_mask=mask)


def split(d: Drawing) -> None:
    shape = list(d.shape(most=120))
    axis, count = d.integer(0, len(shape) - 1), d.integer(1, 4)
    whole = tuple(n * count if a == axis else n for a, n in enumerate(shape))
    x = d.input(whole)
    outputs = [d.same(tuple(shape), x) for _ in range(count)]
    where = d.tensor(TensorSpec("axis", (), "int32", data=np.array(axis, np.int32)))
    d.operator("SPLIT", (where, x), *outputs, num_splits=count)


def split_sizes(d: Drawing) -> None:
    shape = list(d.shape(most=120))
    axis = d.integer(0, len(shape) - 1)
    sizes = [d.integer(1, 4) for _ in range(d.integer(1, 4))]

    def with_extent(extent: int) -> Shape:
        return tuple(extent if a == axis else n for a, n in enumerate(shape))

    x = d.input(with_extent(sum(sizes)))
    outputs = [d.same(with_extent(size), x) for size in sizes]
    where = d.tensor(TensorSpec("axis", (), "int32", data=np.array(axis, np.int32)))
    d.operator("SPLIT_V", (x, d.constant(sizes), where), *outputs, num_splits=len(sizes))


def reverse(d: Drawing) -> None:
    x = d.input(d.shape())
    shape = d.shape_of(x)
    axes = [d.integer(0, len(shape) - 1)]
    d.operator("REVERSE_V2", (x, d.constant(axes)), d.same(shape, x))


def tile(d: Drawing) -> None:
    x = d.input(d.shape(most=60))
    shape = d.shape_of(x)
    multiples = [d.integer(1, 3) for _ in shape]
    y = d.same(tuple(n * k for n, k in zip(shape, multiples, strict=True)), x)
    d.operator("TILE", (x, d.constant(multiples)), y)


def broadcast_to(d: Drawing) -> None:
    whole = d.shape()
    narrow = tuple(d.choose(1, n) for n in whole)[d.integer(0, len(whole) - 1) :]
    x = d.input(narrow)
    d.operator("BROADCAST_TO", (x, d.constant(whole)), d.same(whole, x))


def transpose(d: Drawing) -> None:
    shape = d.shape()
    order = [int(a) for a in d.rng.permutation(len(shape))]
    x = d.input(shape)
    y = d.same(tuple(shape[a] for a in order), x)
    d.operator("TRANSPOSE", (x, d.constant(order)), y)


FAMILIES: Mapping[str, Family] = {
    "CONCATENATION": concatenation,
    "PACK": pack,
    "UNPACK": unpack,
    "SPACE_TO_BATCH_ND": to_batch,
    "BATCH_TO_SPACE_ND": from_batch,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
    "GATHER": gather,
    "PAD": partial(pad, "PAD"),
    "PADV2": partial(pad, "PADV2"),
    "MIRROR_PAD": mirror_pad,
    "RESHAPE": reshape,
    "EXPAND_DIMS": expand_dims,
    "SQUEEZE": squeeze,
    "SHAPE": shape_of,
    "SLICE": box,
    "STRIDED_SLICE": strided_slice,
    "SPLIT": split,
    "SPLIT_V": split_sizes,
    "REVERSE_V2": reverse,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    "TRANSPOSE": transpose,
}
