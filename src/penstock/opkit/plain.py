"""Plain: base of element-wise operators on plain numbers, int32 or float32, without quantisation.

float32 is IEEE 754 single precision, rounded to nearest even after each operation.  No kernel adds
a product, so that compilers cannot fuse a multiplication and an addition.  int32 wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Op, Site, Table, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.elementwise import Elementwise
from penstock.opkit.elementwise_nodes import elementwise_nodes

Function = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How elements of one type are computed.

    `function`: the result, given one array per input; they broadcast.  `kernel`: the C kernel."""

    function: Function
    kernel: str


def arithmetic(
    name: str,
    *,
    int32: Callable[..., Array] | None = None,
    float32: Callable[..., Array] | None = None,
) -> Mapping[DType, Arithmetic]:
    """The arithmetic of the kernels `name`_s32 and `name`_f32, of those types that are given."""
    given = ((DType.INT32, int32, "s32"), (DType.FLOAT32, float32, "f32"))
    return {
        dtype: Arithmetic(function, f"{name}_{suffix}")
        for dtype, function, suffix in given
        if function is not None
    }


@dataclass(frozen=True, slots=True)
class Plain(Elementwise):
    """A function of `INPUTS` elements of one type."""

    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]]
    """By element type of inputs and output."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        name = type(self).__name__
        require(
            len(inputs) == self.INPUTS, f"{name} has {len(inputs)} inputs, must have {self.INPUTS}"
        )
        for k, x in enumerate(inputs):
            allowed = tuple(self.ARITHMETIC) if k == 0 else (inputs[0].dtype,)
            require_dtype(x, allowed, f"input {k}")
        shape = inputs[0].shape if self.INPUTS == 1 else broadcast.result_shape(inputs)
        return TensorType(shape, inputs[0].dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        needs = self.needs(site, out)
        parts = (x[need.slices] for x, need in zip(inputs, needs, strict=True))
        with np.errstate(all="ignore"):
            return np.asarray(self.arithmetic(site).function(*parts), site.output.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        width = (("width", y.elements // row_count(y.shape)),)
        params = width if self.INPUTS == 1 else broadcast.params(site)
        return Kernel(self.arithmetic(site).kernel, params, by_rows=True)

    def arithmetic(self, site: Site) -> Arithmetic:
        """The arithmetic for the element type of a node."""
        return self.ARITHMETIC[site.output.dtype]


@dataclass(frozen=True, slots=True)
class Clamped(Plain):
    """A function of two elements, with a clamp of its result.

    Without an activation, float32 results are clamped to finite numbers, as in the reference."""

    activation: Activation = Activation.NONE

    INPUTS = 2

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        least, most = self._bounds(site)
        found = Plain.evaluate(self, site, inputs, out)
        return np.where(found < least, least, np.where(found > most, most, found))

    def kernel(self, site: Site) -> Kernel:
        return Kernel(
            self.arithmetic(site).kernel,
            broadcast.params(site),
            tables=(("bounds", Table.of(self._bounds(site))),),
            by_rows=True,
        )

    def _bounds(self, site: Site) -> Array:
        """Smallest and largest result, both inclusive.

        Source: TFLite, `CalculateActivationRange` (kernel_util.h)."""
        dtype = site.output.dtype
        limits = np.finfo(np.float32) if dtype is DType.FLOAT32 else np.iinfo(dtype.value)
        lower, upper = self.activation.value
        least = limits.min if lower is None else lower
        most = limits.max if upper is None else upper
        return np.array([least, most], dtype.value)


def typed_nodes(node: ForeignNode, plain: Plain, quantised: Op | None) -> Iterable[Made]:
    """Nodes that apply `plain` if the output has one of its element types, else `quantised`.

    Raises UnsupportedError if the output has another element type."""
    dtype = node.output().type.dtype
    if dtype in plain.ARITHMETIC:
        return elementwise_nodes(plain, node, plain.INPUTS, dtype)
    allowed = tuple(plain.ARITHMETIC)
    require_dtype(node.output().type, (*((DType.INT8,) if quantised else ()), *allowed), "output")
    assert quantised is not None
    return elementwise_nodes(quantised, node, plain.INPUTS)
