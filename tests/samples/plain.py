"""Samples of the operators of `penstock.ops.plain`."""

from __future__ import annotations

from benchmarks.small_tensors import integers, reals, sample
from penstock.opkit.activation import Limits
from penstock.ops.plain import (
    Ceil,
    Floor,
    FloorDiv,
    FloorMod,
    Neg,
    PlainAbs,
    PlainAdd,
    PlainDiv,
    PlainElu,
    PlainErf,
    PlainErfc,
    PlainExp,
    PlainHardSwish,
    PlainLog,
    PlainLogistic,
    PlainMaximum,
    PlainMinimum,
    PlainMod,
    PlainMul,
    PlainPRelu,
    PlainRelu,
    PlainRsqrt,
    PlainSqrt,
    PlainSquaredDifference,
    PlainSub,
    PlainTanh,
    Power,
    Round,
    Square,
)

_IMAGE, _INTEGERS = reals(1, 4, 3, 5), integers(1, 4, 3, 5)

SAMPLES = (
    *(
        sample(op, x)
        for op in (
            Ceil(),
            Floor(),
            Round(),
            Round(away=True),
            Neg(),
            Square(),
            PlainErf(),
            PlainErfc(),
        )
        for x in (_IMAGE, reals(7))
    ),
    sample(Neg(), _INTEGERS),
    sample(Neg(), integers(7)),
    sample(Power(), _IMAGE, _IMAGE),
    sample(PlainMod(), _IMAGE, reals(5)),
    sample(PlainMod(floored=False), _IMAGE, _IMAGE),
    sample(Power(), reals(2, 4, 3, 5), reals()),
    sample(FloorDiv(), _INTEGERS, _INTEGERS),
    sample(FloorDiv(), _INTEGERS, integers()),
    sample(FloorDiv(), reals(2, 4, 3, 5), reals(5)),
    sample(FloorMod(), _INTEGERS, _INTEGERS),
    sample(FloorMod(), integers(2, 4, 3, 5), integers(4, 1, 5)),
    *(
        sample(op, _IMAGE)
        for op in (PlainAbs(), PlainExp(), PlainElu(), PlainHardSwish(), PlainLogistic())
    ),
    *(sample(op, _IMAGE) for op in (PlainTanh(), PlainRsqrt())),
    *(sample(op, x) for op in (PlainLog(), PlainSqrt()) for x in (_IMAGE, reals(7))),
    sample(PlainRelu(), _IMAGE),
    sample(PlainRelu(Limits(-1.0, 1.0)), reals(7)),
    *(
        sample(op, *inputs)
        for relu, exact in (
            (PlainAdd(Limits(-0.5, 0.5)), PlainAdd()),
            (PlainMul(Limits(-0.25, 0.25)), PlainMul()),
            (PlainSub(Limits(-0.5, 0.5)), PlainSub()),
        )
        for op, inputs in (
            (relu, (reals(2, 4, 3, 5), reals(5))),
            (exact, (_INTEGERS, integers())),
        )
    ),
    sample(PlainDiv(), _IMAGE, _IMAGE),
    sample(PlainPRelu(), _IMAGE, reals(5)),
    sample(PlainPRelu(), reals(2, 4, 3, 5), reals()),
    sample(PlainDiv(Limits(0.0, 6.0)), reals(2, 4, 3, 5), reals()),
    *(
        sample(op, *inputs)
        for op in (PlainMaximum(), PlainMinimum(), PlainSquaredDifference())
        for inputs in ((reals(2, 4, 3, 5), reals(4, 1, 5)), (_INTEGERS, integers(1)))
    ),
)
