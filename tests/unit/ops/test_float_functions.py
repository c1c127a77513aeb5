"""Functions of float32: bounds of their errors, special numbers, and the C kernels bit by bit."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from c_header import RUNTIME
from penstock.opkit import float_functions as functions
from penstock.opkit.float_functions import Floats

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-149, -(2.0**-149), 2.0**-126, 3.4e38,
     -3.4e38, 0.5, 1.5, 2.5, -0.5, -1.5, 88.72284, 88.72283, -87.33655, -103.97, -104.1, 8388607.5,
     -8388607.5, 8388609.0, 1e-5, -1e-5, -9.0, 16.7, -0.34375, 0.99999994, 1.0000001],
    np.float32,
)  # fmt: skip


def numbers() -> Floats:
    """Any bit pattern, and numbers that are dense where the functions change most."""
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (
        np.linspace(-105, 90, 100_000),
        np.linspace(-2, 2, 100_000),
        rng.normal(1, 1e-4, 50_000),
    )
    return np.concatenate([SPECIAL, patterns, *near]).astype(np.float32)


def exact_logistic(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


EXACT: tuple[tuple[str, Callable[[np.ndarray], np.ndarray], float], ...] = (
    ("exp", np.exp, 1.0),
    ("log", np.log, 1.0),
    ("elu", lambda x: np.where(x < 0, np.expm1(x), x), 2.0),
    ("logistic", exact_logistic, 3.0),
    ("tanh", np.tanh, 2.0),
    ("square_root", np.sqrt, 0.5),
    ("erfc", np.vectorize(math.erfc), 24.0),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "exact", "bound_ulps"), EXACT)
def test_errors_are_within_the_stated_bound(
    name: str, exact: Callable[[np.ndarray], np.ndarray], bound_ulps: float
) -> None:
    x = numbers()
    if name == "logistic":
        x = x[~(x < -9)]  # the reference replaces the function there
    if name == "erfc":
        x = x[~(x > 4)]
    real = exact(x.astype(np.float64))
    found = getattr(functions, name)(x)
    assert np.array_equal(np.isnan(found), np.isnan(real))
    normal = (np.abs(real) >= 2.0**-126) & (np.abs(real) < 2.0**128 * (1 - 2.0**-25))
    unit = np.spacing(np.abs(real[normal]).astype(np.float32)).astype(np.float64)
    assert (np.abs(found[normal] - real[normal]) <= bound_ulps * unit).all()
    small = np.abs(real) < 2.0**-126
    assert (np.abs(found[small] - real[small]) <= 2.0**-149).all()
    large = np.abs(real) >= 2.0**128
    assert np.array_equal(found[large], np.copysign(math.inf, real[large]).astype(np.float32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_log_is_within_its_bound_at_every_exponent() -> None:
    """All numbers from 1/2 to 2, where the result is small, and dense ones of every other exponent,
    subnormal numbers among them."""
    patterns = np.arange(0, 0x7F800000, 509, np.uint32), np.arange(0x3F000000, 0x40000001)
    for x in (part for each in patterns for part in np.array_split(each.astype(np.uint32), 8)):
        reals = x.view(np.float32)[1:]
        exact = np.log(reals.astype(np.float64))
        unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
        assert (np.abs(functions.log(reals) - exact) <= unit).all()


KERNELS: tuple[tuple[str, str, Callable[[Floats], Floats]], ...] = (
    ("exp", "exponential.h", functions.exp),
    ("log", "logarithm.h", functions.log),
    ("logistic", "sigmoid_f32.h", functions.logistic),
    ("tanh", "sigmoid_f32.h", functions.tanh),
    ("square_root", "square_root.h", functions.square_root),
    ("floor", "integral.h", np.floor),
    ("erfc", "complementary_error.h", functions.erfc),
    ("exp_minus_one", "exponential.h", lambda x: np.where(x < 0, functions.elu(x), np.nan)),
)
OPTIONS = (("-O0",), ("-O3", "-march=native", "-ffp-contract=fast"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_c_computes_the_same_bits(
    options: tuple[str, ...], host_compilers: tuple[str, ...], tmp_path: Path
) -> None:
    """Also where the compiler may fuse multiplications and additions."""
    source = tmp_path / "functions.c"
    lines = [f'#include "{header}"\n' for _, header, _ in KERNELS]
    lines += [
        f"void each_{name}(const float *x, float *y, int n);\n"
        f"void each_{name}(const float *x, float *y, int n) {{\n"
        f"    for (int k = 0; k < n; k++) y[k] = penstock_{name}(x[k]);\n}}\n"
        for name, _, _ in KERNELS
    ]
    source.write_text("".join(lines))
    library = tmp_path / "functions.so"
    command = (host_compilers[0], "-std=gnu11", *options, "-shared", "-fPIC", f"-I{RUNTIME}")
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    for name, _, function in KERNELS:
        x = numbers()
        if name == "exp_minus_one":
            x = x[(x < 0) & (x > -100)]
        y = np.empty_like(x)
        getattr(loaded, f"each_{name}")(
            x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), len(x)
        )
        expected = np.asarray(function(x), np.float32)
        same = (y.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(y) & np.isnan(expected))
        wrong = np.flatnonzero(~same)
        assert not len(wrong), (name, x[wrong[:3]], y[wrong[:3]], expected[wrong[:3]])
