"""Documented deviations from TensorFlow Lite Micro, and what judges them in its place.

The table is `DEVIATIONS`, from which `docs/deviations.md` is generated.  Each entry has an oracle:
the arithmetic of the stated reference in NumPy, which shares no code with penstock's operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignModel, ForeignNode
from penstock.ir.tensor import Array, TensorType
from penstock.simulators.compare import Difference, JudgedTensor

Inputs = Sequence[Array | None]  # The elements of all inputs of a node; None for absent ones.
# Output 0 of a node by TensorFlow Lite Micro, from its inputs and from the output that was
# recorded, which decides what is undefined.
Recorded = Callable[[ForeignNode, Inputs, Array], Array]


@frozen
class Deviation:
    """An entry of the table.

    operators: names of TFLite.  where: the condition, as a text; `applies` decides it.
    reference, penstock: what TensorFlow Lite Micro does, and what penstock does.
    source: where that is stated.
    expected: output 0 of a node, from the elements of its inputs.
    tolerance: largest accepted difference, in steps; 0 if the oracle is exact.
    recorded: what TensorFlow Lite Micro computes; None if it does not run the node, so that a
        recorded output is that of a runtime without the deviation.
    plain: the entry concerns numbers without quantisation."""

    operators: tuple[str, ...]
    where: str
    reference: str
    penstock: str
    source: str
    applies: Callable[[ForeignNode], bool]
    expected: Callable[[ForeignNode, Inputs], Array]
    tolerance: int = 0
    recorded: Recorded | None = None
    plain: bool = False

    @property
    def summary(self) -> str:
        """The entry in a line."""
        return (
            f"{', '.join(self.operators)}, {self.where}: TensorFlow Lite Micro {self.reference}; "
            f"penstock {self.penstock}"
        )


def deviation_of(node: ForeignNode) -> Deviation | None:
    """The documented deviation that applies to a node."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    plain = not any(v.quantisation for v in values)
    found = (d for d in DEVIATIONS if node.name in d.operators and d.plain == plain)
    return next((d for d in found if d.applies(node)), None)


@frozen
class Deviating:
    """A node of a TFLite model, its index in the main subgraph, and the deviation that applies."""

    index: int
    node: ForeignNode
    deviation: Deviation

    def judge(self, tensors: Mapping[str, Array], set_number: int) -> JudgedTensor:
        """Penstock's output, compared with the oracle on penstock's inputs."""
        value = self.node.y
        mine = tensors[value.name]
        expected = self.deviation.expected(self.node, self._inputs(tensors)).reshape(mine.shape)
        off = np.abs(mine.astype(np.float64) - expected).astype(np.int64)
        wrong = np.argwhere(off > self.deviation.tolerance)
        first = None
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            values = expected[at].item(), mine[at].item()
            first = Difference(value.name, set_number, at, *values, len(wrong))
        return JudgedTensor(
            self.node.where,
            (self.node.name,),
            value.name,
            mine.size,
            int(np.count_nonzero(off)),
            int(off.max(initial=0)),
            len(wrong),
            first,
            f"{self.node.where}: {self.deviation.summary}",
        )

    def handed_on(self, tensors: Mapping[str, Array], recorded: Sequence[Array]) -> Array | None:
        """The output that a runtime hands on to the nodes after this one, from the tensors up to
        the node, of which its output is penstock's, and from what was recorded of its output.

        Each recorded element is kept that the runtime's stated arithmetic explains, or penstock's,
        and others are replaced by it.  Without a record, None if an element is undefined."""
        mine = tensors[self.node.y.name]
        inputs, tolerance = self._inputs(tensors), self.deviation.tolerance

        def of_runtime(found: Array) -> Array:
            assert self.deviation.recorded is not None
            return self.deviation.recorded(self.node, inputs, found).reshape(mine.shape)

        if not recorded:
            if self.deviation.recorded is None:
                return mine
            first, other = (of_runtime(filled) for filled in _fillings(mine))
            return first if np.array_equal(first, other) else None
        results: list[tuple[int, Array]] = []
        for found in (array.reshape(mine.shape) for array in recorded):
            stated = [self.deviation.expected(self.node, inputs).reshape(mine.shape)]
            stated += [] if self.deviation.recorded is None else [of_runtime(found)]
            for one in stated:
                wrong = np.abs(found.astype(np.float64) - one) > tolerance
                kept = np.where(wrong, one, found).astype(mine.dtype)
                results.append((int(np.count_nonzero(wrong)), kept))
        return min(results, key=lambda result: result[0])[1]

    def _inputs(self, tensors: Mapping[str, Array]) -> Inputs:
        return [
            None if v is None else tensors[v.name] if v.data is None else v.array
            for v in self.node.inputs
        ]


