"""Deviations: documented differences from TensorFlow Lite Micro, and the checks that replace it.

Each check shares no code with penstock: TensorFlow Lite Micro on an equivalent model, or real
arithmetic with a tolerance of one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.operators.deviation import BOUNDS, Deviation
from benchmarks.operators.drawing import Array, Drawn
from benchmarks.operators.plain_deviations import PLAIN_DEVIATIONS
from benchmarks.operators.reference import Answer, Reference, Refusal
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec

REAL_TOLERANCE = 1
"""Tolerance against real arithmetic, in steps."""


def deviation_of(drawn: Drawn) -> Deviation | None:
    """The documented difference that applies to a model."""
    plain = not any(spec.scales for spec in drawn.tensors)
    found = (d for d in DEVIATIONS if drawn.operator.name in d.operators and d.plain == plain)
    return next((d for d in found if d.applies(drawn)), None)


def _always(_: Drawn) -> bool:
    return True


def _input(drawn: Drawn) -> TensorSpec:
    return drawn.tensors[drawn.inputs[0]]


def _output(drawn: Drawn) -> TensorSpec:
    return drawn.tensors[drawn.outputs[0]]


# Equivalent models.


def _rescaled(drawn: Drawn) -> bool:
    x, y = _input(drawn), _output(drawn)
    return (x.scales, x.zero_points) != (y.scales, y.zero_points)


def _quantised_and_clipped(drawn: Drawn, reference: Reference) -> Answer:
    """Replace the clamp by QUANTIZE, which rescales with the same arithmetic, and clip."""
    answer = _renamed("QUANTIZE", drawn, reference)
    return _clipped(answer, _output(drawn), BOUNDS[drawn.operator.name])


def _clipped(answer: Answer, y: TensorSpec, bounds: tuple[float, float]) -> Answer:
    """Clamp the elements to the quantised bounds."""
    if isinstance(answer, Refusal):
        return answer
    lower, upper = (
        y.zero_points[0] + _round_half_away(float(np.float32(real) / np.float32(y.scales[0])))
        for real in bounds
    )
    return (np.clip(answer[0].astype(np.int64), lower, upper).clip(-128, 127).astype(np.int8),)


def _bounds_leave_int32(drawn: Drawn) -> bool:
    largest = max(map(abs, BOUNDS.get(str(_activation(drawn)), (0.0,))))
    return largest / _output(drawn).scales[0] >= 2.0**31


def _activation(drawn: Drawn) -> OptionValue:
    return drawn.operator.options["fused_activation_function"]


def _clipped_afterwards(drawn: Drawn, reference: Reference) -> Answer:
    """Run the operator without its activation, and clip."""
    options = {**drawn.operator.options, "fused_activation_function": "NONE"}
    other = replace(drawn, operators=(replace(drawn.operator, options=options),))
    answer = reference.run(other.tflite(), drawn.values)
    return _clipped(answer, _output(drawn), BOUNDS[str(_activation(drawn))])


def _round_half_away(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def _renamed(name: str, drawn: Drawn, reference: Reference) -> Answer:
    operator = drawn.operator
    other = OperatorSpec(name, operator.inputs, operator.outputs)
    return reference.run(replace(drawn, operators=(other,)).tflite(), drawn.values)


def _select(drawn: Drawn, reference: Reference) -> Answer:
    return _renamed("SELECT_V2", drawn, reference)


def _tiled(drawn: Drawn, _: Reference) -> Answer:
    multiples = drawn.tensors[drawn.operator.inputs[1]].data
    assert multiples is not None
    return (np.tile(drawn.values[0], tuple(int(n) for n in multiples)),)


def _leaves_multiplier_out(drawn: Drawn) -> bool:
    return drawn.operator.options["depth_multiplier"] == 0


def _with_multiplier(drawn: Drawn, reference: Reference) -> Answer:
    """The operator with the multiplier that follows from the shapes."""
    multiplier = _output(drawn).shape[3] // _input(drawn).shape[3]
    options = {**drawn.operator.options, "depth_multiplier": multiplier}
    other = replace(drawn, operators=(replace(drawn.operator, options=options),))
    return reference.run(other.tflite(), drawn.values)


def _pads(drawn: Drawn) -> bool:
    return bool(np.any(drawn.tensors[drawn.operator.inputs[2]].data))


def _padded_first(drawn: Drawn, reference: Reference) -> Answer:
    """Run PAD, which pads with the zero point, and then SPACE_TO_BATCH_ND without paddings."""
    x = _input(drawn)
    index, blocks, paddings = drawn.operator.inputs
    pairs = drawn.tensors[paddings].data
    assert pairs is not None
    whole = np.concatenate([[[0, 0]], pairs, [[0, 0]]]).astype(np.int32)
    shape = tuple(int(n) for n in np.array(x.shape) + whole.sum(axis=1))
    count = len(drawn.tensors)
    tensors = (
        *drawn.tensors,
        TensorSpec("pairs", whole.shape, "int32", data=whole),
        TensorSpec("padded", shape, "int8", x.scales, x.zero_points),
        TensorSpec("none", pairs.shape, "int32", data=np.zeros_like(pairs)),
    )
    operators = (
        OperatorSpec("PAD", (index, count), (count + 1,)),
        OperatorSpec("SPACE_TO_BATCH_ND", (count + 1, blocks, count + 2), drawn.outputs),
    )
    other = replace(drawn, tensors=tensors, operators=operators)
    return reference.run(other.tflite(), drawn.values)


# Real arithmetic.

Real = Callable[[Drawn, Array], Array]


def _really(function: Real) -> Callable[[Drawn, Reference], Answer]:
    """Evaluate the function in double precision and quantise the result."""

    def expected(drawn: Drawn, _: Reference) -> Answer:
        x, y = _input(drawn), _output(drawn)
        reals = (drawn.values[0].astype(np.float64) - x.zero_points[0]) * x.scales[0]
        with np.errstate(over="ignore", divide="ignore"):
            steps = function(drawn, reals) / y.scales[0]
        return (np.clip(np.rint(steps) + y.zero_points[0], -128, 127).astype(np.int8),)

    return expected


def _sigmoid(drawn: Drawn, x: Array) -> Array:
    return np.tanh(x) if drawn.operator.name == "TANH" else 1 / (1 + np.exp(-x))


def _gelu(drawn: Drawn, x: Array) -> Array:
    if drawn.operator.options["approximate"]:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape)


def _elu(_: Drawn, x: Array) -> Array:
    return np.where(x >= 0, x, np.expm1(x))


def _quotient_leaves_int32(drawn: Drawn) -> bool:
    """Whether the largest input element, divided by the output scale, is outside int32."""
    x, y = _input(drawn), _output(drawn)
    return (127 - x.zero_points[0]) * x.scales[0] / y.scales[0] > 2.0**31


def _shifts_negatively(drawn: Drawn) -> bool:
    return _input(drawn).scales[0] < 2.0**-28


def _shifts_beyond_31(drawn: Drawn) -> bool:
    """Whether the total shift exceeds 31: 20 bits more than the exponent of the multiplier."""
    x, y = _input(drawn), _output(drawn)
    return 1 / (math.sqrt(x.scales[0]) * y.scales[0]) < 2.0**-11


DEVIATIONS = (
    *PLAIN_DEVIATIONS,
    Deviation(
        ("RELU6",),
        "input and output differ in scale or zero point",
        "clamps input elements and copies them: the output is not rescaled",
        "rescales, as TensorFlow does",
        "`micro/kernels/activations.cc`, `Relu6Quantized`; TensorFlow: `kernels/activations.cc`, "
        "`ReluXQuantized`",
        _rescaled,
        _quantised_and_clipped,
    ),
    Deviation(
        ("RELU_N1_TO_1", "RELU_0_TO_1"),
        "always",
        "has no kernel",
        "rescales and clamps, as TensorFlow does",
        "TensorFlow: `kernels/activations.cc`, `ReluXQuantized`",
        _always,
        _quantised_and_clipped,
    ),
    Deviation(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D"),
        "a bound of the fused activation, divided by the scale, overflows int32",
        "ignores the failure to compute the bounds and reads uninitialised values; other operators "
        "are rejected in this case",
        "clamps to int8",
        "`micro/kernels/pooling_common.cc`, `CalculateOpDataPooling`",
        _bounds_leave_int32,
        _clipped_afterwards,
    ),
    Deviation(
        ("DEPTHWISE_CONV_2D",),
        "`depth_multiplier` is 0",
        "computes no output element",
        "infers it from the channels of weights and input, as TensorFlow does",
        "`kernels/internal/reference/integer_ops/depthwise_conv.h`; TensorFlow: "
        "`lite/core/c/builtin_op_data.h`, `TfLiteDepthwiseConvParams`",
        _leaves_multiplier_out,
        _with_multiplier,
    ),
    Deviation(
        ("SPACE_TO_BATCH_ND",),
        "paddings are not zero",
        "pads with an uninitialised value",
        "pads with the zero point, as TensorFlow does",
        "`micro/kernels/space_to_batch_nd.cc`: `SpaceToBatchParams::output_offset`",
        _pads,
        _padded_first,
    ),
    Deviation(
        ("TANH", "LOGISTIC"),
        "the input scale is below 2^-28",
        "shifts by a negative number of bits, which is undefined in C++; on x86-64, every output "
        "saturates",
        "computes the function; every output equals that of 0",
        "`kernels/internal/quantization_util.cc`, `CalculateInputRadius`",
        _shifts_negatively,
        _really(_sigmoid),
        REAL_TOLERANCE,
    ),
    Deviation(
        ("RSQRT",),
        "1 / (sqrt(scale of the input) * scale of the output) is below 2^-11",
        "shifts by more than 31 bits, which is undefined in C++",
        "computes the function; every output equals the zero point",
        "`micro/kernels/elementwise.cc`, `RsqrtEvalQuantized`",
        _shifts_beyond_31,
        _really(lambda _, x: 1 / np.sqrt(x)),
        REAL_TOLERANCE,
    ),
    Deviation(
        ("ELU",),
        "an output, divided by its scale, overflows int32",
        "converts it to int32, which is undefined in C++; on x86-64, the output is -128",
        "clamps to int8, as everywhere else",
        "`micro/kernels/elu.cc`, `PopulateLookupTable`",
        _quotient_leaves_int32,
        _really(_elu),
        REAL_TOLERANCE,
    ),
    Deviation(
        ("EXP",),
        "always",
        "has a kernel for float32 only",
        "uses a table, as TensorFlow does",
        "`micro/kernels/exp.cc`; TensorFlow: `kernels/exp.cc`",
        _always,
        _really(lambda _, x: np.exp(x)),
        REAL_TOLERANCE,
    ),
    Deviation(
        ("GELU",),
        "always",
        "has no kernel",
        "uses a table, as TensorFlow does",
        "TensorFlow: `kernels/gelu.cc`",
        _always,
        _really(_gelu),
        REAL_TOLERANCE,
    ),
    Deviation(
        ("SELECT",),
        "always",
        "has no kernel",
        "computes SELECT_V2, which is equivalent for inputs of equal shape",
        "TensorFlow: `kernels/select.cc`",
        _always,
        _select,
    ),
    Deviation(
        ("TILE",),
        "always",
        "has no kernel",
        "repeats the tensor, as TensorFlow does",
        "TensorFlow: `kernels/tile.cc`",
        _always,
        _tiled,
    ),
)
