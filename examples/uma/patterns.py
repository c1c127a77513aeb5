"""Patterns with tuples, types, shapes and dominators: an engine that pools, and clamps a copy.

The engine computes concatenate(max_pool(x), relu(max_pool(x))) in one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.opkit.activation import Activation
from penstock.ops.concatenation import Concatenation
from penstock.ops.relu import Relu
from penstock.uma import (
    Array,
    Driver,
    Invoke,
    KernelCall,
    Offloaded,
    OpStrategy,
    UMABackend,
    elements,
    is_op,
    is_tuple,
    wildcard,
)

HEADER = """\
#ifndef POOLER_H
#define POOLER_H
#include <stdint.h>
/* y = concatenate(p, max(p, zero)), where p are the maxima of 2 x 2 windows of x (2h, 2w, c). */
void pooler_run(const void *x, void *y, int32_t h, int32_t w, int32_t c, int32_t zero);
#endif
"""
STUB = """\
#include "pooler.h"
void pooler_run(const void *x, void *y, int32_t h, int32_t w, int32_t c, int32_t zero) {
    const int8_t *in = x;
    int8_t *out = y;
    for (int32_t i = 0; i < h * w * c; i++) {
        const int32_t place = i / c;
        const int8_t *corner = in + (place / w * 4 * w + place % w * 2) * c + i % c;
        int32_t most = -128;
        for (int32_t k = 0; k < 4; k++) {
            const int32_t element = corner[(k / 2 * 2 * w + k % 2) * c];
            most = element > most ? element : most;
        }
        out[place * 2 * c + i % c] = (int8_t)most;
        out[place * 2 * c + c + i % c] = (int8_t)(most > zero ? most : zero);
    }
}
"""


def is_two(stride: int) -> bool:
    return stride == 2


POOL = (
    is_op("nn.max_pool2d")(wildcard().has_dtype("int8"))
    .has_attr({"rows.size": 2, "columns.size": 2, "rows.stride": is_two, "columns.stride": 2})
    .has_shape((1, None, None, lambda channels: channels % 4 == 0))
)
CLAMP = is_op("nn.relu")(wildcard())
PATTERN = is_op("concatenate")(is_tuple([wildcard(), wildcard()])).dominates(POOL, CLAMP)
"""A concatenation of two tensors, both of which come from one pooling, directly or clamped."""


def model(device: object, x: Array, y: Array, *numbers: int) -> None:
    """Functional model of `pooler_run`."""
    del device
    h, w, c, zero = numbers
    pooled = elements(x, np.int8, h, 2, w, 2, c).max(axis=(1, 3))
    clamped = np.maximum(pooled, np.int8(zero))
    elements(y, np.int8, h, w, 2 * c)[:] = np.concatenate((pooled, clamped), axis=2)


RUN = Driver("pooler_run", "pooler", model, device=dict)


def compute(call: KernelCall) -> Sequence[Invoke]:
    _, h, w, c = call.composite.nodes[0].output.type.shape
    zero = call.inputs[0].zero_point
    return [call.invoke(RUN, call.operands[0].address, call.result.address, h, w, c, zero)]


def pooled_first(offloaded: Offloaded) -> bool | str:
    """The first operand must be the pooling itself, and the second its clamped copy."""
    pool, *clamps, last = offloaded.composite.nodes
    wanted = [pool.name, *(clamp.name for clamp in clamps)]
    return [value.name for value in last.inputs] == wanted and len(clamps) == 1


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    del attrs, inputs, out_type, target
    found = OpStrategy()
    found.add_implementation(compute, name="pooler.run", cost=lambda offloaded, rows: 8 * rows)
    return found


class Pooler(UMABackend):
    """An engine with one pattern, which claims four nodes of a diamond."""

    def __init__(self) -> None:
        super().__init__()
        self._register_pattern("pool_and_clamp", PATTERN, pooled_first)
        self._register_operator_strategy("pool_and_clamp", strategy)
        sources = {"pooler.h": HEADER, "pooler.c": STUB}
        self._register_codegen(includes='#include "pooler.h"', sources=sources)

    @property
    def target_name(self) -> str:
        return "pooler"


def network(channels: int = 4, window: int = 2) -> Graph:
    """A pooling whose result is clamped and concatenated with itself."""
    net = penstock.GraphBuilder("diamond")
    x = net.max_pool2d(net.input((1, 8, 8, channels)), window, 2, name="pool")
    clamped = net.apply(Relu(Activation.RELU), x, quantisation=x.type.quantisation, name="clamp")
    op = Concatenation(3)
    return net.build(net.apply(op, x, clamped, quantisation=x.type.quantisation, name="both"))
