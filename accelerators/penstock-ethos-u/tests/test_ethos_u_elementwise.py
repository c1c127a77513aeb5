"""Law: element-wise operations of Vela's API, run by the functional model, are TFLite's arithmetic
on the same elements; so are tables, and copies move bytes."""

from __future__ import annotations

from fractions import Fraction
from math import frexp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethos_u_judge import half_away, limited, scaled
from ethos_u_layers import CONSTANTS, MAPS, Stage, accelerators, api, compared, layouts
from strategies import seeds

SHARED, TABLES = (1 << 8) | 3, {"ethos-u55-32": 14, "ethos-u55-64": 14, "ethos-u55-128": 22}
"""The region that stands for shared memory; KiB at which tables begin, else 46."""


def quantised(factor: float) -> tuple[int, int]:
    """TFLite's multiplier and shift of a factor, as a scale and a shift to the right."""
    mantissa, exponent = frexp(factor)
    scale = half_away(Fraction(mantissa) * 2**31)
    if scale == 2**31:
        scale, exponent = scale // 2, exponent + 1
    return scale, 31 - exponent


def shapes(data: st.DataObject) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Of the first input and output, and of the second input, which has axes of one at random."""
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 36)))
    height, width, depth = (data.draw(st.sampled_from((1, size))) for size in shape)
    return shape, (height, width, depth)


def binary(
    stage: Stage, data: st.DataObject, kind: str, dtype: str, of: Any, output: str | None = None
) -> Any:
    """An operation on two maps of a type; `of` are zero points and scales of inputs and output."""
    shape, other = shapes(data)
    op = api.NpuElementWiseOperation(api.NpuElementWiseOp[kind])
    op.ifm = stage.map(shape, dtype, data.draw(layouts), *of[0])
    op.ifm2 = stage.map(other, dtype, data.draw(layouts), *of[1])
    op.ofm = stage.map(shape, output or dtype, data.draw(layouts), *of[2])
    op.reversed_operands = data.draw(st.booleans())
    return op


def operands(op: Any, one: Any, two: Any, i: int, j: int, c: int) -> tuple[int, int]:
    """Elements of both, the left one first, less nothing."""
    height, width, depth = op.ifm2.shape
    both = one[i][j][c], two[min(i, height - 1)][min(j, width - 1)][min(c, depth - 1)]
    return both[::-1] if op.reversed_operands else both


@pytest.mark.parametrize("dtype", ["INT8", "UINT8", "INT16"])
@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_a_sum_or_difference(
    kind: str, dtype: str, data: st.DataObject, accelerator: str, seed: int
) -> None:
    """TFLite's: both operands shifted left, scaled to twice the greater scale, then to the
    output's."""
    stage = Stage(accelerator, seed)
    shift = 15 if dtype == "INT16" else 20
    zeros = st.just(0) if dtype == "INT16" else st.integers(0, 100)
    one_scale = st.integers(1, 4096).map(lambda n: n / 4096)
    of = data.draw(st.tuples(*[st.tuples(zeros, one_scale)] * 3))
    if data.draw(st.booleans()):
        of = (of[0], (of[1][0], of[0][1]), of[2])
    op = binary(stage, data, kind, dtype, of)
    one, two = stage.filled(op.ifm), stage.filled(op.ifm2)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    zeros_of = [zero for zero, _ in of]
    scales = [scale for _, scale in of]
    most = 2 * max(scales[:2])
    factors = [quantised(scale / most) for scale in scales[:2]]
    final = quantised(most / (2**shift * scales[2]))
    limits = op.ofm.data_type
    height, width, depth = op.ifm2.shape

    def element(i: int, j: int, c: int) -> int:
        a = one[i][j][c], two[min(i, height - 1)][min(j, width - 1)][min(c, depth - 1)]
        left, right = (scaled((a[k] - zeros_of[k]) << shift, *factors[k], "TFL") for k in range(2))
        if op.reversed_operands:
            left, right = right, left
        total = left + right if kind == "ADD" else left - right
        value = scaled(total, *final, "TFL") + zeros_of[2]
        return limited(value, limits.min_value(), limits.max_value())

    compared(stage, op.ofm, element)


