"""SVDF: a layer that filters its input and then, filter by filter, the last outputs of the filters.

TFLite's SVDF becomes SvdfFeature, a queue of its outputs (a state), and SvdfTime, whose bias
contains the zero point of the queue; on real numbers, a fully connected layer, the queue, and sums
of products.

Source: TFLite Micro, `EvalIntegerSvdfReference` (`micro/kernels/svdf_common.cc`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.fixedpoint import multiply, wrap_int32
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    Op,
    OperatorDefaults,
    Regions,
    Site,
    Types,
    Work,
    row_kernel,
)
from penstock.ir.tensor import Array, Data, DType, Region, TensorType
from penstock.opkit.activation import UNLIMITED, Activation, fused_activation
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_quantised,
    require_rank,
)
from penstock.opkit.layers import require_fitting_sums
from penstock.opkit.nodes import is_plain_foreign, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import (
    channel_multipliers,
    fitting_multiplier,
    product_multiplier,
)
from penstock.ops.concatenation import Concatenation
from penstock.ops.fully_connected import PlainFullyConnected
from penstock.ops.plain import PlainAdd, PlainMaximum, PlainMul
from penstock.ops.reshape import Reshape
from penstock.ops.slice import along
from penstock.ops.sums import PlainSum
from penstock.ops.transpose import Transpose


@frozen
class SvdfFeature(FollowingAxes):
    """One time step of the queue of an SVDF, a weighted sum of the inputs per filter.

        x  (1, I)        int8
        w  (F, I)        int8            zero point 0, one scale
        y  (1, 1, 1, F)  int8 or int16   zero_y + clamp(M * sum w * (x - zero_x))

    Created from SVDF (`ops/svdf_time.py`).  As in TFLite Micro, the zero point is added after
    the clamp, and the sum keeps its lowest bits.

    Source: TFLite Micro, `EvalIntegerSvdfReference` (`micro/kernels/svdf_common.cc`)."""

    dtype: DType = DType.INT16

    def result_type(self, inputs: Types) -> TensorType:
        x, w = require_count(inputs, 2, "SvdfFeature")
        require_rank(x, "input", 2)
        require_rank(w, "weights", 2)
        require_int8(x, "input")
        require_int8(w, "feature weights")
        expected = (1, w.shape[1])
        require(x.shape == expected, f"input has shape {list(x.shape)}, must be {list(expected)}")
        y = TensorType((1, 1, 1, w.shape[0]), self.dtype)
        require_dtype(y, "output", DType.INT8, DType.INT16)
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w = inputs
        y = site.output
        centred = x.astype(np.int64) - site.x.zero_point
        sums = w[out.slices[-1]].astype(np.int64) @ centred[0]
        scaled = multiply(sums, *product_multiplier(site.x, site.inputs[1], y))
        # The zero point is added after the clamp, as in TFLite Micro.
        found = np.clip(scaled, y.dtype.lower, y.dtype.upper - 1) + y.zero_point
        return found.astype(y.dtype.value).reshape(out.shape)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        return (0, None), (3, None)

    def work(self, site: Site, out: Region) -> Work:
        return Work(out.elements * site.inputs[1].shape[1], out.elements)

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        filters, depth = site.inputs[1].shape
        multiplier, shift = product_multiplier(site.x, site.inputs[1], y)
        return row_kernel(
            "svdf_feature_s8",
            in_c=depth,
            out_c=filters,
            in_zero=site.x.zero_point,
            out_zero=y.zero_point,
            multiplier=multiplier,
            shift=shift,
            element_bytes=y.dtype.size_bytes,
            constants=((1, "weights"),),
        )


STATE = 4
"""Position of the state among the inputs of SVDF."""
STATES = (DType.INT8, DType.INT16)


@frozen
class SvdfTime(OperatorDefaults):
    """SVDF layer; weighted sums over its state, the last outputs of SvdfFeature.

        x  (1, T, 1, F)  int8 or int16   the last T outputs of SvdfFeature, in order
        w  (F, T)        of x's type     zero point 0, one scale
        b  (U)           int32           U = F / rank
        y  (1, U)        int8            clamp(zero_y + M * (b[u] + sum w * x))

    Unit u adds the sums of filters [u * rank, (u + 1) * rank).  Accumulators wrap around in 32
    bits.

    TFLite's SVDF becomes SvdfFeature, a queue of its outputs (a state), and SvdfTime, whose
    bias contains the zero point of x.  As in TFLite Micro, a fused activation has no effect
    beyond the clamp to int8.

    Source: TFLite Micro SVDF, `EvalIntegerSvdfReference` (`micro/kernels/svdf_common.cc`)."""

    rank: int = 1

    TFLITE = ("SVDF",)

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = require_count(inputs, 3, "SvdfTime")
        require_rank(x, "state", 4)
        require_rank(w, "time weights", 2)
        require_dtype(x, "state", *STATES)
        require_dtype(w, "time weights", x.dtype)
        require_dtype(b, "bias", DType.INT32)
        filters, steps = w.shape
        expected = (1, steps, 1, filters)
        require(x.shape == expected, f"state is {list(x.shape)}, must be {list(expected)}")
        require(
            self.rank > 0 and filters % self.rank == 0,
            f"rank is {self.rank}, must divide the number of filters, {filters}",
        )
        units = filters // self.rank
        require(b.shape == (units,), f"bias has shape {list(b.shape)}, must be [{units}]")
        return TensorType((1, units), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        units, filters = out.slices[1], slice(*self._filters(out))
        products = (
            (x[0, :, 0, filters].astype(np.int64).T * w[filters]).sum(axis=1).reshape(-1, self.rank)
        )
        sums = wrap_int32(products.sum(axis=1) + b[units])
        scaled = multiply(sums, *product_multiplier(site.x, site.inputs[1], site.output))
        found = np.clip(scaled + site.output.zero_point, -128, 127)
        return found.astype(np.int8).reshape(out.shape)

    def needs(self, site: Site, out: Region) -> Regions:
        filters, steps = self._filters(out), (0, site.inputs[1].shape[1])
        read = Region.of(out.intervals[0], steps, (0, 1), filters)
        return read, Region.of(filters, steps), Region.of(out.intervals[1])

    def affine(self, site: Site) -> Affines:
        filters, steps = (0, self.rank, 0), (0, 0, site.inputs[1].shape[1])
        return (
            Affine(((1, 0, 0), steps, (0, 0, 1), filters), (0, 0, 0, 0)),
            Affine((filters, steps), (0, 0)),
            Affine(((0, 1, 0),), (0,)),
        )

    def work(self, site: Site, out: Region) -> Work:
        return Work(out.elements * self.rank * site.inputs[1].shape[1], out.elements)

    def kernel(self, site: Site) -> Kernel:
        x, w, _ = site.inputs
        multiplier, shift = product_multiplier(x, w, site.output)
        return row_kernel(
            "svdf_time_s8" if x.dtype is DType.INT8 else "svdf_time_s16",
            steps=w.shape[1],
            filters=w.shape[0],
            rank=self.rank,
            out_zero=site.output.zero_point,
            multiplier=multiplier,
            shift=shift,
            constants=((1, "weights"), (2, "bias")),
        )

    def _filters(self, out: Region) -> tuple[int, int]:
        """The filters of the units in a region of the output."""
        lower, upper = out.intervals[1]
        return lower * self.rank, upper * self.rank


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite SVDF, with one sequence at a time."""
    x, w, v = node.x, node.input(1), node.input(2)
    op = SvdfTime(node.integer("rank"))
    before = _state_before(node, x, v)
    _check(node, before)
    window = Value(f"{before.name}/steps", before.type)
    if is_plain_foreign(node):
        yield from _real_queue(x, w, before, window)
        yield from _as_in_file(node.variables[STATE], window)
        yield from _real_sums(node, window, op.rank)
        return
    _check_sums(node, before)
    b = _bias(node, before.zero_point)
    yield from _queue(SvdfFeature(before.dtype), (x, w), before, window)
    yield from _as_in_file(node.variables[STATE], window)
    yield Made(op, (window, v, b), node.y)


