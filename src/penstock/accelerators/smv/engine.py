"""The engine: what each function of its driver does, on three scratchpads, and how long it takes.

Every access is checked against the size of its scratchpad.  smv.c does the same in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from penstock.accelerators.smv.tiles import CHANNELS_AT_ONCE, COPIES, OUTPUTS_AT_ONCE
from penstock.uma import Array, Driver, multiply, requantise

INPUT, WEIGHTS, OUTPUT = range(3)
MAX, AVERAGE = range(2)
POISON = 0xA5
"""What lies in a scratchpad before anything is loaded."""

Sums = NDArray[np.int64]


class Engine:
    """Three scratchpads, and what the functions that set numbers have set."""

    def __init__(self, sizes: tuple[int, int, int]) -> None:
        self.memories = [np.full(size, POISON, np.uint8) for size in sizes]
        self.window, self.numbers, self.terms = Window(), Numbers(), Terms()
        self.pitches = Pitches()

    def tile(self, memory: int, at: int, shape: tuple[int, ...], pitches: tuple[int, ...]) -> Array:
        """Elements, `pitches` bytes apart.  Raises IndexError where they leave the memory."""
        content = self.memories[memory].view(np.int8)
        if 0 in shape:
            return np.zeros(shape, np.int8)
        end = at + sum((n - 1) * p for n, p in zip(shape, pitches, strict=True)) + 1
        if min(at, *pitches) < 0 or end > content.size:
            name = ("inputs", "weights", "outputs")[memory]
            raise IndexError(f"bytes [{at}, {end}) of the {content.size} bytes of {name}")
        return as_strided(content[at:], shape, pitches)

    def sums(self, at: int, shape: tuple[int, int, int]) -> Array:
        """The bytes of the sums of a tile of outputs: (rows, columns, channels, 4)."""
        pitches = (self.pitches.y_row, self.pitches.y_column, 4, 1)
        return self.tile(OUTPUT, at, (*shape, 4), pitches)

    def outputs(self, at: int, shape: tuple[int, int, int]) -> Array:
        """The elements of a tile of outputs."""
        return self.tile(OUTPUT, at, shape, (self.pitches.y_row, self.pitches.y_column, 1))

    def scales(self, at: int, count: int, dtype: DTypeLike) -> Array:
        """Biases, multipliers or shifts."""
        raw = self.tile(WEIGHTS, at, (count * np.dtype(dtype).itemsize,), (1,))
        return np.ascontiguousarray(raw).view(dtype).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves; elements."""

    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """Zero points, and the range of the outputs."""

    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class Pitches:
    """Bytes from a row, column or output to the next, of tiles: x and a of inputs, w of weights, b
    of second inputs, y of outputs."""

    x_row: int = 0
    x_column: int = 0
    w_output: int = 0
    w_tap: int = 0
    y_row: int = 0
    y_column: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """Multipliers of sums and products of two tensors: of each, and of the result."""

    zero0: int = 0
    zero1: int = 0
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    sign1: int = 1
    out_multiplier: int = 0
    out_shift: int = 0


def load(
    engine: Engine, memory: int, to: int, source: Array, runs: int, run_bytes: int,
    source_pitch: int, pitch: int, chained: int,
) -> None:  # fmt: skip
    """Copies runs of bytes from memory; `chained`: together with the copy before."""
    del chained
    tile = engine.tile(memory, to, (runs, run_bytes), (pitch, 1))
    tile[:] = _strided(source, runs, run_bytes, source_pitch).view(np.int8)


def store(
    engine: Engine, target: Array, at: int, runs: int, run_bytes: int,
    target_pitch: int, pitch: int, chained: int,
) -> None:  # fmt: skip
    """Copies runs of bytes of outputs to memory."""
    del chained
    tile = engine.tile(OUTPUT, at, (runs, run_bytes), (pitch, 1))
    _strided(target, runs, run_bytes, target_pitch)[:] = tile.view(np.uint8)


def _strided(content: Array, runs: int, run_bytes: int, pitch: int) -> Array:
    """Runs of bytes.  Raises IndexError where they leave the memory."""
    if (runs - 1) * pitch + run_bytes > content.size:
        raise IndexError(f"{runs} runs of {run_bytes} bytes, {pitch} apart, leave the memory")
    return as_strided(content, (runs, run_bytes), (pitch, 1))


