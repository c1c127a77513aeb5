"""Definitions of attention as onnxruntime's transformer optimiser fuses it.

    Attention               projections of one tensor by merged weights, then attention of heads
    QAttention              the same, with quantised input and weights
    MultiHeadAttention      attention of projections that other nodes have computed
    EmbedLayerNormalization the normalised sum of the rows of tables

Scores are products of rows, so that one row of them is live at a time.

Source: ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.folding import whole
from penstock.frozen import frozen

CONTRIBUTED = "com.microsoft.Attention"
_EXCLUDED = np.finfo(np.float32).min
"""What is added to scores of later positions."""


@frozen
class _Heads:
    """The operands of attention, each (batch, heads, positions, size).

    addends: what is added to the scores, each of a shape that broadcasts to them."""

    query: str
    key: str
    value: str
    positions: int
    keys: int
    size: int
    addends: tuple[str, ...]

    def result(self, new: Definition) -> str:
        """The results of the heads side by side, (batch, positions, heads x size of values)."""
        scale = new.number("scale", 0.0) or 1 / math.sqrt(self.size)
        transposed = new.made("Transpose", self.key, perm=(0, 1, 3, 2))
        scores = new.made("MatMul", self.query, transposed)
        scores = new.made("Mul", scores, scale)
        for addend in self.addends:
            scores = new.made("Add", scores, addend)
        if whole(new.node, "unidirectional", 0):
            later = np.triu(np.full((self.positions, self.keys), _EXCLUDED, np.float32),
                            1 + self.keys - self.positions)  # fmt: skip
            scores = new.made("Add", scores, later)
        weights = new.made("Softmax", scores, axis=-1)
        found = new.made("MatMul", weights, self.value)
        found = new.made("Transpose", found, perm=(0, 2, 1, 3))
        return new.made("Reshape", found, (0, 0, -1))


def _split(new: Definition, x: str, lower: int, upper: int) -> str:
    """Some columns of a tensor."""
    return new.made("Slice", x, (lower,), (upper,), (-1,))


def _by_heads(new: Definition, x: str, heads: int) -> str:
    """(batch, positions, heads x size) as (batch, heads, positions, size)."""
    split = new.made("Reshape", x, (0, 0, heads, -1))
    return new.made("Transpose", split, perm=(0, 2, 1, 3))


def _mask(new: Definition, position: int, batch: int, keys: int) -> tuple[str, ...] | None:
    """What a mask adds to the scores; None if its form is not known.

    A mask is true or false, (batch, keys) or (batch, positions, keys); or it states how many keys
    each sample has, (batch), or where their positions end and begin, (2 x batch)."""
    name = new.given(position)
    if not name:
        return ()
    shape = new.shapes.get(name)
    excluded = new.real(new.number("mask_filter_value", -10000.0))
    if shape in ((batch,), (2 * batch,)):
        places = new.constant(np.arange(keys, dtype=np.int32)[None])
        ends = new.made("Reshape", name, (-1, batch, 1))
        kept = new.made("Less", places, new.made("Gather", ends, (0,), axis=0))
        if shape == (2 * batch,):
            starts = new.made("Gather", ends, (1,), axis=0)
            kept = new.made("And", kept, new.made("GreaterOrEqual", places, starts))
        kept = new.made("Reshape", kept, (batch, 1, 1, keys))
    elif shape is not None and len(shape) in (2, 3) and (shape[0], shape[-1]) == (batch, keys):
        rows = shape[1] if len(shape) == 3 else 1
        zero = new.constant(np.zeros((), np.dtype(new.types[name])))
        kept = new.made("Greater", name, zero)
        kept = new.made("Reshape", kept, (batch, 1, rows, keys))
    else:
        return None
    return (new.made("Where", kept, 0, excluded),)


def _projected(new: Definition, projections: str, bias: str, past: int, mask: int) -> bool:
    """Attention of merged projections (batch, positions, queries + keys + values) without bias.

    past, mask: the positions of these inputs."""
    shape, sides = new.shapes.get(new.given(0)), new.shapes.get(new.given(1))
    heads = whole(new.node, "num_heads", 0)
    if shape is None or sides is None or len(shape) != 3 or len(sides) != 2 or heads < 1:
        return False
    sizes = new.node.attributes.get("qkv_hidden_sizes", (sides[1] // 3,) * 3)
    refused = ("do_rotary", "past_present_share_buffer")
    if not isinstance(sizes, tuple) or any(whole(new.node, key, 0) for key in refused):
        return False
    ends = np.cumsum([0, *(x for x in sizes if isinstance(x, int))]).tolist()
    if len(ends) != 4 or ends[-1] != sides[1] or any(end % heads for end in ends):
        return False
    sums = new.made("Add", projections, bias) if bias else projections
    q, k, v = (_by_heads(new, _split(new, sums, ends[n], ends[n + 1]), heads) for n in range(3))
    keys = shape[1]
    if before := new.given(past):
        states = new.shapes.get(before)
        if states is None or len(states) != 5:
            return False
        keys += states[3]
        k, v = (_after(new, _half(new, before, n), x) for n, x in enumerate((k, v)))
    addends = _mask(new, mask, shape[0], keys)
    if addends is None:
        return False
    if new.node.name == CONTRIBUTED and new.given(5):
        addends = (*addends, new.given(5))
    if len(new.node.outputs) > 1 and new.node.outputs[1]:
        both = [new.made_along("Unsqueeze", x, 0) for x in (k, v)]
        new.name_output(new.made("Concat", *both, axis=0), 1)
    found = _Heads(q, k, v, shape[1], keys, ends[1] // heads, addends)
    new.name_output(found.result(new))
    return True


def _half(new: Definition, x: str, k: int) -> str:
    """Row k of the first axis, without that axis."""
    return new.made_along("Squeeze", new.made("Gather", x, (k,), axis=0), 0)


def _after(new: Definition, before: str, x: str) -> str:
    return new.made("Concat", before, x, axis=2)


def _attention(new: Definition) -> bool:
    if new.given(6):  # a length of the past at run time
        return False
    projections = new.made("MatMul", new.given(0), new.given(1))
    return _projected(new, projections, new.given(2), past=4, mask=3)


def _quantised(new: Definition) -> bool:
    x, weights, bias, scale, weights_scale, _, zero, weights_zero, _ = map(new.given, range(9))
    sums = new.made("MatMulInteger", x, weights, zero, weights_zero)
    scales = new.made("Mul", scale, weights_scale)
    projections = new.made("Mul", new.as_real(sums), scales)
    return _projected(new, projections, bias, past=8, mask=5)


def _of_heads(new: Definition) -> bool:
    """False for caches of keys whose length is known at run time alone, for scores that are read,
    and for operands in one tensor, as only GPUs take them."""
    query, key, value = operands = [new.given(k) for k in range(3)]
    shapes: list[tuple[int, ...]] = [new.shapes.get(name) or () for name in operands]
    heads, ranks = whole(new.node, "num_heads", 0), tuple(map(len, shapes))
    is_split = ranks == (3, 4, 4)  # keys and values are (batch, heads, positions, size)
    if heads < 1 or not (is_split or ranks == (3, 3, 3)) or (is_split and new.given(3)):
        return False
    if new.given(8) or new.given(9) or any(new.node.outputs[3:]):
        return False
    (batch, positions, hidden), keys = shapes[0], shapes[1][2 if is_split else 1]
    if bias := new.given(3):
        ends = (0, hidden, 2 * hidden, 2 * hidden + shapes[2][2])
        query, key, value = (
            new.made("Add", x, _split(new, bias, *bounds))
            for x, bounds in zip(operands, pairwise(ends), strict=True)
        )
    q = _by_heads(new, query, heads)
    k, v = (x if is_split else _by_heads(new, x, heads) for x in (key, value))
    if before := new.given(6):
        states = new.shapes.get(before)
        if states is None or len(states) != 4:
            return False
        keys += states[2]
        k, v = _after(new, before, k), _after(new, new.given(7), v)
    addends = _mask(new, 4, batch, keys)
    if addends is None:
        return False
    addends = (*addends, *filter(None, (new.given(5),)))
    new.name_output(_Heads(q, k, v, positions, keys, hidden // heads, addends).result(new))
    for n, x in enumerate((k, v), 1):
        if n < len(new.node.outputs):
            new.name_output(new.made("Identity", x), n)
    return True


def _embedded(new: Definition) -> bool:
    """False if a shape is not known."""
    ids, segments, words, positions, table, gamma, beta, mask, places = map(new.given, range(9))
    shape = new.shapes.get(ids)
    if shape is None or len(shape) != 2:
        return False
    rows = places or new.constant(np.arange(shape[1], dtype=np.int32)[None])
    total = new.made("Gather", words, ids, axis=0)
    total = new.made("Add", total, new.made("Gather", positions, rows, axis=0))
    if segments:
        total = new.made("Add", total, new.made("Gather", table, segments, axis=0))
    epsilon = new.number("epsilon", 1e-12)
    y = new.made("LayerNormalization", total, gamma, beta, epsilon=epsilon)
    counted = new.made_along("ReduceSum", mask, 1, keepdims=0) if mask else ""
    new.name_output(y)
    if not counted:
        counted = new.made("Identity", np.zeros(shape[0], np.int32))
    new.name_output(counted, 1)
    new.name_output(total, 2)
    return True


DEFINITIONS: Mapping[str, Define] = {
    CONTRIBUTED: _attention,
    "QAttention": _quantised,
    "MultiHeadAttention": _of_heads,
    "EmbedLayerNormalization": _embedded,
}
