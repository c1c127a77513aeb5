"""Compiler regions: an engine whose adjacent layers run as one call, in C or in one stream."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.uma import (
    AnyStreamCommand,
    Array,
    Command,
    Driver,
    Invoke,
    KernelCall,
    OpStrategy,
    StreamCommand,
    UMABackend,
    elements,
    is_op,
    wildcard,
)

HEADER = """\
#ifndef POOLS_H
#define POOLS_H
#include <stdint.h>
void pools_wake(void);  /* before the first layer */
void pools_sleep(void); /* after the last layer */
/* y (h, w, c) = the maxima of 2 x 2 windows of x (2h, 2w, c). */
void pools_max(const void *x, void *y, int32_t h, int32_t w, int32_t c);
/* Executes a stream of layers: base and offset of x, base and offset of y, h, w, c. */
void pools_submit(const void *stream, int32_t size, void *bases[]);
#endif
"""
STUB = """\
#include "pools.h"
#include <string.h>
void pools_wake(void) {}
void pools_sleep(void) {}
void pools_max(const void *x, void *y, int32_t h, int32_t w, int32_t c) {
    int8_t *out = y;
    for (int32_t i = 0; i < h * w * c; i++) {
        const int32_t place = i / c;
        const int8_t *corner = (const int8_t *)x + (place / w * 4 * w + place % w * 2) * c + i % c;
        int8_t most = -128;
        for (int32_t k = 0; k < 4; k++) {
            const int8_t element = corner[(k / 2 * 2 * w + k % 2) * c];
            most = element > most ? element : most;
        }
        out[i] = most;
    }
}
void pools_submit(const void *stream, int32_t size, void *bases[]) {
    int32_t n[7];
    for (int32_t at = 0; at < size; at += (int32_t)sizeof n) {
        memcpy(n, (const int8_t *)stream + at, sizeof n);
        pools_max((int8_t *)bases[n[0]] + n[1], (int8_t *)bases[n[2]] + n[3], n[4], n[5], n[6]);
    }
}
"""
LAYER = struct.Struct("<7i")


def nothing(device: object) -> None:
    """Functional model of functions that change no data."""


def max_model(device: object, x: Array, y: Array, h: int, w: int, c: int) -> None:
    del device
    elements(y, np.int8, h, w, c)[:] = elements(x, np.int8, h, 2, w, 2, c).max(axis=(1, 3))


def submit_model(device: object, stream: Array, size: int, *bases: Array) -> None:
    for x, x_at, y, y_at, h, w, c in LAYER.iter_unpack(stream[:size].tobytes()):
        max_model(device, bases[x][x_at:], bases[y][y_at:], h, w, c)


WAKE = Driver("pools_wake", "pools", nothing, device=dict)
SLEEP = Driver("pools_sleep", "pools", nothing, device=dict)
MAX = Driver("pools_max", "pools", max_model, device=dict)
SUBMIT = Driver("pools_submit", "pools", submit_model, device=dict)


def compute(call: KernelCall) -> Sequence[Invoke]:
    """The command of one layer."""
    _, h, w, c = call.output.shape
    return [call.invoke(MAX, call.operand(0).address, call.result.address, h, w, c)]


def compute_awake(call: KernelCall) -> Sequence[Invoke]:
    """The command of one layer, between those that wake the engine and let it sleep."""
    return [call.invoke(WAKE), *compute(call), call.invoke(SLEEP)]


def encode(commands: Sequence[AnyStreamCommand]) -> bytes:
    """The stream of all layers of a region."""
    layers = [command for command in commands if isinstance(command, StreamCommand)]
    places = [[n for p in layer.places for n in (p.base, p.offset_bytes)] for layer in layers]
    pairs = zip(places, layers, strict=True)
    return b"".join(LAYER.pack(*place, *layer.numbers) for place, layer in pairs)


def awake_once(calls: Sequence[Sequence[Command]]) -> Sequence[Command]:
    """The commands of a region in C: the engine wakes once."""
    layers = [command for commands in calls for command in commands[1:-1]]
    return [calls[0][0], *layers, calls[-1][-1]]


class Pools(UMABackend):
    """An engine for poolings.

    stream: whether it takes command streams; if not, it is called in C.
    merge: whether adjacent layers run as one call."""

    def __init__(self, *, stream: bool = True, merge: bool = True) -> None:
        super().__init__(merge_compiler_regions=merge)
        window = {"rows.size": 2, "columns.size": 2, "rows.stride": 2, "columns.stride": 2}
        self._register_pattern("pool", is_op("nn.max_pool2d")(wildcard()).has_attr(window))
        self._register_operator_strategy("pool", pooling_strategy(stream))
        sources = {"pools.h": HEADER, "pools.c": STUB}
        if stream:
            self._register_codegen(
                "stream", '#include "pools.h"', encoder=encode, submit=SUBMIT, sources=sources
            )
        else:
            self._register_codegen("c", '#include "pools.h"', sources=sources)
            self._register_region(awake_once)

    @property
    def target_name(self) -> str:
        return "pools"


def pooling_strategy(stream: bool) -> Any:
    """The strategy of an engine with command streams or driver calls."""

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        del attrs, inputs, out_type, target
        found = OpStrategy()
        found.add_implementation(
            compute if stream else compute_awake, name="pools.max", cost=lambda layer, rows: 9
        )
        return found

    return strategy


def network() -> Graph:
    """Three poolings in a row, and a dense layer."""
    net = penstock.GraphBuilder("chain")
    x = net.input((1, 16, 16, 4))
    for k in range(3):
        x = net.max_pool2d(x, 2, name=f"pool{k}")
    return net.build(net.fully_connected(x, 3, name="logits"))