def conv2d(
    engine: Engine, x: int, in_h: int, in_w: int, pad_top: int, pad_left: int, depth: int,
    kernel_h: int, kernel_w: int, w: int, bias: int, multiplier: int, shift: int,
    y: int, y_first: int, out_h: int, out_w: int, outputs: int, accumulate: int, finish: int,
) -> None:  # fmt: skip
    """Products of a tile, summed up: with the sums before, where `accumulate` says so, else with
    biases; requantised where `finish` does."""
    pitches, window = engine.pitches, engine.window
    image = engine.tile(INPUT, x, (in_h, in_w, depth), (pitches.x_row, pitches.x_column, 1))
    taps = engine.tile(
        WEIGHTS, w, (outputs, kernel_h, kernel_w, depth),
        (pitches.w_output, kernel_w * pitches.w_tap, pitches.w_tap, 1),
    )  # fmt: skip
    shape = (out_h, out_w, outputs)
    products = np.zeros(shape)
    if 0 not in (*image.shape, *shape):
        # Doubles hold every sum exactly: products are below 2**15, and there are fewer than 2**38.
        centred = image.astype(np.float64) - engine.numbers.in_zero
        factors = taps.astype(np.float64)
        for k in range(kernel_h):
            rows = _taps(out_h, window.stride_h, k * window.dilation_h - pad_top, in_h)
            for l in range(kernel_w):  # noqa: E741
                columns = _taps(out_w, window.stride_w, l * window.dilation_w - pad_left, in_w)
                inside = rows[1][:, None, None] & columns[1][:, None]
                products += (centred[rows[0][:, None], columns[0]] * inside) @ factors[:, k, l].T
    _finish(engine, products.astype(np.int64), (bias, multiplier, shift, y, y_first),
            bool(accumulate), bool(finish))  # fmt: skip


def fully_connected(
    engine: Engine, x: int, rows: int, depth: int, w: int, bias: int, multiplier: int, shift: int,
    y: int, y_first: int, outputs: int, accumulate: int, finish: int,
) -> None:  # fmt: skip
    """Products of rows of inputs and outputs' weights, as conv2d does them."""
    pitches = engine.pitches
    vectors = engine.tile(INPUT, x, (rows, depth), (pitches.x_row, 1))
    weights = engine.tile(WEIGHTS, w, (outputs, depth), (pitches.w_output, 1))
    centred = vectors.astype(np.int64) - engine.numbers.in_zero
    products = (centred @ weights.astype(np.int64).T)[:, None]
    _finish(engine, products, (bias, multiplier, shift, y, y_first),
            bool(accumulate), bool(finish))  # fmt: skip


def pool(
    engine: Engine, kind: int, x: int, in_h: int, in_w: int, pad_top: int, pad_left: int,
    kernel_h: int, kernel_w: int, y: int, out_h: int, out_w: int, channels: int,
) -> None:  # fmt: skip
    """The largest element under a window, or the mean of those that are no padding."""
    pitches, window, numbers = engine.pitches, engine.window, engine.numbers
    image = engine.tile(INPUT, x, (in_h, in_w, channels), (pitches.x_row, pitches.x_column, 1))
    found = engine.outputs(y, (out_h, out_w, channels))
    for i in range(out_h):
        rows = _under(i, window.stride_h, pad_top, kernel_h, in_h)
        for j in range(out_w):
            columns = _under(j, window.stride_w, pad_left, kernel_w, in_w)
            under = image[rows, columns].astype(np.int64).reshape(-1, channels)
            value = under.max(0, initial=-128) if kind == MAX else _mean(under)
            found[i, j] = np.clip(value, numbers.least, numbers.most)


def add(engine: Engine, a: int, b: int, y: int, rows: int, columns: int, channels: int) -> None:
    """Sums or differences of two tensors' elements."""
    terms, numbers = engine.terms, engine.numbers
    left, right = _pair(engine, a, b, (rows, columns, channels))
    sums = multiply(left << 20, terms.multiplier0, terms.shift0) + terms.sign1 * multiply(
        right << 20, terms.multiplier1, terms.shift1
    )
    engine.outputs(y, (rows, columns, channels))[:] = requantise(
        sums, terms.out_multiplier, terms.out_shift, numbers.out_zero, (numbers.least, numbers.most)
    )


def mul(engine: Engine, a: int, b: int, y: int, rows: int, columns: int, channels: int) -> None:
    """Products of two tensors' elements."""
    terms, numbers = engine.terms, engine.numbers
    left, right = _pair(engine, a, b, (rows, columns, channels))
    engine.outputs(y, (rows, columns, channels))[:] = requantise(
        left * right, terms.out_multiplier, terms.out_shift, numbers.out_zero,
        (numbers.least, numbers.most),
    )  # fmt: skip


def set_window(engine: Engine, *values: int) -> None:
    """How windows move from here on."""
    engine.window = Window(*values)


def set_numbers(engine: Engine, *values: int) -> None:
    """Zero points and range from here on."""
    engine.numbers = Numbers(*values)


def set_pitches(engine: Engine, *values: int) -> None:
    """How tiles lie from here on."""
    engine.pitches = Pitches(*values)