def _fillings(like: Array) -> tuple[Array, Array]:
    zeros = np.zeros_like(like)
    return zeros, np.ones_like(like)


def deviating_nodes(model: ForeignModel, known: Collection[str]) -> tuple[Deviating, ...]:
    """The nodes that deviate as documented; `known`: the names of penstock's tensors."""

    def is_known(node: ForeignNode) -> bool:
        values = (*(v for v in node.inputs if v is not None), *node.outputs)
        return all(v.name in known for v in values if v.data is None)

    pairs = ((k, node, deviation_of(node)) for k, node in enumerate(model.nodes))
    return tuple(Deviating(k, node, d) for k, node, d in pairs if d and is_known(node))


def _always(_: ForeignNode) -> bool:
    return True


def _x(node: ForeignNode) -> TensorType:
    return node.x.type


def _y(node: ForeignNode) -> TensorType:
    return node.y.type


def _given(inputs: Inputs, position: int) -> Array:
    found = inputs[position]
    assert found is not None
    return found


# Fixed-point arithmetic.  Source: TFLite, `kernels/internal/common.h`, with double rounding.


def _multiplier(real: float) -> tuple[int, int]:
    """A positive factor as (multiplier with 31 fractional bits, exponent)."""
    fraction, exponent = math.frexp(real)
    multiplier = math.floor(fraction * 2.0**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = multiplier // 2, exponent + 1
    return (0, 0) if exponent < -31 else (multiplier, exponent)


def _scaled(x: Array, real: float) -> Array:
    multiplier, exponent = _multiplier(real)
    shifted = (x.astype(np.int64) << max(exponent, 0)).astype(np.int32)  # wraps, as there
    product = shifted.astype(np.int64) * multiplier
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> 31)
    right = max(-exponent, 0)
    mask = (1 << right) - 1
    above = (high & mask) > (mask >> 1) + (high < 0)
    return (high >> right) + above


