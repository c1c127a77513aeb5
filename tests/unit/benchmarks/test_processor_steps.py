"""Steps of the processor beside an accelerator, estimated and counted on the simulated core."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest

from benchmarks.processor_steps import NVDLA, WRONG, beside

SMALL = "zoo:lenet5"

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("ziglang", "unicorn")),
    reason="the packages of penstock[simulate] are not installed",
)


def test_the_processor_takes_the_same_cycles_beside_an_idle_driver() -> None:
    """Only those of softmax depend on elements, by less than 1 %."""
    model, idle = beside(SMALL, NVDLA), beside(SMALL, NVDLA, most_macs=0)
    assert (model.idle, idle.idle) == (False, True)
    assert model.weighty
    assert not model.wrong
    for one, other in zip(model.steps, idle.steps, strict=True):
        limit = 0.01 * one.counted if one.kernel == "softmax_s8" else 0
        assert abs(one.counted - other.counted) <= limit, one.name
    step = max(model.steps, key=lambda one: one.counted)
    for factor in (1 - 1.2 * WRONG, 1 + 1.2 * WRONG):
        off = dataclasses.replace(step, estimated=round(factor * step.counted))
        assert dataclasses.replace(model, steps=(off,)).wrong
