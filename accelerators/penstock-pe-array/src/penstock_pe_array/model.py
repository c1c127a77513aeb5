"""model: the functional model of the array, which executes command streams and counts cycles.

`pe_array.c` does the same in C.  An access outside a buffer raises IndexError.
"""

from __future__ import annotations

import numpy as np

from penstock.uma import (
    Array,
    Driver,
    Place,
    convolved,
    elements,
    multiply,
    requantise,
    sliding_windows,
)
from penstock_pe_array.dataflow import depthwise_cycles, product_cycles, vector_cycles
from penstock_pe_array.hardware import GLOBAL_BUFFER, Buffer, Dataflow, Hardware
from penstock_pe_array.stream import (
    AddTiles,
    Configure,
    Convolve,
    ConvolveChannels,
    Load,
    Pool,
    Store,
    Tile,
    WindowTile,
    decode,
)
from penstock_pe_array.tiles import parameter_cycles, transfer_cycles
from penstock_pe_array.timeline import Bank, BufferNumber, Timeline

POISON = 0x55
"""The initial value of all bytes of the buffers."""
Bases = tuple[Array, ...]
"""The bytes at each base address of a submission."""


class PeArrayDevice:
    """The state of the array.

    hardware: its properties, which the operation `Configure` states.
    contents: the bytes of the buffers.
    cycles: the cycles that the last stream took."""

    def __init__(self) -> None:
        self.hardware = Hardware()
        self.contents: tuple[Array, ...] = ()
        self.cycles = 0.0
        self._timeline = Timeline()
        self._previous: Load[int, Place] | None = None

    def run(self, stream: bytes, bases: Bases) -> None:
        """Execute a stream."""
        self.cycles, self._timeline = 0.0, Timeline()
        for operation in decode(stream):
            match operation:
                case Configure():
                    self._configure(operation)
                case Store():
                    self._store(operation, bases)
                case Load():
                    self._load(operation, bases)
                case Convolve():
                    self._convolve(operation, bases)
                case ConvolveChannels():
                    self._convolve_channels(operation, bases)
                case Pool():
                    self._pool(operation)
                case AddTiles():
                    self._add(operation)
            self._previous = operation if isinstance(operation, Load) else None
        self.cycles += self._timeline.end

    def _configure(self, op: Configure) -> None:
        self.hardware = Hardware(
            op.rows,
            op.columns,
            Dataflow(op.dataflow),
            op.banks,
            Buffer(op.input_bytes, op.input_rate, op.input_latency),
            Buffer(op.weights_bytes, op.weights_rate, op.weights_latency),
            Buffer(op.output_bytes, op.output_rate, op.output_latency),
            op.memory_rate,
            op.memory_latency,
            op.memory_run,
            global_buffer=Buffer(0, op.global_rate, op.global_latency),
        )
        sizes = (op.input_bytes, op.weights_bytes, op.output_bytes)
        if tuple(content.size for content in self.contents) != sizes:
            self.contents = tuple(np.full(size, POISON, np.uint8) for size in sizes)
        self.cycles += self._timeline.end
        self._timeline = Timeline()

    def _part(
        self, buffer: int, at: int, shape: tuple[int, ...], pitches: tuple[int, ...]
    ) -> tuple[Array, tuple[Bank, ...]]:
        """Return elements of a buffer, int8 or, of the output buffer, sums, and their banks."""
        is_output = buffer == BufferNumber.OUTPUT
        content = self.contents[buffer].view(np.int32 if is_output else np.int8)
        if 0 in shape:
            return np.zeros(shape, content.dtype), ()
        end = at + sum((n - 1) * p for n, p in zip(shape, pitches, strict=True)) + 1
        if min(at, *pitches) < 0 or end > content.size:
            raise IndexError(f"[{at}, {end}) of {content.size} elements of buffer {buffer}")
        size = content.dtype.itemsize
        raw = content.view(np.uint8)[at * size :]
        found = elements(raw, content.dtype, *shape, pitches=[p * size for p in pitches])
        bank = content.size // self.hardware.banks
        return found, tuple((int(buffer), k) for k in range(at // bank, (end - 1) // bank + 1))

    def _load(self, op: Load[int, Place], bases: Bases) -> None:
        tile, banks = self._part(op.buffer, op.local, (op.runs, op.run_bytes), (op.local_pitch, 1))
        tile.view(np.int8)[:] = _memory(op, bases).view(np.int8)
        self._timeline.load(banks, self._transfer(op))

    def _store(self, op: Store[int, Place], bases: Bases) -> None:
        tile, banks = self._part(op.buffer, op.local, (op.runs, op.run_bytes), (op.local_pitch, 1))
        _memory(op, bases)[:] = (tile & 0xFF).astype(np.uint8)
        self._timeline.store(banks, self._transfer(op))

    def _transfer(self, op: Load[int, Place]) -> float:
        last = self._previous
        queued = last is not None and (type(last), last.buffer) == (type(op), op.buffer)
        runs = 1 if op.pitch == op.run_bytes else op.runs
        size, inside = op.runs * op.run_bytes, op.address.memory == GLOBAL_BUFFER
        return transfer_cycles(self.hardware, runs, size, inside=inside, queued=queued)

    def _convolve(self, op: Convolve[int, Place], bases: Bases) -> None:
        x, used = self._image(op, op.depth)
        w, also = self._part(
            BufferNumber.WEIGHTS,
            op.w,
            (op.out_c, op.kernel_h, op.kernel_w, op.depth),
            (op.w_output, op.kernel_w * op.w_tap, op.w_tap, 1),
        )
        y, banks = self._output(op)
        sums = np.zeros(y.shape, np.int64)
        if 0 not in (*x.shape, *y.shape):
            steps = (op.stride_h, op.stride_w), (op.dilation_h, op.dilation_w)
            before = op.pad_top, op.pad_left
            sums = convolved(x, w, (op.out_h, op.out_w), *steps, before, op.in_zero)
        if op.accumulate:
            sums = sums + y
        y[:] = self._finished(op, sums, bases) if op.finish else sums
        taps = op.kernel_h * op.kernel_w
        work = product_cycles(self.hardware, op.out_h * op.out_w, taps * op.depth, op.out_c)
        self._timeline.compute((*used, *also), banks, work)

    def _convolve_channels(self, op: ConvolveChannels[int, Place], bases: Bases) -> None:
        sources = (op.skipped + np.arange(op.out_c)) // op.per_channel
        x, used = self._image(op, int(sources[-1]) + 1 if op.out_c else 0)
        taps = op.kernel_h * op.kernel_w
        w, also = self._part(
            BufferNumber.WEIGHTS, op.w, (op.kernel_h, op.kernel_w, op.out_c),
            (op.kernel_w * op.w_tap, op.w_tap, 1),
        )  # fmt: skip
        y, banks = self._output(op)
        sums = np.zeros(y.shape, np.int64)
        if 0 not in (*x.shape, *y.shape):
            found, inside = self._windows(op, x[..., sources].astype(np.int64) - op.in_zero)
            sums = (found * inside * w.astype(np.int64)).sum((2, 3))
        y[:] = self._finished(op, sums, bases)
        work = depthwise_cycles(self.hardware, op.out_h * op.out_w, taps, op.out_c)
        self._timeline.compute((*used, *also), banks, work)

    def _pool(self, op: Pool[int, Place]) -> None:
        x, used = self._image(op, op.out_c)
        y, banks = self._output(op)
        if 0 not in y.shape:
            found, inside = self._windows(op, x.astype(np.int64))
            if op.is_mean:
                count, total = inside.sum((2, 3)), (found * inside).sum((2, 3))
                rounded = (np.abs(total) + count // 2) // count * np.sign(total)
            else:
                rounded = np.where(inside, found, -128).max((2, 3))
            y[:] = rounded.clip(op.least, op.most)
        taps = op.kernel_h * op.kernel_w
        work = vector_cycles(self.hardware, op.out_h * op.out_w, taps, op.out_c, 1)
        self._timeline.compute(used, banks, work)

    def _add(self, op: AddTiles[int, Place]) -> None:
        y, banks = self._output(op)
        x, used = self._part(BufferNumber.INPUT, op.x, y.shape, (op.x_row, op.x_column, 1))
        w, also = self._part(BufferNumber.WEIGHTS, op.w, y.shape, (op.w_row, op.w_tap, 1))
        left, right = x.astype(np.int64) - op.zero0, w.astype(np.int64) - op.zero1
        total = multiply(left << 20, op.multiplier0, op.shift0)
        total = total + multiply(right << 20, op.multiplier1, op.shift1)
        bounds = op.least, op.most
        y[:] = requantise(total, op.out_multiplier, op.out_shift, op.out_zero, bounds)
        work = vector_cycles(self.hardware, op.out_h * op.out_w, 1, op.out_c, 2)
        self._timeline.compute((*used, *also), banks, work)

    def _image(self, op: WindowTile[int, Place], channels: int) -> tuple[Array, tuple[Bank, ...]]:
        shape = (op.in_h, op.in_w, channels)
        return self._part(BufferNumber.INPUT, op.x, shape, (op.x_row, op.x_column, 1))

    def _output(self, op: Tile[int, Place]) -> tuple[Array, tuple[Bank, ...]]:
        shape = (op.out_h, op.out_w, op.out_c)
        return self._part(BufferNumber.OUTPUT, op.y, shape, (op.y_row, op.y_column, 1))

    @staticmethod
    def _windows(op: WindowTile[int, Place], image: Array) -> tuple[Array, Array]:
        return sliding_windows(
            image,
            (op.out_h, op.out_w),
            (op.kernel_h, op.kernel_w),
            (op.stride_h, op.stride_w),
            (op.dilation_h, op.dilation_w),
            (op.pad_top, op.pad_left),
        )

    def _finished(
        self,
        op: Convolve[int, Place] | ConvolveChannels[int, Place],
        sums: Array,
        bases: Bases,
    ) -> Array:
        """Return requantised sums, and count the time to read their parameters."""
        raw = bases[op.parameters.base][op.parameters.offset_bytes :]
        bias, multiplier, shift = elements(raw, np.int32, op.out_c, 3).T.astype(np.int64)
        self._timeline.parameters(parameter_cycles(self.hardware, op.out_c))
        return requantise(sums + bias, multiplier, shift, op.out_zero, (op.least, op.most))


def _memory(op: Load[int, Place], bases: Bases) -> Array:
    """Return the bytes of a copy in memory, of shape (runs, bytes of a run)."""
    raw = bases[op.address.base][op.address.offset_bytes :]
    return elements(raw, np.uint8, op.runs, op.run_bytes, pitches=(op.pitch, 1))


def submit(device: PeArrayDevice, stream: Array, size: int, *bases: Array) -> None:
    """Functional model of `pe_array_submit`: execute a stream of `size` bytes."""
    device.run(stream[:size].tobytes(), bases)


def duration(device: PeArrayDevice, *arguments: object) -> float:
    """Return the cycles of the stream that `device` has executed last."""
    del arguments
    return device.cycles


SUBMIT = Driver("pe_array_submit", "pe_array", submit, PeArrayDevice, duration)
