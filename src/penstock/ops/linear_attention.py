"""ONNX LinearAttention, composed step by step: a state, (B, H, K, V), which each step of a sequence
updates.

Source: ONNX operator specification.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.ir.foreign import Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import PLAIN_MODEL, onnx
from penstock.ir.tensor import DType
from penstock.opkit.checks import require
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.batch_matmul import PlainBatchMatmul
from penstock.ops.concatenation import Concatenation
from penstock.ops.gather import Gather
from penstock.ops.plain import PlainAdd, PlainExp, PlainMul, PlainSub
from penstock.ops.slice import along
from penstock.ops.transpose import Transpose

ONNX = onnx(PLAIN_MODEL, "LinearAttention")
ADD, SUB, MUL = PlainAdd(), PlainSub(), PlainMul()
RULES = ("linear", "gated", "delta", "gated_delta")
MOST_STEPS = 512
"""Each step becomes nodes of its own."""


def from_onnx(node: OnnxNode) -> Nodes:
    """LinearAttention: the state, (B, H, K, V), gets an outer product of key and value at each
    step, after it is decayed (gated) and what it yields for the key is taken off (delta)."""
    new, rule = RealNodes(node), node.text("update_rule", "gated_delta", RULES)
    heads, kv_heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
    require(kv_heads > 0 and heads % kv_heads == 0, f"there are {heads} and {kv_heads} heads")
    query, key, value = (
        _by_head(new, new.input(k), heads if k == 0 else kv_heads) for k in range(3)
    )
    batch, _, steps, depth = query.shape
    width = value.shape[-1]
    require(steps <= MOST_STEPS, f"there are {steps} steps, must be at most {MOST_STEPS}")
    shape = (batch, kv_heads, depth, width)
    state = new.typed_constant(np.zeros(shape), DType.FLOAT32)
    if node.optional(3) is not None:
        state = new.input(3)
    decay = beta = None
    if rule in ("gated", "gated_delta"):
        decay = new.apply(PlainExp(), _by_head(new, new.input(4), kv_heads))
    if rule in ("delta", "gated_delta"):
        beta = _by_head(new, new.input(5), min(kv_heads, node.input(5).shape[-1]))
    scale = node.real("scale", 0.0) or 1 / math.sqrt(depth)
    query = new.apply(MUL, query, scale)
    outputs: list[Value] = []
    for t in range(steps):
        k, v = (_step(new, x, t) for x in (key, value))
        column = new.reshape(k, (batch, kv_heads, depth, 1))
        if decay is not None:
            factor = _step(new, decay, t)
            state = new.apply(MUL, state, new.reshape(factor, (batch, kv_heads, -1, 1)))
        if beta is not None:
            less = new.apply(SUB, v, new.apply(PlainBatchMatmul(), k, state))
            v = new.apply(MUL, _step(new, beta, t), less)
        state = new.apply(ADD, state, new.apply(MUL, column, v))
        read = state
        if heads != kv_heads:
            read = new.apply(Gather(1, tuple(h * kv_heads // heads for h in range(heads))), state)
        outputs.append(new.apply(PlainBatchMatmul(), _step(new, query, t), read))
    y = new.apply(Concatenation(2), *outputs) if steps > 1 else outputs[0]
    y = new.apply(Transpose((0, 2, 1, 3)), y)
    every = (new.reshape(y, (batch, steps, heads * width)), state)
    return new.results(
        {k: v for k, v in enumerate(every[: len(node.outputs)]) if node.output(k).name}
    )


def _by_head(new: RealNodes, x: Value, heads: int) -> Value:
    """(B, T, H * D) as (B, H, T, D)."""
    batch, steps, width = x.shape
    split = new.reshape(x, (batch, steps, heads, width // heads))
    return new.apply(Transpose((0, 2, 1, 3)), split)


def _step(new: RealNodes, x: Value, step: int) -> Value:
    """One step of a tensor, along axis 2."""
    return x if x.shape[2] == 1 else new.apply(along(x.shape, 2, step, 1), x)
