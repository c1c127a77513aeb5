"""Bases of recurrent layers, one output row for each time step; RealRecurrence: on int8 inputs.

    x  (1, T, B, I)      int8     row t: the inputs of step t, for each sequence of the batch
    s  (B, U)            float32  each state before step 0; the hidden state h is the last
    w  (gates * U, I)    int8     weights of the inputs, gate by gate
    r  (gates * U, U)    int8     weights of the hidden state
    b  (biases * U)      float32
    y  (1, T, B, n * U)  float32  row t: the n states after step t, computed from row t of x and
                                  row t - 1 of y

Both products with weights, less their zero point, are sums of integers, which are exact and
independent of the order of their terms: of x less its zero point, and of h as a fixed-point number.
Each sum is converted to single precision and multiplied by its scale.  All other arithmetic is
single precision, rounded after each operation (docs/decisions/0013-recurrent-layers-of-onnx.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Table,
    Tables,
    Types,
    Work,
    members,
    row_kernel,
)
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_rank,
)
from penstock.opkit.float_functions import Floats
from penstock.opkit.layers import QUAD, in_quads

FRACTION_BITS = 27
"""Bits of the fixed-point hidden state after the binary point."""
LARGEST_HIDDEN = np.float32(16 - 2**-20)
"""Hidden states beyond it, which no layer computes from smaller ones, count as this number."""
MOST_INPUTS = 2**14
"""Inputs or units of a layer.  Sums of their products fit int32 and int64, and are exact in double
precision."""


class LastChannels(OperatorDefaults):
    """Base of operators that read the last channels of the rows that a layer computes."""

    __slots__ = ()

    def needs(self, site: Site, out: Region) -> Regions:
        first = _first_channel(site)
        lower, upper = out.intervals[3]
        return (out.replace(3, (lower + first, upper + first)),)

    def affine(self, site: Site) -> Affines:
        return (Affine.diagonal((1, 1, 1, 1), offset=(0, 0, 0, _first_channel(site))),)


def _first_channel(site: Site) -> int:
    return site.x.shape[3] - site.output.shape[3]


Gates = tuple[Floats, ...]


class Recurrence(OperatorDefaults):
    """Base of recurrent layers: regions and work.

    The inputs are x (1, T, B, I), the states (B, U), weights of the inputs (gates * U, I) and of
    the hidden state (gates * U, U), and biases.  Row t of the output holds all states after step t.
    """

    __slots__ = ()
    GATES: ClassVar[int]
    STATES: ClassVar[int]

    def needs(self, site: Site, out: Region) -> Regions:
        x, *others = site.inputs
        rows, columns = out.intervals[1:3]
        read = Region.of((0, 1), rows, columns, (0, x.shape[3]))
        # Later rows find the states in the row of the output before them.
        state = Region.of(columns if rows[0] == 0 else (0, 0), (0, others[0].shape[1]))
        constants = (Region.whole(type.shape) for type in others[self.STATES :])
        return read, *((state,) * self.STATES), *constants

    def affine(self, site: Site) -> Affines:
        x, *others = site.inputs
        rows = Affine.diagonal((1, 1, 1, 0), extra=(0, 0, 0, x.shape[3]))
        return rows, *(Affine.constant(type.shape, 4) for type in others)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        _, (first, end), columns, channels = out.slices, *out.intervals[1:]
        batch = slice(*columns)
        # The previous row of the output, the last input, holds the states after the step before.
        if first > 0:
            before: Floats = inputs[len(site.inputs)][0, first - 1, batch]
            states = tuple(np.split(before, self.STATES, axis=-1))
        else:
            states = tuple(state[batch] for state in inputs[1 : 1 + self.STATES])
        rows: list[Array] = []
        with np.errstate(all="ignore"):
            for row in self.weighted(inputs[0][0, first:end, batch], site):
                states = self.step(states, row, site)
                rows.append(np.concatenate(states, axis=-1))
        return np.stack(rows)[np.newaxis, ..., slice(*channels)]

    def parameters(self) -> Params:
        """Further parameters of the kernel."""
        return ()

    def weighted(self, x: Array, site: Site) -> Floats:
        """The weighted inputs of each step, given row t of x for step t."""
        raise NotImplementedError

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        """The states after a step.

        states: those before, (B, U) each.  weighted: the inputs, (B, gates * U)."""
        raise NotImplementedError

    def work(self, site: Site, out: Region) -> Work:
        *_, w, r, _ = site.inputs
        depth = w.shape[1] + r.shape[1]
        return Work(out.elements * (self.GATES // self.STATES) * depth, out.elements)


@frozen
class RealRecurrence(Recurrence):
    """Recurrent layer: operands, regions and sums; subclasses define a step."""

    KERNEL: ClassVar[str]
    REFERENCE_ULPS = 256
    """The reference sums in single precision, in any order."""

    @property
    def biases(self) -> int:
        """Vectors of biases."""
        return self.GATES

    def bias(self, of_inputs: Array, of_hidden: Array) -> Array:
        """The biases as the operator takes them, of those of both products, (gates * U) each."""
        return of_inputs + of_hidden

    def result_type(self, inputs: Types) -> TensorType:
        name = type(self).__name__
        x, *others = require_count(inputs, self.STATES + 4, name)
        states = others[: self.STATES]
        w, r, b = inputs[1 + self.STATES :]
        require_rank(x, "input", 4)
        require_int8(x, "input")
        for state in (*states, b):
            require_dtype(state, "state or bias", DType.FLOAT32)
        for weights in (w, r):
            require_dtype(weights, "weights", DType.INT8)
            _require_weights(weights)
        one, steps, batch, depth = x.shape
        units = r.shape[-1] if r.shape else 0
        gates = self.GATES * units
        found = (*(state.shape for state in states), w.shape, r.shape, b.shape)
        shapes = (*((batch, units),) * self.STATES, (gates, depth), (gates, units))
        require(
            one == 1 and found == (*shapes, (self.biases * units,)),
            f"inputs of {name} have shapes {[list(type.shape) for type in inputs]}, which "
            "contradict each other",
        )
        require(
            max(depth, units) <= MOST_INPUTS,
            f"{name} has {depth} inputs and {units} units, at most {MOST_INPUTS} are supported",
        )
        return TensorType((1, steps, batch, self.STATES * units), DType.FLOAT32)

    def weighted(self, x: Array, site: Site) -> Floats:
        k = 1 + self.STATES
        centred = x.astype(np.int64) - site.x.zero_point
        sums = exact_sums(centred, site.constant(k), site.inputs[k])
        return sums.astype(np.float32) * input_scales(site, self.STATES)

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, depth = site.x.shape
        units, k = site.inputs[1].shape[1], 1 + self.STATES
        scales = input_scales(site, self.STATES), hidden_scales(site, self.STATES)
        found = row_kernel(
            self.KERNEL,
            members(
                batch=batch,
                in_c=depth,
                units=units,
                in_zero=site.x.zero_point,
                weight_zero=site.inputs[k].zero_point,
                recurrent_zero=site.inputs[k + 1].zero_point,
                in_step=scales[0].size > 1,
                hidden_step=scales[1].size > 1,
            ),
            self.parameters(),
            in_scales=Table.of(scales[0]),
            hidden_scales=Table.of(scales[1]),
            constants=((k, "weights"), (k + 1, "recurrent"), (k + 2, "bias")),
            recurrent=True,
        )
        scratch_bytes = self.scratch_vectors() * units * DType.INT32.size_bytes
        return replace(found, scratch_bytes=scratch_bytes)

    def scratch_vectors(self) -> int:
        """Fixed-point vectors of one sequence that the kernel keeps in its scratch memory."""
        return 1


@frozen
class PlainRecurrence(Recurrence):
    """Recurrent layer on float32: operands and regions; subclasses define a step.

        x  (1, T, B, gates * U)  float32  row t: weighted inputs of step t, with biases
        s  (B, U)                float32  each state before step 0; the hidden state is the last
        r  (gates * U, U)        float32  weights of the hidden state
        y  (1, T, B, n * U)      float32  row t: the n states after step t

    `EXTRA_MEMBER`: member of the kernel's parameters for the constants after the weights."""

    KERNEL: ClassVar[str]
    EXTRA_MEMBER: ClassVar[str] = ""
    REFERENCE_ULPS = 256
    """The reference adds in any order."""

    @property
    def extra(self) -> int:
        """Vectors of constants after the weights; 0 if there are none."""
        return 0

    def result_type(self, inputs: Types) -> TensorType:
        name = type(self).__name__
        require_count(inputs, 2 + self.STATES + (self.extra > 0), name)
        for k, each in enumerate(inputs):
            require_dtype(each, f"input {k}", DType.FLOAT32)
        require_rank(inputs[0], "input", 4)
        one, steps, batch, depth = inputs[0].shape
        units, rest = divmod(depth, self.GATES)
        expected: list[tuple[int, ...]] = [*((batch, units),) * self.STATES, (depth, units)]
        if self.extra:
            expected.append((self.extra * units,))
        require(
            one == 1 and units > 0 and not rest and [x.shape for x in inputs[1:]] == expected,
            f"inputs of {name} have shapes {[list(x.shape) for x in inputs]}, which contradict "
            "each other",
        )
        return TensorType((1, steps, batch, self.STATES * units), DType.FLOAT32)

    def weighted(self, x: Array, site: Site) -> Floats:
        return x

    def work(self, site: Site, out: Region) -> Work:
        units = site.inputs[1].shape[1]
        return Work(out.elements * (self.GATES // self.STATES) * units, out.elements)

    def kernel(self, site: Site) -> Kernel:
        batch, units = site.inputs[1].shape
        r = site.constant(1 + self.STATES)
        found = row_kernel(
            self.KERNEL,
            members(batch=batch, units=units),
            self.parameters(),
            self.tables(r),
            constants=((2 + self.STATES, self.EXTRA_MEMBER),) if self.extra else (),
            folded=(1 + self.STATES,),
            recurrent=True,
        )
        scratch_bytes = self.scratch_floats(units) * DType.FLOAT32.size_bytes
        return replace(found, scratch_bytes=scratch_bytes)

    def tables(self, r: Array) -> Tables:
        """The kernel's tables: the weights as it reads them, and others."""
        return (("recurrent", Table.of(in_quads(r[None]))),)

    def scratch_floats(self, units: int) -> int:
        """Working memory of the kernel, in floats."""
        return -(-self.GATES * units // QUAD) * QUAD


def products(x: Floats, weights: Floats) -> Floats:
    """Products (B, outputs) of vectors (B, U) and rows of weights (outputs, U), in order."""
    total = np.zeros((len(x), len(weights)), np.float32)
    for k in range(x.shape[1]):
        total += x[:, k, None] * weights[:, k]
    return total


def _require_weights(weights: TensorType) -> None:
    """Raises ModelError unless weights have one scale and zero point, or one scale for each row."""
    q = weights.quantisation
    require(q is not None, "weights have no quantisation, must have a scale")
    assert q is not None
    require(
        len(q.scales) == 1 or q.axis == 0,
        f"weights have {len(q.scales)} scales along axis {q.axis}, must have one, or one for each "
        "output along axis 0",
    )
    zeros = sorted(set(q.zero_points))
    require(
        len(q.scales) == 1 or zeros == [0],
        f"weights have {len(q.scales)} scales and zero points from {zeros[0]} to {zeros[-1]}, must "
        "have 0",
    )


def exact_sums(x: Int64s, weights: Array, type: TensorType) -> Int64s:
    """Sums of products with weights (outputs, inputs) of a type, less their zero point.

    They are below 2**53, so that doubles are exact."""
    centred = weights.astype(np.float64) - type.zero_point
    return (x.astype(np.float64) @ centred.T).astype(np.int64)


def fixed_point(hidden: Floats) -> Int64s:
    """Hidden states as fixed-point numbers, truncated; NaN counts as the smallest one."""
    # fmax ignores NaN, so that it counts as the smallest number, as in the C kernel.
    bounded = np.fmin(np.fmax(hidden, -LARGEST_HIDDEN), LARGEST_HIDDEN)
    return (bounded * np.float32(2**FRACTION_BITS)).astype(np.int64)


def hidden_products(hidden: Floats, weights: Array, type: TensorType, scales: Floats) -> Floats:
    """Scaled sums of the hidden state (B, U), with shape (B, outputs).

    type: of all weights; `weights` and `scales` may be those of some outputs."""
    return exact_sums(fixed_point(hidden), weights, type).astype(np.float32) * scales


def input_scales(site: Site, states: int) -> Floats:
    """Scales of the sums of inputs: one, or one for each row of the weights."""
    scales = np.array(_scales(site.inputs[1 + states]), np.float64)
    return (scales * site.x.scale).astype(np.float32)


def hidden_scales(site: Site, states: int) -> Floats:
    """Scales of the sums of fixed-point hidden states, likewise."""
    scales = np.array(_scales(site.inputs[2 + states]), np.float64)
    return (scales / 2**FRACTION_BITS).astype(np.float32)


def _scales(weights: TensorType) -> tuple[float, ...]:
    assert weights.quantisation is not None
    return weights.quantisation.scales