def _real_queue(x: Value, w: Value, before: Value, window: Value) -> Nodes:
    """The nodes that compute the state after a run, as real numbers."""
    none = Value.constant(f"{before.name}/no_bias", np.zeros(w.shape[0], np.float32))
    feature = Value(f"{before.name}/filtered", TensorType((1, w.shape[0]), DType.FLOAT32))
    yield Made(PlainFullyConnected(UNLIMITED), (x, w, none), feature)
    shape = (1, 1, 1, before.shape[3])
    yield from _queue(Reshape(shape), (feature,), before, window)


def _real_sums(node: ForeignNode, window: Value, rank: int) -> Nodes:
    """The nodes that add the filtered steps, then the filters of a unit to its bias, in order.

    Source: TFLite Micro, `EvalFloatSvdfReference` (`micro/kernels/svdf_common.cc`)."""
    form = onnx_form(node, "Sum")
    real, filters = RealNodes(form), window.shape[3]
    weights = real.constant(node.constant(2).T.reshape(window.shape), "time_weights")
    products = real.apply(PlainMul(UNLIMITED), window, weights)
    sums = real.reshape(real.apply(PlainSum((1,)), products), (1, filters // rank, rank))
    given = node.optional(3)
    total = real.constant(0.0, "no_bias") if given is None else given
    for k in range(rank):
        one = real.apply(along(sums.shape, 2, k, 1), sums)
        flat = real.reshape(one, (1, filters // rank))
        total = real.apply(PlainAdd(UNLIMITED), total, flat)
    if fused_activation(node) is Activation.RELU:
        total = real.apply(PlainMaximum(), total, 0.0)
    yield from real.result(total)


def _bias(node: ForeignNode, zero: int) -> Value:
    """The bias, less the products of the time weights and the zero point of the state."""
    given = node.optional(3)
    if given is not None and not zero:
        return given
    units, filters = node.y.elements, node.input(2).shape[0]
    require(filters % units == 0, f"{filters} filters, must be a multiple of the {units} outputs")
    sums = node.constant(2).astype(np.int64).reshape(units, -1).sum(axis=1)
    bias = 0 if given is None else node.constant(3).astype(np.int64)
    type = TensorType((units,), DType.INT32)
    data = Data.of(wrap_int32(bias - zero * sums).astype(np.int32))
    return Value(f"{node.y.name}/bias", type, data)


def _state_before(node: ForeignNode, x: Value, v: Value) -> Value:
    """The state, which the file stores filter by filter (1, F * T), as (1, T, 1, F): one row for
    each time step."""
    require_rank(x.type, "input", 2)
    require_rank(v.type, "time weights", 2)
    if x.shape[0] != 1:
        raise node.unsupported(
            f"the batch is {x.shape[0]}, must be 1",
            help="convert the model with a batch of 1, for one sequence at a time",
        )
    state = node.state(STATE)
    filters, steps = v.shape
    require(
        state.shape == (1, filters * steps),
        f"the state has shape {list(state.shape)}, must be {[1, filters * steps]}",
    )
    return state.with_shape((1, steps, 1, filters))


def _check(node: ForeignNode, state: Value) -> None:
    activation = fused_activation(node)
    if activation not in (Activation.NONE, Activation.RELU):
        raise node.unsupported(f"fused activation {activation.name}, must be NONE or RELU")
    rank, filters = node.integer("rank"), node.input(2).shape[0]
    require(
        rank > 0 and filters % rank == 0,
        f"rank is {rank}, must divide the number of filters, {filters}",
    )
    for k, role in ((1, "feature weights"), (2, "time weights")):
        node.constant(k)
        require_rank(node.input(k).type, role, 2)
        if is_plain_foreign(node):
            require_dtype(node.input(k).type, role, DType.FLOAT32)
            continue
        require_quantised(node.input(k).type, role)
        require(node.input(k).zero_point == 0, f"{role} have a zero point, must have none")
    if is_plain_foreign(node):
        require_dtype(state.type, "the state", DType.FLOAT32)
    else:
        require_quantised(state.type, "the state")


def _check_sums(node: ForeignNode, state: Value) -> None:
    """Raises UnsupportedError if sums of the inputs may overflow int32, or if a scaled sum may."""
    x, w, v = (node.input(k).type for k in range(3))
    scales = channel_multipliers(x, w, state.type, 1)
    require_fitting_sums(x, node.constant(1), np.zeros(w.shape[0], np.int32), 0, scales)
    real = state.scale * v.scale / node.y.scale
    dtype, zero = state.dtype, state.zero_point
    largest_step = max(zero - dtype.lower, dtype.upper - 1 - zero)
    most = np.abs(node.constant(2).astype(np.int64)).sum(axis=1).max() * largest_step
    bias = 0 if node.optional(3) is None else np.abs(node.constant(3).astype(np.int64)).max()
    largest = int(most) * node.integer("rank") + int(bias)
    # Sums wrap around, so none is larger than int32 holds.
    fitting_multiplier(real, min(largest, 2**31 - 1))


def _queue(feature: Op, inputs: Values, before: Value, window: Value) -> Nodes:
    """The nodes that compute the state after a run: `window`, the last steps and a new one, which
    `feature` computes."""
    _, steps, _, filters = before.shape
    if steps == 1:
        yield Made(feature, inputs, window, assigns=STATE, before=before)
        return
    new = before.shaped(f"{before.name}/feature", (1, 1, 1, filters))
    kept = before.shaped(f"{before.name}/kept", (1, steps - 1, 1, filters))
    yield Made(feature, inputs, new)
    yield Made(along(before.shape, 1, 1, steps - 1), (before,), kept)
    yield Made(Concatenation(1), (kept, new), window, assigns=STATE, before=before)


def _as_in_file(stored: Value, window: Value) -> Nodes:
    """The state after a run as the file stores it, for comparison with ground truth.  Nothing reads
    it, so it is not part of the compiled network."""
    _, steps, _, filters = window.shape
    by_filter = window.shaped(f"{stored.name}/by_filter", (1, filters, 1, steps))
    yield Made(Transpose((0, 3, 2, 1)), (window,), by_filter)
    after = replace(stored, name=f"{stored.name}/after")
    yield Made(Reshape(stored.shape), (by_filter,), after)
