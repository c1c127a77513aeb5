"""Law: fixed-point arithmetic is what exact rational arithmetic says, in Python and in the C that
ships, over random and extreme values."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from penstock.choices import Rounding
from penstock.fixedpoint import (
    INT32_MAX,
    INT32_MIN,
    doubling_high_multiply,
    float32,
    multiply,
    quantise_multiplier,
    round_half_away,
    rounding_shift,
    wrap_int32,
)

many = settings(max_examples=settings().max_examples * 10)
"""Single numbers are quick to judge."""

HALF = Fraction(1, 2)
edges = [k * 2**n + d for n in (0, 15, 29, 30, 31) for k in (-1, 1) for d in (-2, -1, 0, 1, 2)]
int32s = st.sampled_from([x for x in edges if INT32_MIN <= x <= INT32_MAX]) | st.integers(
    INT32_MIN, INT32_MAX
)
multipliers = st.sampled_from((0, 2**30, 2**30 + 1, 2**31 - 1)) | st.integers(2**30, 2**31 - 1)
shifts = st.integers(-31, 30)


def half_up(x: Fraction) -> int:
    return math.floor(x + HALF)


def half_away(x: Fraction) -> int:
    return half_up(x) if x >= 0 else -half_up(-x)


def wrapped(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def high_product(a: int, b: int) -> int:
    return min(half_up(Fraction(a * b, 2**31)), INT32_MAX)


def rounded_twice(x: int, multiplier: int, shift: int) -> int:
    product = high_product(wrapped(x * 2 ** max(shift, 0)), multiplier)
    return half_away(Fraction(product, 2 ** max(-shift, 0)))


def rounded_once(x: int, multiplier: int, shift: int) -> int:
    return half_up(Fraction(x * multiplier) / Fraction(2) ** (31 - shift))


def int64s(*values: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array([value], np.int64) for value in values]


@many
@given(x=st.integers(-(2**62), 2**62) | int32s)
def test_wrapping_is_modulo_two_to_the_32(x: int) -> None:
    assert wrap_int32(*int64s(x))[0] == wrapped(x)


@many
@given(a=int32s, b=int32s)
def test_the_high_multiply_is_exact(a: int, b: int) -> None:
    assert doubling_high_multiply(*int64s(a, b))[0] == high_product(a, b)


def test_the_high_multiply_saturates_where_it_overflows() -> None:
    assert doubling_high_multiply(*int64s(INT32_MIN, INT32_MIN))[0] == INT32_MAX


@many
@given(x=int32s, exponent=st.integers(0, 31))
def test_the_rounding_shift_is_exact(x: int, exponent: int) -> None:
    expected = half_away(Fraction(x, 2**exponent))
    assert rounding_shift(*int64s(x, exponent))[0] == expected


@many
@given(x=int32s, multiplier=multipliers, shift=shifts)
def test_multiplying_is_exact(x: int, multiplier: int, shift: int) -> None:
    a, b, c = int64s(x, multiplier, shift)
    assert multiply(a, b, c)[0] == rounded_twice(x, multiplier, shift)
    assert multiply(a, b, c, Rounding.SINGLE)[0] == rounded_once(x, multiplier, shift)


@many
@given(real=st.floats(0, 2**30) | st.floats(2**-34, 2**-30) | st.floats(0.5, 1))
def test_a_real_multiplier_is_held_to_31_bits(real: float) -> None:
    multiplier, shift = quantise_multiplier(real)
    held = multiplier * Fraction(2) ** (shift - 31)
    if Fraction(real) < Fraction(2) ** -32:
        assert held in (0, Fraction(2) ** -32)
    else:
        assert 2**30 <= multiplier < 2**31
        assert abs(held - Fraction(real)) <= Fraction(2) ** (shift - 32)


@many
@given(whole=st.integers(2**30, 2**31 - 1), exponent=st.integers(-31, 30))
def test_a_multiplier_between_two_rounds_up(whole: int, exponent: int) -> None:
    half = math.ldexp(whole + 0.5, exponent - 31)
    carried = (2**30, exponent + 1) if whole == 2**31 - 1 else (whole + 1, exponent)
    assert quantise_multiplier(half) == carried
    assert quantise_multiplier(math.nextafter(half, 0)) == (whole, exponent)


doubles = (
    st.floats(-(2.0**60), 2.0**60)
    | st.integers(-(2**54), 2**54).map(lambda n: n / 2)
    | st.integers(-99, 99).map(lambda n: math.nextafter(n + 0.5, 0))
)


@many
@given(x=doubles)
@example(x=math.nextafter(0.5, 0))
@example(x=2.0**52 + 1)
def test_rounding_half_away_is_exact(x: float) -> None:
    assert round_half_away(x) == half_away(Fraction(x))


@many
@given(x=st.floats(width=64, min_value=-1e30, max_value=1e30))
def test_single_precision_is_nearest(x: float) -> None:
    near = float32(x)
    spacing = Fraction(float(np.spacing(np.float32(near))))
    assert abs(Fraction(near) - Fraction(x)) <= abs(spacing) / 2


C_SOURCE = """
#include "fixedpoint.h"
void high_multiply(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y) {
    (void)c;
    for (int32_t i = 0; i < n; i++) y[i] = penstock_high_multiply(a[i], b[i]);
}
void rounding_shift(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y) {
    (void)c;
    for (int32_t i = 0; i < n; i++) y[i] = penstock_rounding_shift(a[i], b[i]);
}
void multiply(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y) {
    for (int32_t i = 0; i < n; i++) y[i] = penstock_multiply(a[i], b[i], c[i]);
}
void multiply_once(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y) {
    for (int32_t i = 0; i < n; i++) y[i] = penstock_multiply_once(a[i], b[i], c[i]);
}
void clamp(int32_t n, const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y) {
    for (int32_t i = 0; i < n; i++) y[i] = penstock_clamp(a[i], b[i], c[i]);
}
"""
CFunction = Callable[[str, int, int, int], int]


@pytest.fixture(scope="module")
def c_functions(
    host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[CFunction, ...]:
    """One caller of the C functions for each compiler: name and three arguments -> result."""
    folder = tmp_path_factory.mktemp("fixedpoint")
    (folder / "all.c").write_text(C_SOURCE)
    return tuple(_compiled(compiler, folder) for compiler in host_compilers)


def _compiled(compiler: str, folder: Path) -> CFunction:
    library = folder / f"{Path(compiler).name}.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC"]
    include = f"-I{files('penstock.runtime')}"
    command = [compiler, *flags, include, str(folder / "all.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))

    def call(name: str, *arguments: int) -> int:
        cells = [(ctypes.c_int32 * 1)(argument) for argument in (*arguments, 0)]
        getattr(loaded, name)(1, *cells)
        return cells[-1][0]

    return call


@many
@given(a=int32s, b=int32s)
def test_the_high_multiply_of_c_is_exact(
    c_functions: tuple[CFunction, ...], a: int, b: int
) -> None:
    assume(not a == b == INT32_MIN)  # excluded by the header's contract
    assert {c("high_multiply", a, b, 0) for c in c_functions} == {high_product(a, b)}


@many
@given(x=int32s, exponent=st.integers(0, 31))
def test_the_rounding_shift_of_c_is_exact(
    c_functions: tuple[CFunction, ...], x: int, exponent: int
) -> None:
    expected = half_away(Fraction(x, 2**exponent))
    assert {c("rounding_shift", x, exponent, 0) for c in c_functions} == {expected}


@many
@given(x=int32s, multiplier=multipliers, shift=shifts)
def test_multiplying_in_c_is_exact(
    c_functions: tuple[CFunction, ...], x: int, multiplier: int, shift: int
) -> None:
    twice = {c("multiply", x, multiplier, shift) for c in c_functions}
    assert twice == {rounded_twice(x, multiplier, shift)}
    once = rounded_once(x, multiplier, shift)
    if INT32_MIN <= once <= INT32_MAX:
        assert {c("multiply_once", x, multiplier, shift) for c in c_functions} == {once}


@many
@given(x=int32s, least=int32s, most=int32s)
def test_clamping_in_c_is_exact(
    c_functions: tuple[CFunction, ...], x: int, least: int, most: int
) -> None:
    least, most = sorted((least, most))
    assert {c("clamp", x, least, most) for c in c_functions} == {max(least, min(x, most))}