@pytest.mark.parametrize("dtype", ["INT8", "UINT8", "INT16"])
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_a_product(dtype: str, data: st.DataObject, accelerator: str, seed: int) -> None:
    stage = Stage(accelerator, seed)
    zeros = st.just(0) if dtype == "INT16" else st.integers(0, 100)
    a, b, out = (data.draw(zeros) for _ in range(3))
    op = binary(stage, data, "MUL", dtype, ((a, 1.0), (b, 1.0), (out, 1.0)))
    op.rescale = data.draw(st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(31, 50)))
    one, two = stage.filled(op.ifm), stage.filled(op.ifm2)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    limits = op.ofm.data_type
    zero = (b, a) if op.reversed_operands else (a, b)

    def element(i: int, j: int, c: int) -> int:
        left, right = operands(op, one, two, i, j, c)
        value = scaled((left - zero[0]) * (right - zero[1]), *op.rescale, "TFL") + out
        return limited(value, limits.min_value(), limits.max_value())

    compared(stage, op.ofm, element)


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "MIN", "MAX", "SHR", "SHL"])
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_whole_numbers_of_32_bits(
    kind: str, data: st.DataObject, accelerator: str, seed: int
) -> None:
    stage = Stage(accelerator, seed)
    none = (0, None)
    op = binary(stage, data, kind, "INT32", (none, none, none))
    if kind in ("SHR", "SHL"):
        op.reversed_operands = False
    op.rounding_mode = data.draw(st.sampled_from(tuple(api.NpuRoundingMode)))
    one, two = (stage.rng.integers(-(1 << 30), 1 << 30, tuple(m.shape)) for m in (op.ifm, op.ifm2))
    if kind in ("SHR", "SHL"):
        two = two % 16
    one, two = stage.filled(op.ifm, one.tolist()), stage.filled(op.ifm2, two.tolist())
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()

    def element(i: int, j: int, c: int) -> int:
        left, right = operands(op, one, two, i, j, c)
        value = {
            "ADD": lambda: left + right,
            "SUB": lambda: left - right,
            "MUL": lambda: left * right,
            "MIN": lambda: min(left, right),
            "MAX": lambda: max(left, right),
            "SHR": lambda: scaled(left, 1, right, op.rounding_mode.name),
            "SHL": lambda: left * 2**right,
        }[kind]()
        return limited(value, -(1 << 31), (1 << 31) - 1)

    compared(stage, op.ofm, element)


@pytest.mark.parametrize("kind", ["MIN", "MAX", "ABS", "LRELU", "CLZ"])
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_other_functions(kind: str, data: st.DataObject, accelerator: str, seed: int) -> None:
    stage = Stage(accelerator, seed)
    dtype = "INT32" if kind == "CLZ" else data.draw(st.sampled_from(("INT8", "INT16")))
    zero = data.draw(st.integers(-20, 20)) if dtype == "INT8" else 0
    alpha = data.draw(st.integers(1, 1023)) / 1024
    scale = 1.0 if kind == "ABS" else alpha if kind == "LRELU" else None
    op = binary(stage, data, kind, dtype, ((zero, None), (zero, None), (zero, scale)))
    if kind in ("ABS", "LRELU", "CLZ"):
        op.ifm2, op.reversed_operands = None, False
    one = stage.filled(op.ifm)
    two = stage.filled(op.ifm2) if op.ifm2 else None
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    limits = op.ofm.data_type
    factor = quantised(alpha)

    def element(i: int, j: int, c: int) -> int:
        x = one[i][j][c] - zero
        if kind in ("MIN", "MAX"):
            left, right = operands(op, one, two, i, j, c)
            x = (min if kind == "MIN" else max)(left, right) - zero
        elif kind == "ABS":
            x = abs(x)
        elif kind == "LRELU":
            x = scaled(x, *factor, "TFL") if x < 0 else x
        else:
            x = f"{x & 0xFFFFFFFF:032b}1".index("1")
        return limited(x + zero, limits.min_value(), limits.max_value())

    compared(stage, op.ofm, element)


