"""Patterns with tuples, types, shapes, dominators and constants: an engine that pools and clamps.

The engine computes concatenate(max_pool(x), relu(max_pool(x))) in one command, and the minimum or
maximum of a tensor and a constant per channel in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.ops.binary import Maximum, Minimum
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Dequantize
from penstock.ops.unary import LeakyRelu, Relu
from penstock.uma import (
    Array,
    Driver,
    Invoke,
    KernelCall,
    Offloaded,
    OpStrategy,
    UMABackend,
    elements,
    is_constant,
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
/* y = min(x, bounds) if upper, else max(x, bounds); there is a bound for each of c channels. */
void pooler_limit(const void *x, const void *bounds, void *y, int32_t size, int32_t c,
                  int32_t upper);
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
void pooler_limit(const void *x, const void *bounds, void *y, int32_t size, int32_t c,
                  int32_t upper) {
    for (int32_t i = 0; i < size; i++) {
        const int8_t element = ((const int8_t *)x)[i], bound = ((const int8_t *)bounds)[i % c];
        ((int8_t *)y)[i] = (element > bound) == (upper != 0) ? bound : element;
    }
}
"""
RAMP = np.arange(8, dtype=np.int8)


def is_two(stride: int) -> bool:
    return stride == 2


def are_negative(bounds: Array) -> bool:
    return bool((bounds < 0).all())


POOL = (
    is_op("nn.max_pool2d")(wildcard().has_dtype("int8"))
    .has_attr({"rows.size": 2, "columns.size": 2, "rows.stride": is_two, "columns.stride": 2})
    .has_shape((1, None, None, lambda channels: channels % 4 == 0))
)
CLAMP = is_op("nn.relu")(wildcard())
BOTH = is_op("concatenate")(is_tuple([wildcard(), wildcard()])).has_dtype("int8")
PATTERN = BOTH.dominates(POOL, CLAMP)
"""A concatenation of two tensors, both of which come from one pooling, directly or clamped."""

LIMITS = {
    "ceiling": is_op("minimum")(wildcard(), is_constant(96)),
    "ramp": is_op("maximum")(wildcard(), is_constant(RAMP)),
    "floor": is_op("maximum")(wildcard(), is_constant(are_negative)),
}
"""A constant whose elements are all 96, those of an array, or accepted by a predicate."""


def model(device: object, x: Array, y: Array, *numbers: int) -> None:
    """Functional model of `pooler_run`."""
    del device
    h, w, c, zero = numbers
    pooled = elements(x, np.int8, h, 2, w, 2, c).max(axis=(1, 3))
    clamped = np.maximum(pooled, np.int8(zero))
    elements(y, np.int8, h, w, 2 * c)[:] = np.concatenate((pooled, clamped), axis=2)


def limit_model(device: object, x: Array, bounds: Array, y: Array, *numbers: int) -> None:
    """Functional model of `pooler_limit`."""
    del device
    size, c, upper = numbers
    choose = np.minimum if upper else np.maximum
    pixels, limits = elements(x, np.int8, size // c, c), elements(bounds, np.int8, c)
    elements(y, np.int8, size // c, c)[:] = choose(pixels, limits)


RUN = Driver("pooler_run", "pooler", model, device=dict)
LIMIT = Driver("pooler_limit", "pooler", limit_model, device=dict)


def compute(call: KernelCall) -> Sequence[Invoke]:
    _, h, w, c = call.composite.nodes[0].output.type.shape
    zero = call.inputs[0].zero_point
    return [call.invoke(RUN, call.operands[0].address, call.result.address, h, w, c, zero)]


def limit(call: KernelCall) -> Sequence[Invoke]:
    x, bounds, y = call.operand(0).address, call.operand(1).address, call.result.address
    size, c = call.output.elements, call.output.shape[-1]
    return [call.invoke(LIMIT, x, bounds, y, size, c, int(call.main.kind == "Minimum"))]


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


def limit_strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    del attrs, inputs, out_type, target
    found = OpStrategy()
    found.add_implementation(limit, name="pooler.limit", cost=lambda offloaded, rows: 4 * rows)
    return found


class Pooler(UMABackend):
    """An engine with a pattern that claims the nodes of a diamond, and patterns of constants."""

    def __init__(self) -> None:
        super().__init__()
        self._register_pattern("pool_and_clamp", PATTERN, pooled_first)
        self._register_operator_strategy("pool_and_clamp", strategy)
        for name, pattern in LIMITS.items():
            self._register_pattern(name, pattern)
            self._register_operator_strategy(name, limit_strategy)
        sources = {"pooler.h": HEADER, "pooler.c": STUB}
        self._register_codegen(includes='#include "pooler.h"', sources=sources)

    @property
    def target_name(self) -> str:
        return "pooler"


def network(
    channels: int = 4,
    window: int = 2,
    stride: int = 2,
    copies: int = 1,
    clamp: Op = Relu(Activation.RELU),  # noqa: B008
    last: Op | None = None,
) -> Graph:
    """A pooling whose result is clamped and concatenated with itself.

    copies: how often the pooling itself is concatenated.
    last: an operator that the concatenated tensors pass first."""
    net = penstock.GraphBuilder("diamond")
    x = net.max_pool2d(net.input((1, 8, 8, channels)), window, stride, name="pool")
    found = [x] * copies
    found.append(net.apply(clamp, x, quantisation=x.type.quantisation, name="clamp"))
    if last is not None:
        found = [net.apply(last, one) for one in found]
    quantisation = found[0].type.quantisation
    return net.build(net.apply(Concatenation(3), *found, quantisation=quantisation, name="both"))


def limits(ceiling: int = 96, ramp: Array = RAMP, floor: int = -100) -> Graph:
    """A minimum and two maxima, each with a constant per channel."""
    net = penstock.GraphBuilder("bounds")
    x = net.input((1, 4, 4, len(ramp)))
    quantisation = x.type.quantisation
    bounds = np.full_like(ramp, ceiling), ramp, np.full_like(ramp, floor)
    for name, op, bound in zip(LIMITS, (Minimum(), Maximum(), Maximum()), bounds, strict=True):
        constant = net.constant(bound, quantisation)
        x = net.apply(op, x, constant, quantisation=quantisation, name=name)
    return net.build(x)


def near_misses() -> Mapping[str, tuple[Graph, str, str]]:
    """Networks that a pattern almost matches: (network, name of the pattern, node)."""
    both = "pool_and_clamp", "both"
    return {
        "tuple": (network(copies=2), *both),
        "element type": (network(last=Dequantize()), *both),
        "shape": (network(channels=3), *both),
        "attribute": (network(window=3), *both),
        "predicate of an attribute": (network(stride=1), *both),
        "dominator": (network(clamp=LeakyRelu(0.1)), *both),
        "number": (limits(ceiling=95), "ceiling", "ceiling"),
        "array": (limits(ramp=RAMP + 1), "ramp", "ramp"),
        "predicate of elements": (limits(floor=3), "floor", "floor"),
    }