def set_terms(engine: Engine, *values: int) -> None:
    """Multipliers of sums and products from here on."""
    engine.terms = Terms(*values)


def _taps(count: int, stride: int, offset: int, extent: int) -> tuple[Sums, NDArray[np.bool_]]:
    """By output, the element under a tap, and whether it is one, not padding."""
    at = np.arange(count) * stride + offset
    return at.clip(0, extent - 1), (at >= 0) & (at < extent)


def _under(index: int, stride: int, pad: int, size: int, extent: int) -> slice:
    """The elements under a window."""
    lower = index * stride - pad
    return slice(max(lower, 0), max(0, min(lower + size, extent)))


def _mean(under: Sums) -> Sums:
    """The mean over the first axis, ties away from zero."""
    count, total = len(under), under.sum(0)
    half = count // 2
    return np.where(total > 0, (total + half) // count, -((half - total) // count))


def _pair(engine: Engine, a: int, b: int, shape: tuple[int, int, int]) -> tuple[Sums, Sums]:
    """Elements of two tiles of inputs, less their zero points."""
    pitches, terms = engine.pitches, engine.terms
    left = engine.tile(INPUT, a, shape, (pitches.x_row, pitches.x_column, 1))
    right = engine.tile(INPUT, b, shape, (pitches.w_output, pitches.w_tap, 1))
    return left.astype(np.int64) - terms.zero0, right.astype(np.int64) - terms.zero1


def _finish(
    engine: Engine, products: Sums, places: tuple[int, int, int, int, int],
    accumulate: bool, finish: bool,
) -> None:  # fmt: skip
    """Adds what was summed up before, or biases; leaves sums, or elements."""
    bias, multiplier, shift, y, first = places
    rows, columns, outputs = products.shape
    shape, numbers = (rows, columns, outputs), engine.numbers
    if accumulate:
        before = np.ascontiguousarray(engine.sums(y + 4 * first, shape)).view(np.int32)
        totals = products + before[..., 0]
    else:
        totals = products + engine.scales(bias, outputs, np.int32)
    if not finish:
        engine.sums(y + 4 * first, shape)[:] = (
            totals.astype(np.int32).view(np.int8).reshape(*shape, 4)
        )
        return
    engine.outputs(y + first, shape)[:] = requantise(
        totals,
        engine.scales(multiplier, outputs, np.int32),
        engine.scales(shift, outputs, np.int8),
        numbers.out_zero,
        (numbers.least, numbers.most),
    )


def _copy_cycles(runs: int, run_bytes: int, pitch: int, chained: int) -> float:
    """Runs that touch each other in memory are one."""
    apart = 1 if pitch == run_bytes else runs
    set_up = 0 if chained else COPIES.per_copy
    return set_up + COPIES.per_run * apart + runs * run_bytes / COPIES.bytes_per_cycle


def _sum_cycles(positions: int, taps: int, depth: int, outputs: int) -> float:
    """A cycle each for 8 outputs and 32 channels, and one to load the weights' registers."""
    return -(-outputs // OUTPUTS_AT_ONCE) * taps * -(-depth // CHANNELS_AT_ONCE) * (positions + 1)


def _elementwise_cycles(a: int, b: int, y: int, rows: int, columns: int, channels: int) -> float:
    """Eight elements a cycle."""
    del a, b, y
    return rows * columns * -(-channels // OUTPUTS_AT_ONCE)


MODELS: Mapping[str, tuple[Callable[..., None], Callable[..., float] | None]] = {
    "window": (set_window, None),
    "numbers": (set_numbers, None),
    "pitches": (set_pitches, None),
    "terms": (set_terms, None),
    "load": (load, lambda *a: _copy_cycles(a[3], a[4], a[5], a[7])),
    "store": (store, lambda *a: _copy_cycles(a[2], a[3], a[4], a[6])),
    "conv2d": (conv2d, lambda *a: _sum_cycles(a[14] * a[15], a[6] * a[7], a[5], a[16])),
    "fully_connected": (fully_connected, lambda *a: _sum_cycles(a[1], 1, a[2], a[9])),
    "pool": (pool, lambda *a: a[6] * a[7] * a[9] * a[10] * -(-a[11] // OUTPUTS_AT_ONCE)),
    "add": (add, _elementwise_cycles),
    "mul": (mul, _elementwise_cycles),
}
"""By function: what it does, and its cycles by its arguments."""


@lru_cache(maxsize=16)
def drivers(engine: str, sizes: tuple[int, int, int]) -> Mapping[str, Driver]:
    """The driver's functions by name, for scratchpads of some sizes."""
    device = partial(Engine, sizes)
    return {
        name: Driver(f"smv_{name}", engine, model, device, cycles)
        for name, (model, cycles) in MODELS.items()
    }