@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_a_number_for_the_second_input(data: st.DataObject, accelerator: str, seed: int) -> None:
    stage = Stage(accelerator, seed)
    op = binary(stage, data, "SUB", "INT8", ((3, None), (5, None), (7, None)))
    op.ifm2_scalar = float(data.draw(st.integers(-100, 100)))
    one = stage.filled(op.ifm)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()

    def element(i: int, j: int, c: int) -> int:
        both = one[i][j][c] - 3, int(op.ifm2_scalar)
        left, right = both[::-1] if op.reversed_operands else both
        return limited(left - right + 7, -128, 127)

    compared(stage, op.ofm, element)


@pytest.mark.parametrize(("dtype", "output"), [("INT8", "INT8"), ("UINT8", "UINT8"),
                                               ("INT8", "INT32"), ("INT16", "INT16")])  # fmt: skip
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_a_table_brought_by_a_copy(
    dtype: str, output: str, data: st.DataObject, accelerator: str, seed: int
) -> None:
    """With 16 bits, entries are 128 apart, and lines between them."""
    stage = Stage(accelerator, seed)
    size = {"INT8": 256, "UINT8": 256, "INT32": 1024, "INT16": 2048}[output]
    slot = data.draw(st.integers(0, 2048 // size - 1)) * size // 256
    table = drawn_table(stage, output, size)
    begin = 1024 * TABLES.get(accelerator, 46) + 256 * slot
    source = stage.constant(table.tobytes())
    stage.add(api.NpuDmaOperation(source, api.NpuAddressRange(SHARED, begin, size)))
    op = binary(stage, data, "ADD", dtype, ((0, None), (0, None), (0, None)), output)
    op.ifm2_scalar, op.reversed_operands = 0.0, False
    op.activation = api.NpuActivation(api.NpuActivationOp.TABLE_LOOKUP)
    op.activation.lookup_table_index = slot
    image = stage.filled(op.ifm)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    least = op.ifm.data_type.min_value()
    entries = table.view({"INT8": "i1", "UINT8": "u1", "INT32": "<i4", "INT16": "<u4"}[output])

    def element(i: int, j: int, c: int) -> int:
        x = image[i][j][c]
        if output != "INT16":
            return int(entries[x - least])
        step, within = divmod(x - least, 128)
        base, slope = (int(entries[step]) >> 16 * k & 0xFFFF for k in range(2))
        base, slope = (n - 65536 if n >= 32768 else n for n in (base, slope))
        return base + (slope * within + 64) // 128

    compared(stage, op.ofm, element)


def drawn_table(stage: Stage, output: str, size: int) -> Any:
    """Bytes of a table; with 16 bits, of bases and slopes that do not leave them."""
    if output == "INT16":
        return stage.rng.integers(-(1 << 14), 1 << 14, size // 2, dtype="<i2").view("u1")
    return stage.rng.integers(0, 256, size, dtype="u1")


@given(data=st.data(), seed=seeds)
def test_a_copy(data: st.DataObject, seed: int) -> None:
    stage = Stage(seed=seed)
    content = bytes(stage.rng.integers(0, 256, 16 * data.draw(st.integers(1, 20)), dtype="u1"))
    source = stage.constant(content)
    at = stage.room(MAPS, len(content))
    stage.add(api.NpuDmaOperation(source, api.NpuAddressRange(MAPS, at, len(content))))
    done = stage.run()
    assert bytes(stage.regions[MAPS][at : at + len(content)]) == content
    assert done.operations == {"dma": 1}
    assert done.bytes_read == {CONSTANTS: len(content)}
    assert done.bytes_written == {MAPS: len(content)}
