"""Documented differences from TensorFlow Lite Micro on numbers without quantisation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.operators.deviation import BOUNDS, Deviation
from benchmarks.operators.drawing import Drawn
from benchmarks.operators.reference import Answer, Reference, Refusal


def _is_integer(drawn: Drawn) -> bool:
    return drawn.tensors[drawn.outputs[0]].dtype == "int32"


def _clamps_integers(drawn: Drawn) -> bool:
    return _is_integer(drawn) and drawn.operator.options["fused_activation_function"] != "NONE"


def _clipped_integers(drawn: Drawn, reference: Reference) -> Answer:
    """Run the operator without its activation, and clip."""
    options = {"fused_activation_function": "NONE"}
    other = replace(drawn, operators=(replace(drawn.operator, options=options),))
    answer = reference.run(other.tflite(), drawn.values)
    if isinstance(answer, Refusal):
        return answer
    lower, upper = {**BOUNDS, "RELU": (0.0, math.inf)}[
        str(drawn.operator.options["fused_activation_function"])
    ]
    return (np.clip(answer[0].astype(np.float64), lower, upper).astype(np.int32),)


def _divided(drawn: Drawn, _: Reference) -> Answer:
    """Python's integers, element by element."""
    a, b = np.broadcast_arrays(*drawn.values)
    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    if drawn.operator.name == "FLOOR_DIV":
        found = [x // y if y else 0 for x, y in pairs]
    else:
        found = [x % y if y else x for x, y in pairs]
    return (np.array(found).reshape(drawn.tensors[drawn.outputs[0]].shape).astype(np.int32),)


def _cast_undefined(drawn: Drawn) -> bool:
    """Real numbers to int16, which TensorFlow Lite Micro leaves to the compiler."""
    return (
        drawn.tensors[drawn.inputs[0]].dtype == "float32"
        and drawn.tensors[drawn.outputs[0]].dtype != "float32"
    )


def _cast_saturated(drawn: Drawn, _: Reference) -> Answer:
    """Rounded towards 0 to int32, saturated, and narrowed."""
    wide = np.clip(np.trunc(drawn.values[0].astype(np.float64)), -(2.0**31), 2.0**31 - 1)
    return (wide.astype(np.int64).astype(drawn.tensors[drawn.outputs[0]].dtype),)


def _has_no_cast(drawn: Drawn) -> bool:
    return drawn.tensors[drawn.inputs[0]].dtype in ("uint8", "int64")


def _cast(drawn: Drawn, _: Reference) -> Answer:
    return (drawn.values[0].astype(drawn.tensors[drawn.outputs[0]].dtype),)


PLAIN_DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        ("ADD", "SUB", "MUL"),
        "tensors are int32, with a fused activation",
        "ignores the activation",
        "clamps, as TensorFlow does",
        "`micro/kernels/add.cc`, `EvalAdd`; TensorFlow: `kernels/add.cc`",
        _clamps_integers,
        _clipped_integers,
        plain=True,
    ),
    Deviation(
        ("FLOOR_DIV", "FLOOR_MOD"),
        "tensors are int32",
        "has a kernel for float32 only; TensorFlow fails if a divisor is 0",
        "divides as TensorFlow does; a divisor of 0 gives quotient 0 and remainder a",
        "`micro/kernels/floor_div.cc`; TensorFlow: `kernels/floor_div.cc`",
        _is_integer,
        _divided,
        plain=True,
    ),
    Deviation(
        ("CAST",),
        "real numbers become integers",
        "leaves numbers outside of the output's range undefined",
        "saturates to int32 (int64 for int64 outputs), and keeps the lowest bits",
        "`micro/kernels/cast.cc`",
        _cast_undefined,
        _cast_saturated,
        plain=True,
    ),
    Deviation(
        ("CAST",),
        "the input is uint8 or int64",
        "has no kernel",
        "converts, as TensorFlow does",
        "TensorFlow: `kernels/cast.cc`",
        _has_no_cast,
        _cast,
        plain=True,
    ),
)
