"""Runs portable kernels, compiled for the host, on views with arbitrary memory layouts."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.small_tensors import Sample
from c_header import RUNTIME, header
from penstock.ir.op import Kernel
from penstock.ir.tensor import Array, Region, TensorType, row_axis, row_count

Bytes = NDArray[np.uint8]
POISON = 0xA5
GUARD_BYTES = 64
GUARD_ROWS = 16
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


class CView(ctypes.Structure):
    """The C structures penstock_source and penstock_sink."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("pitch", ctypes.c_int32),
        ("ring", ctypes.c_int32),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """A memory layout of `size_bytes`: row r is at table[r], or else at (r % ring) * pitch."""

    pitch: int
    ring: int
    size_bytes: int
    table: tuple[int, ...] | None = None

    def offset(self, row: int) -> int:
        return self.table[row] if self.table is not None else row % self.ring * self.pitch


def whole(type: TensorType) -> Layout:
    """A layout with consecutive rows."""
    count = row_count(type.shape)
    return Layout(type.size_bytes // count, count, type.size_bytes)


def ring_of(type: TensorType, rows: list[int], gap_bytes: int) -> Layout:
    """The smallest ring in which `rows` do not overlap, with gaps between rows."""
    pitch = type.size_bytes // row_count(type.shape) + gap_bytes
    ring = max(rows) - min(rows) + 1 if rows else 1
    return Layout(pitch, ring, ring * pitch)


def table_of(type: TensorType, rows: list[int], rng: np.random.Generator) -> Layout:
    """Rows in random order with gaps; rows outside of `rows` share the first slot."""
    size = type.size_bytes // row_count(type.shape)
    places = {
        row: int(k) * (size + 3) for row, k in zip(rows, rng.permutation(len(rows)), strict=True)
    }
    table = tuple(places.get(row, 0) for row in range(row_count(type.shape)))
    return Layout(0, 0, max(1, len(rows)) * (size + 3), table)


def rows_of(shape: tuple[int, ...], region: Region) -> set[int]:
    """Flattened indices of the rows that a region touches."""
    if region.empty or len(shape) < 2:
        return set() if region.empty else {0}
    leading = shape[: row_axis(len(shape)) + 1]
    grid = np.arange(row_count(shape)).reshape(leading)
    return {int(r) for r in grid[region.slices[: len(leading)]].ravel()}


def row_region(shape: tuple[int, ...], row: int) -> Region:
    """The region of a single row."""
    region = Region.whole(shape)
    if len(shape) >= 2:
        leading = shape[: row_axis(len(shape)) + 1]
        for axis, index in enumerate(np.unravel_index(row, leading)):
            region = region.replace(axis, (int(index), int(index) + 1))
    return region


class Memory:
    """Bytes of poison between guard bytes that must not change."""

    def __init__(self, size_bytes: int) -> None:
        self._all: Bytes = np.full(size_bytes + 2 * GUARD_BYTES, POISON, np.uint8)
        self.bytes: Bytes = self._all[GUARD_BYTES : GUARD_BYTES + size_bytes]

    @property
    def intact(self) -> bool:
        """Whether the guard bytes are unchanged."""
        guards = np.concatenate([self._all[:GUARD_BYTES], self._all[-GUARD_BYTES:]])
        return bool((guards == POISON).all())

    @property
    def address(self) -> int:
        return self.bytes.ctypes.data


class View:
    """A tensor in memory."""

    def __init__(self, type: TensorType, layout: Layout, memory: Memory | None = None) -> None:
        self.type, self.layout = type, layout
        self.memory = memory or Memory(layout.size_bytes)
        # What lies beside the table is an offset too: a kernel that leaves it reads a wrong row.
        beside = (0,) * GUARD_ROWS
        self._table = np.array((*beside, *(layout.table or ()), *beside), np.uint32)

    @property
    def c(self) -> CView:
        table = None if self.layout.table is None else self._table[GUARD_ROWS:].ctypes.data
        return CView(self.memory.address, table, self.layout.pitch, self.layout.ring)

    def row(self, row: int) -> Bytes:
        """The bytes of a row, as a writable array."""
        size = self.type.size_bytes // row_count(self.type.shape)
        lower = self.layout.offset(row)
        return self.memory.bytes[lower : lower + size]

    def write(self, elements: Array, rows: set[int]) -> None:
        """Writes rows of a tensor into memory."""
        cells = rows_as_bytes(elements)
        for row in rows:
            self.row(row)[:] = cells[row]


def rows_as_bytes(elements: Array) -> Bytes:
    """The elements as bytes, shape (rows, bytes per row)."""
    count = row_count(elements.shape)
    return np.frombuffer(elements.tobytes(), np.uint8).reshape(count, -1)


class Library:
    """The kernels of samples, compiled into a shared library."""

    def __init__(self, names: set[str], compiler: str, folder: Path) -> None:
        source, library = folder / "kernels.c", folder / "kernels.so"
        source.write_text("".join(f'#include "{name}.h"\n' for name in sorted(names)))
        with source.open("a") as file:
            file.writelines(_caller(name) for name in sorted(names))
        flags = (*FLAGS, "-shared", "-fPIC", f"-I{RUNTIME}")
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        self._loaded = ctypes.CDLL(str(library))

    def run(
        self,
        sample: Sample,
        inputs: list[View],
        output: View,
        rows: tuple[int, int],
        kernel: Kernel | None = None,
    ) -> None:
        """Computes rows [lower, upper) of a sample's output with `kernel`, by default its portable
        one.

        `inputs`: the inputs that the kernel reads through views.
        """
        kernel = kernel or sample.op.kernel(sample.site)
        params, kept = _params(kernel, sample)
        sources = (CView * max(1, len(inputs)))(*(view.c for view in inputs))
        scratch = np.zeros(kernel.scratch_bytes + kernel.stack_bytes + 16, np.int8)
        aligned = -scratch.ctypes.data % 16
        call = getattr(self._loaded, f"call_{kernel.name}")
        pointer = ctypes.c_void_p(scratch.ctypes.data + aligned)
        call(ctypes.byref(params), sources, ctypes.byref(output.c), *rows, pointer)
        del kept  # alive until here, because the structure points into them


def _caller(name: str) -> str:
    scratch = ", scratch" if "scratch" in header(name).signature else ""
    unused = "" if scratch else "    (void)scratch;\n"
    return (
        f"void call_{name}(const struct {name} *p, const penstock_source *x, "
        f"const penstock_sink *y, int32_t lower, int32_t upper, int8_t *scratch) {{\n"
        f"{unused}    {name}(p, x, y, lower, upper{scratch});\n}}\n"
    )


def _params(kernel: Kernel, sample: Sample) -> tuple[ctypes.Structure, list[Array]]:
    """The parameter structure and the arrays that it points to; the caller keeps these alive."""
    members = header(kernel.name).members
    fields = [
        (name, ctypes.c_int32 if type == "int32_t" else ctypes.c_void_p) for type, name in members
    ]
    arrays = {name: np.array(table.array) for name, table in kernel.tables}
    arrays |= {name: np.array(sample.site.constant(k)) for k, name in kernel.constants}
    structure = type(kernel.name, (ctypes.Structure,), {"_fields_": fields})
    pointers = {name: array.ctypes.data for name, array in arrays.items()}
    return structure(**dict(kernel.params), **pointers), list(arrays.values())
