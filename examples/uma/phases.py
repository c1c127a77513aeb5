"""Program passes at the four phases: an engine that pools rows, and one pass for each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.uma import (
    AcceleratorTarget,
    Array,
    Call,
    Command,
    Driver,
    Invoke,
    KernelCall,
    Loop,
    Offloaded,
    OpStrategy,
    PassPhase,
    Program,
    UMABackend,
    Var,
    elements,
    is_op,
    wildcard,
)

HEADER = """\
#ifndef ROWS_H
#define ROWS_H
#include <stdint.h>
/* Sets the engine up for calls of at most `height` rows. */
void rows_begin(int32_t height);
/* y (w, c) = the maxima of 2 x 2 windows of two rows of 2w pixels. */
void rows_max(const void *upper, const void *lower, void *y, int32_t w, int32_t c);
/* Waits until the engine has finished. */
void rows_end(void);
#endif
"""
STUB = """\
#include "rows.h"
static int32_t rows_height;
void rows_begin(int32_t height) { rows_height = height; }
void rows_max(const void *upper, const void *lower, void *y, int32_t w, int32_t c) {
    const int8_t *const rows[2] = {upper, lower};
    for (int32_t i = 0; i < w * c; i++) {
        int8_t most = -128;
        for (int32_t k = 0; k < 4; k++) {
            const int8_t element = rows[k / 2][(i / c * 2 + k % 2) * c + i % c];
            most = element > most ? element : most;
        }
        ((int8_t *)y)[i] = most;
    }
}
void rows_end(void) { rows_height = 0; }
"""


def begin_model(device: dict[str, int], height: int) -> None:
    device["height"] = height


def max_model(device: dict[str, int], upper: Array, lower: Array, y: Array, w: int, c: int) -> None:
    rows = np.stack([elements(row, np.int8, w, 2, c) for row in (upper, lower)])
    elements(y, np.int8, w, c)[:] = rows.max(axis=(0, 2))


def end_model(device: dict[str, int]) -> None:
    device["height"] = 0


BEGIN = Driver("rows_begin", "rows", begin_model, device=dict)
MAX = Driver("rows_max", "rows", max_model, device=dict)
END = Driver("rows_end", "rows", end_model, device=dict)


def compute(call: KernelCall) -> Sequence[Command]:
    """One command for each row of the output."""
    _, _, w, c = call.output.shape
    r, x = Var("r"), call.operand(0)
    command = call.invoke(MAX, x.row(r * 2), x.row(r * 2 + 1), call.result.row(r), w, c)
    return [Loop("r", call.first, call.end, 1, (command,))]


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    del attrs, inputs, out_type, target
    found = OpStrategy()
    found.add_implementation(compute, name="rows.max", cost=cycles, by_rows=True)
    return found


def cycles(offloaded: Offloaded, rows: int) -> float:
    return 10 + rows * offloaded.output.shape[2]


def whole(program: Program, target: AcceleratorTarget) -> Program:
    """Phase 0, before stripes: no call runs in stripes."""
    return each_call(program, target, lambda c: replace(c, kernel=replace(c.kernel, by_rows=False)))


def set_up(program: Program, target: AcceleratorTarget) -> Program:
    """Phase 1, after stripes: each call begins with a set-up for the height of its stripes."""

    def changed(call: Call) -> Call:
        body = call.kernel.body
        assert body is not None

        def with_begin(*arguments: Any) -> tuple[Command, ...]:
            inputs, output, rows, *rest = arguments
            return (Invoke(BEGIN, (rows,)), *body(inputs, output, rows, *rest))

        return replace(call, kernel=replace(call.kernel, body=with_begin))

    return each_call(program, target, changed)


def set_up_once(program: Program, target: AcceleratorTarget) -> Program:
    """Phase 2, after placement: a set-up for no more rows than an earlier one is dropped."""
    most = 0

    def changed(call: Call) -> Call:
        nonlocal most
        first, *rest = call.body
        if not isinstance(first, Invoke) or first.driver is not BEGIN:
            return call
        before, most = most, max(most, int(str(first.arguments[0])))
        return call if most > before else replace(call, body=tuple(rest))

    return each_call(program, target, changed)


def wait_at_the_end(program: Program, target: AcceleratorTarget) -> Program:
    """Phase 3, before emission: each call ends when the engine has finished."""
    wait = Invoke(END, ())
    return each_call(program, target, lambda call: replace(call, body=(*call.body, wait)))


def each_call(
    program: Program, target: AcceleratorTarget, change: Callable[[Call], Call]
) -> Program:
    """The program in which each call of the accelerator is changed, also inside loops."""

    def changed(command: Command) -> Command:
        if isinstance(command, Loop):
            return replace(command, body=tuple(map(changed, command.body)))
        if isinstance(command, Call) and command.engine == target.name:
            return change(command)
        return command

    return replace(program, run=tuple(map(changed, program.run)))


PASSES = {
    PassPhase.PROGRAM_PHASE_0: whole,
    PassPhase.PROGRAM_PHASE_1: set_up,
    PassPhase.PROGRAM_PHASE_2: set_up_once,
    PassPhase.PROGRAM_PHASE_3: wait_at_the_end,
}


class Rows(UMABackend):
    """An engine that pools row by row.

    passes: program passes by phase."""

    def __init__(self, passes: dict[PassPhase, Any] | None = None) -> None:
        super().__init__()
        window = {"rows.size": 2, "columns.size": 2, "rows.stride": 2, "columns.stride": 2}
        self._register_pattern("pool", is_op("nn.max_pool2d")(wildcard()).has_attr(window))
        self._register_operator_strategy("pool", strategy)
        for phase, program_pass in (passes or {}).items():
            self._register_tir_pass(phase, program_pass)
        self._register_codegen(
            includes='#include "rows.h"', sources={"rows.h": HEADER, "rows.c": STUB}
        )

    @property
    def target_name(self) -> str:
        return "rows"


def network() -> Graph:
    """Two poolings, one after the other."""
    net = penstock.GraphBuilder("pools")
    x = net.max_pool2d(net.input((1, 16, 16, 4)), 2, name="first")
    return net.build(net.max_pool2d(x, 2, name="second"))
