"""Constant arrays as C text, against one number after the other."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.codegen.c_text import array_body
from penstock.ir.tensor import Array

TYPES = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.bool_)


def stupid(array: Array) -> str:
    """Number by number: 20 of one byte with a sign a line, in four columns and behind the last full
    line a line's end; or 8 others, indented, as wide as the widest."""
    narrow = array.dtype in (np.int8, np.bool_)
    texts = ["INT32_MIN" if x == -(2**31) else str(int(x)) for x in array.ravel().tolist()]
    width = 4 if narrow else max(len(text) for text in texts)
    text, per_line = "", 20 if narrow else 8
    for k, number in enumerate(texts):
        begins, ends = k % per_line == 0, k % per_line == per_line - 1
        text += ("" if narrow else "    " if begins else " ") + number.rjust(width) + ","
        if ends and (narrow or k + 1 < len(texts)):
            text += "\n"
    return text


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [1, 7, 8, 9, 16, 19, 20, 21, 40, (3, 5, 8)])
def test_random_numbers(dtype: type[np.generic], shape: int | tuple[int, ...]) -> None:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    if dtype is np.bool_:
        raw %= 2
    array = raw.view(dtype).reshape(shape)
    assert array_body(array) == stupid(array)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_every_byte(dtype: type[np.generic]) -> None:
    array = np.arange(256).astype(np.uint8).view(dtype)
    assert array_body(array) == stupid(array)


@pytest.mark.parametrize("values", [[-(2**31)], [-(2**31), 1 - 2**31, 5], [2**40, -(2**31)]])
def test_least_number(values: list[int]) -> None:
    assert array_body(np.array(values, np.int64)) == stupid(np.array(values, np.int64))


def test_strided_array() -> None:
    array = np.arange(60, dtype=np.int16).reshape(6, 10)[::2, ::3]
    assert array_body(array) == stupid(array)
