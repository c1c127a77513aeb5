"""Instances: two units of one pooling engine, which share the layers of a network in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.uma import (
    Array,
    Driver,
    Invoke,
    KernelCall,
    OpStrategy,
    UMABackend,
    elements,
    is_op,
    wildcard,
)

HEADER = """\
#ifndef TWINS_H
#define TWINS_H
#include <stdint.h>
/* Selects the unit that executes the following layers. */
void twins_select(int32_t unit);
/* y (h, w, c) = the maxima of 2 x 2 windows of x (2h, 2w, c). */
void twins_max(const void *x, void *y, int32_t h, int32_t w, int32_t c);
#endif
"""
STUB = """\
#include "twins.h"
static int32_t selected;
static int32_t layers[2];
void twins_select(int32_t unit) { selected = unit; }
void twins_max(const void *x, void *y, int32_t h, int32_t w, int32_t c) {
    layers[selected]++;
    for (int32_t i = 0; i < h * w * c; i++) {
        const int32_t place = i / c;
        const int8_t *corner = (const int8_t *)x + (place / w * 4 * w + place % w * 2) * c + i % c;
        int8_t most = -128;
        for (int32_t k = 0; k < 4; k++) {
            const int8_t element = corner[(k / 2 * 2 * w + k % 2) * c];
            most = element > most ? element : most;
        }
        ((int8_t *)y)[i] = most;
    }
}
"""
TARGET = """
[[accelerators]]
name = "twins"
instances = 2
"""
"""To be appended to a target file."""


class Units:
    """The state of both units: which one is selected, and how many layers each has executed."""

    def __init__(self) -> None:
        self.selected = 0
        self.layers = [0, 0]


def select_model(units: Units, unit: int) -> None:
    units.selected = unit


def max_model(units: Units, x: Array, y: Array, h: int, w: int, c: int) -> None:
    units.layers[units.selected] += 1
    elements(y, np.int8, h, w, c)[:] = elements(x, np.int8, h, 2, w, 2, c).max(axis=(1, 3))


SELECT = Driver("twins_select", "twins", select_model, device=Units)
MAX = Driver("twins_max", "twins", max_model, device=Units)


def compute(call: KernelCall) -> Sequence[Invoke]:
    _, h, w, c = call.output.shape
    return [call.invoke(MAX, call.operand(0).address, call.result.address, h, w, c)]


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    del attrs, inputs, out_type, target
    found = OpStrategy()
    found.add_implementation(compute, name="twins.max", cost=lambda layer, rows: 9)
    return found


class Twins(UMABackend):
    """A pooling engine of which a chip may have several units."""

    def __init__(self) -> None:
        super().__init__()
        window = {"rows.size": 2, "columns.size": 2, "rows.stride": 2, "columns.stride": 2}
        self._register_pattern("pool", is_op("nn.max_pool2d")(wildcard()).has_attr(window))
        self._register_operator_strategy("pool", strategy)
        self._register_instances(SELECT)
        sources = {"twins.h": HEADER, "twins.c": STUB}
        self._register_codegen(includes='#include "twins.h"', sources=sources)

    @property
    def target_name(self) -> str:
        return "twins"