_REAL_BOUNDS = {
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
# Fused activations by the number in the file.
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")


def _bounds(name: str, y: TensorType) -> tuple[float, float]:
    """The bounds of an activation as elements, within int8."""
    found = _REAL_BOUNDS.get(name, (-math.inf, math.inf))
    single = np.float32(y.scale)
    lower, upper = (
        y.zero_point + math.copysign(math.floor(abs(float(np.float32(b) / single)) + 0.5), b)
        if math.isfinite(b)
        else b
        for b in found
    )
    return max(lower, -128), min(upper, 127)


def _clamped(elements: Array, name: str, y: TensorType) -> Array:
    lower, upper = _bounds(name, y)
    return elements.astype(np.float64).clip(lower, upper).astype(np.int8)


def _activation(node: ForeignNode) -> str:
    return node.choice("fused_activation_function", _ACTIVATIONS)


# Conditions and oracles, in the order of the table.


def _is_integer(node: ForeignNode) -> bool:
    return _y(node).dtype.value == "int32"


def _clamps_integers(node: ForeignNode) -> bool:
    return _is_integer(node) and _activation(node) != "NONE"


def _clamped_integers(node: ForeignNode, inputs: Inputs) -> Array:
    bounds = _REAL_BOUNDS[_activation(node)]
    return _integers(node, inputs).astype(np.float64).clip(*bounds).astype(np.int32)


def _integers(node: ForeignNode, inputs: Inputs) -> Array:
    a, b = (_given(inputs, k).astype(np.int64) for k in (0, 1))
    return {"ADD": a + b, "SUB": a - b, "MUL": a * b}[node.name].astype(np.int32)


def _divided(node: ForeignNode, inputs: Inputs) -> Array:
    a, b = np.broadcast_arrays(_given(inputs, 0), _given(inputs, 1))
    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    if node.name == "FLOOR_DIV":
        found = [x // y if y else 0 for x, y in pairs]
    else:
        found = [x % y if y else x for x, y in pairs]
    return np.array(found).reshape(_y(node).shape).astype(np.int32)


def _cast_undefined(node: ForeignNode) -> bool:
    return _x(node).dtype.value == "float32" and _y(node).dtype.value not in ("float32", "bool")


def _cast_saturated(node: ForeignNode, inputs: Inputs) -> Array:
    """Python's integers: rounded towards 0, saturated to 32 or 64 bits, and narrowed."""
    y = _y(node)
    limit = 2**63 if y.dtype.value == "int64" else 2**31
    reals = _given(inputs, 0).astype(np.float64).clip(-limit, limit)
    whole = [min(int(r), limit - 1) for r in np.nan_to_num(reals).ravel().tolist()]
    return np.array(whole, np.int64).reshape(reals.shape).astype(y.dtype.value)


def _cast_within_range(node: ForeignNode, inputs: Inputs, found: Array) -> Array:
    whole, limits = np.trunc(_given(inputs, 0)), np.iinfo(_y(node).dtype.value)
    within = (whole >= limits.min) & (whole <= limits.max)
    return np.where(within, _cast_saturated(node, inputs), found)


def _has_no_cast(node: ForeignNode) -> bool:
    return _x(node).dtype.value in ("uint8", "int64")


def _cast(node: ForeignNode, inputs: Inputs) -> Array:
    return _given(inputs, 0).astype(_y(node).dtype.value)


def _is_rescaled(node: ForeignNode) -> bool:
    return _x(node).quantisation != _y(node).quantisation


def _rescaled_and_clamped(node: ForeignNode, inputs: Inputs) -> Array:
    x, y = _x(node), _y(node)
    steps = _scaled(_given(inputs, 0).astype(np.int64) - x.zero_point, x.scale / y.scale)
    return _clamped(steps + y.zero_point, node.name, y)


def _clamped_inputs(node: ForeignNode, inputs: Inputs) -> Array:
    return _clamped(_given(inputs, 0), node.name, _x(node))


def _bounds_leave_int32(node: ForeignNode) -> bool:
    bounds = _REAL_BOUNDS.get(_activation(node), (0.0, 0.0))
    largest = max(abs(b) for b in bounds if math.isfinite(b))
    return largest / _y(node).scale >= 2.0**31


def _padded_before(node: ForeignNode, extent: int, size: int, stride: int, outputs: int) -> int:
    """The padding before an axis: padding 0 is SAME, 1 is VALID."""
    if node.integer("padding") == 1:
        return 0
    return max((outputs - 1) * stride + size - extent, 0) // 2


def _paddings(
    node: ForeignNode, reach: Sequence[int], strides: Sequence[int], x: Sequence[int]
) -> list[int]:
    """The padding before rows and columns of an input of shape x."""
    axes = zip(x[1:3], reach, strides, _y(node).shape[1:3], strict=True)
    return [_padded_before(node, *axis) for axis in axes]


def _pooled(node: ForeignNode, inputs: Inputs) -> Array:
    return _clamped(_pool(node, inputs), _activation(node), _y(node))


def _pooled_within(node: ForeignNode, inputs: Inputs, found: Array) -> Array:
    return _pool(node, inputs).clip(found.min(), found.max())


def _pool(node: ForeignNode, inputs: Inputs) -> Array:
    x, y = _given(inputs, 0).astype(np.int64), _y(node)
    sizes = node.integer("filter_height"), node.integer("filter_width")
    strides = node.integer("stride_h"), node.integer("stride_w")
    found = np.zeros(y.shape, np.int64)
    before = _paddings(node, sizes, strides, x.shape)
    for i, j in np.ndindex(y.shape[1], y.shape[2]):
        top, left = i * strides[0] - before[0], j * strides[1] - before[1]
        rows, columns = slice(max(top, 0), top + sizes[0]), slice(max(left, 0), left + sizes[1])
        window = x[:, rows, columns]
        if node.name == "MAX_POOL_2D":
            found[:, i, j] = window.max(axis=(1, 2))
            continue
        total, count = window.sum(axis=(1, 2)), window.shape[1] * window.shape[2]
        found[:, i, j] = np.sign(total) * ((np.abs(total) + count // 2) // count)
    return found


def _omits_multiplier(node: ForeignNode) -> bool:
    return node.integer("depth_multiplier") == 0


def _convolved_by_channel(node: ForeignNode, inputs: Inputs) -> Array:
    x, w, y = _x(node), node.input(1).type, _y(node)
    elements = _given(inputs, 0).astype(np.int64) - x.zero_point
    weights = _given(inputs, 1).astype(np.int64)[0]
    bias = inputs[2] if len(inputs) > 2 else None
    times = y.shape[3] // x.shape[3]
    spread = np.repeat(elements, times, axis=3)
    total = np.zeros(y.shape, np.int64) + (0 if bias is None else bias.astype(np.int64))
    strides = node.integer("stride_h"), node.integer("stride_w")
    apart = node.integer("dilation_h_factor", 1), node.integer("dilation_w_factor", 1)
    reach = [(weights.shape[a] - 1) * apart[a] + 1 for a in (0, 1)]
    before = _paddings(node, reach, strides, x.shape)
    for i, j in np.ndindex(y.shape[1], y.shape[2]):
        for p, q in np.ndindex(weights.shape[0], weights.shape[1]):
            row = i * strides[0] - before[0] + p * apart[0]
            column = j * strides[1] - before[1] + q * apart[1]
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                total[:, i, j] += spread[:, row, column] * weights[p, q]
    assert w.quantisation is not None
    scales = np.broadcast_to(w.quantisation.scales, y.shape[3])
    steps = [_scaled(total[..., c], x.scale * s / y.scale) for c, s in enumerate(scales.tolist())]
    return _clamped(np.stack(steps, axis=-1) + y.zero_point, _activation(node), y)


def _pads(node: ForeignNode) -> bool:
    return node.input(2).data is None or bool(np.any(node.constant(2)))


def _space_to_batch(node: ForeignNode, inputs: Inputs) -> Array:
    return _moved_to_batch(node, inputs, _given(inputs, 0), _x(node).zero_point)


def _padded_alike(node: ForeignNode, inputs: Inputs, found: Array) -> Array:
    x = _given(inputs, 0)
    is_padding = _moved_to_batch(node, inputs, np.zeros(x.shape, np.bool_), True)
    padding = found.reshape(is_padding.shape)[is_padding]
    return _moved_to_batch(node, inputs, x, padding[0] if padding.size else 0)


def _moved_to_batch(node: ForeignNode, inputs: Inputs, x: Array, padding: int) -> Array:
    blocks = [int(b) for b in _given(inputs, 1)]
    pads = [(0, 0), *((int(a), int(b)) for a, b in _given(inputs, 2))]
    pads += [(0, 0)] * (x.ndim - len(pads))
    padded = np.pad(x, pads, constant_values=padding)
    parts = [
        padded[(slice(None), *(slice(o, None, b) for o, b in zip(offsets, blocks, strict=True)))]
        for offsets in np.ndindex(*blocks)
    ]
    return np.concatenate(parts, axis=0)


Real = Callable[[ForeignNode, Array], Array]


def _reals(node: ForeignNode, inputs: Inputs) -> Array:
    return (_given(inputs, 0).astype(np.float64) - _x(node).zero_point) * _x(node).scale


def _really(function: Real) -> Callable[[ForeignNode, Inputs], Array]:
    def expected(node: ForeignNode, inputs: Inputs) -> Array:
        y, reals = _y(node), _reals(node, inputs)
        with np.errstate(over="ignore", divide="ignore"):
            steps = function(node, reals) / y.scale
        return np.clip(np.rint(steps) + y.zero_point, -128, 127).astype(np.int8)

    return expected


def _sigmoid(node: ForeignNode, x: Array) -> Array:
    return np.tanh(x) if node.name == "TANH" else 1 / (1 + np.exp(-x))


def _gelu(node: ForeignNode, x: Array) -> Array:
    if node.integer("approximate"):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.ravel()]).reshape(x.shape)


def _shifts_negatively(node: ForeignNode) -> bool:
    return _x(node).scale < 2.0**-28


def _shifts_beyond_62(node: ForeignNode) -> bool:
    return _x(node).scale >= 2.0**35


def _step(node: ForeignNode, inputs: Inputs) -> Array:
    return np.where(_given(inputs, 0) > _x(node).zero_point, 127, -128).astype(np.int8)


def _shifts_beyond_31(node: ForeignNode) -> bool:
    """Whether the total shift exceeds 31: 20 bits more than the exponent of the multiplier."""
    return 1 / (math.sqrt(_x(node).scale) * _y(node).scale) < 2.0**-11


def _quotient_leaves_int32(node: ForeignNode) -> bool:
    """Whether the largest input element, divided by the output scale, is outside int32."""
    x, y = _x(node), _y(node)
    return (127 - x.zero_point) * x.scale / y.scale > 2.0**31


def _expanded(_: ForeignNode, x: Array) -> Array:
    return np.where(x >= 0, x, np.expm1(x))


def _expanded_in_int32(node: ForeignNode, inputs: Inputs, found: Array) -> Array:
    y = _y(node)
    steps = _reals(node, inputs) / y.scale
    return np.where(steps + y.zero_point < 2.0**31, _really(_expanded)(node, inputs), found)


def _rooted(node: ForeignNode, inputs: Inputs) -> Array:
    """Rounded towards 0; the root of a negative number is 0."""
    y = _y(node)
    steps = np.trunc(np.sqrt(np.maximum(_reals(node, inputs), 0)) / y.scale) + y.zero_point
    return np.clip(steps, -128, 127).astype(np.int8)


def _undefined(_: ForeignNode, __: Inputs, found: Array) -> Array:
    return found


def _exactly(oracle: Callable[[ForeignNode, Inputs], Array]) -> Recorded:
    return lambda node, inputs, _: oracle(node, inputs)


def _reduced(node: ForeignNode, inputs: Inputs) -> Array:
    axes = tuple(int(axis) for axis in _given(inputs, 1).ravel())
    reduce = np.any if node.name == "REDUCE_ANY" else np.all
    return np.asarray(reduce(_given(inputs, 0), axis=axes)).reshape(_y(node).shape)


def _chosen(_: ForeignNode, inputs: Inputs) -> Array:
    condition, a, b = (_given(inputs, k) for k in (0, 1, 2))
    return np.where(condition, a, b)


def _selected(_: ForeignNode, inputs: Inputs) -> Array:
    condition, a, b = (_given(inputs, k) for k in (0, 1, 2))
    shape = condition.shape + (1,) * (a.ndim - condition.ndim)
    return np.where(condition.reshape(shape), a, b)


def _tiled(_: ForeignNode, inputs: Inputs) -> Array:
    return np.tile(_given(inputs, 0), tuple(int(n) for n in _given(inputs, 1)))


DEVIATIONS = (
    Deviation(
        ("ADD", "SUB", "MUL"),
        "tensors are int32, with a fused activation",
        "ignores the activation",
        "clamps, as TensorFlow does",
        "`micro/kernels/add.cc`, `EvalAdd`; TensorFlow: `kernels/add.cc`",
        _clamps_integers,
        _clamped_integers,
        recorded=_exactly(_integers),
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
        recorded=_cast_within_range,
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
    Deviation(
        ("SELECT_V2",),
        "tensors are int32",
        "has no kernel",
        "chooses, as TensorFlow does",
        "`micro/kernels/select.cc`; TensorFlow: `kernels/select.cc`",
        _is_integer,
        _chosen,
        plain=True,
    ),
    Deviation(
        ("REDUCE_ANY", "REDUCE_ALL"),
        "always",
        "has no kernel",
        "computes the disjunction and the conjunction, as TensorFlow does",
        "TensorFlow: `kernels/reduce.cc`",
        _always,
        _reduced,
        plain=True,
    ),
    Deviation(
        ("RELU6",),
        "input and output differ in scale or zero point",
        "clamps input elements and copies them: the output is not rescaled",
        "rescales, as TensorFlow does",
        "`micro/kernels/activations.cc`, `Relu6Quantized`; TensorFlow: `kernels/activations.cc`, "
        "`ReluXQuantized`",
        _is_rescaled,
        _rescaled_and_clamped,
        recorded=_exactly(_clamped_inputs),
    ),
    Deviation(
        ("RELU_N1_TO_1", "RELU_0_TO_1"),
        "always",
        "has no kernel",
        "rescales and clamps, as TensorFlow does",
        "TensorFlow: `kernels/activations.cc`, `ReluXQuantized`",
        _always,
        _rescaled_and_clamped,
    ),
    Deviation(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D"),
        "a bound of the fused activation, divided by the scale, overflows int32",
        "ignores the failure to compute the bounds and reads uninitialised values; other operators "
        "are rejected in this case",
        "clamps to int8",
        "`micro/kernels/pooling_common.cc`, `CalculateOpDataPooling`",
        _bounds_leave_int32,
        _pooled,
        recorded=_pooled_within,
    ),
    Deviation(
        ("DEPTHWISE_CONV_2D",),
        "`depth_multiplier` is 0",
        "computes no output element",
        "infers it from the channels of weights and input, as TensorFlow does",
        "`kernels/internal/reference/integer_ops/depthwise_conv.h`; TensorFlow: "
        "`lite/core/c/builtin_op_data.h`, `TfLiteDepthwiseConvParams`",
        _omits_multiplier,
        _convolved_by_channel,
        recorded=_undefined,
    ),
    Deviation(
        ("SPACE_TO_BATCH_ND",),
        "paddings are not zero",
        "pads with an uninitialised value",
        "pads with the zero point, as TensorFlow does",
        "`micro/kernels/space_to_batch_nd.cc`: `SpaceToBatchParams::output_offset`",
        _pads,
        _space_to_batch,
        recorded=_padded_alike,
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
        1,
        _undefined,
    ),
    Deviation(
        ("TANH", "LOGISTIC"),
        "the input scale is 2^35 or more",
        "shifts by 63 bits or more, which is undefined in C++",
        "saturates, low at the zero point, as both do for scales from 8 on",
        "`kernels/internal/quantization_util.cc`, `CalculateInputRadius`",
        _shifts_beyond_62,
        _step,
        recorded=_undefined,
    ),
    Deviation(
        ("RSQRT",),
        "1 / (sqrt(scale of the input) * scale of the output) is below 2^-11",
        "shifts by more than 31 bits, which is undefined in C++",
        "computes the function; every output equals the zero point",
        "`micro/kernels/elementwise.cc`, `RsqrtEvalQuantized`",
        _shifts_beyond_31,
        _really(lambda _, x: 1 / np.sqrt(x)),
        1,
        _undefined,
    ),
    Deviation(
        ("ELU",),
        "an output, divided by its scale, overflows int32",
        "converts it to int32, which is undefined in C++; on x86-64, the output is -128",
        "clamps to int8, as everywhere else",
        "`micro/kernels/elu.cc`, `PopulateLookupTable`",
        _quotient_leaves_int32,
        _really(_expanded),
        1,
        _expanded_in_int32,
    ),
    Deviation(
        ("EXP",),
        "always",
        "has a kernel for float32 only",
        "uses a table, as TensorFlow does",
        "`micro/kernels/exp.cc`; TensorFlow: `kernels/exp.cc`",
        _always,
        _really(lambda _, x: np.exp(x)),
        1,
    ),
    Deviation(
        ("LOG",),
        "tensors are int8",
        "has a kernel for float32 only",
        "uses a table, as TensorFlow does; the logarithm of 0 and of a negative number is the "
        "smallest element",
        "`micro/kernels/elementwise.cc`; TensorFlow: `kernels/elementwise.cc`, `LogLUTPrepare`",
        _always,
        _really(lambda _, x: np.where(x > 0, np.log(np.maximum(x, 1e-300)), -np.inf)),
        1,
    ),
    Deviation(
        ("SQRT",),
        "tensors are int8",
        "has a kernel for float32 only; TensorFlow fails for a negative number",
        "rounds towards 0, as TensorFlow does; the root of a negative number is 0",
        "`micro/kernels/elementwise.cc`; TensorFlow: `kernels/elementwise.cc`, `SqrtEvalQuantized`",
        _always,
        _rooted,
        1,
    ),
    Deviation(
        ("GELU",),
        "always",
        "has no kernel",
        "uses a table, as TensorFlow does",
        "TensorFlow: `kernels/gelu.cc`",
        _always,
        _really(_gelu),
        1,
    ),
    Deviation(
        ("SELECT",),
        "always",
        "has no kernel",
        "computes SELECT_V2, which is equivalent for inputs of equal shape",
        "TensorFlow: `kernels/select.cc`",
        _always,
        _selected,
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
