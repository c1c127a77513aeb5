"""Runs of pixels instead of rows: what cascades would need if pixels were live one by one.

    python -m benchmarks.pixel_runs [FOLDER] [--network NAME ...] [--limit F] [--run PIXELS]

For each network, with streamed input, the search for cascades runs with the pixels of an image in
raster order in place of its rows: a call computes up to --run pixels. It searches the graph of the
fastest schedule: the network's, or an alternative, such as one with channel groups. The table has
the least live bytes of both, with estimated cycles, and for the schedules over pixels that those
over rows, with bands and chains up to F, do not dominate: how many they are, and the most bytes
that one of them saves over the least one of these that is as fast. A call costs its overhead and
that of a row, and the pixels cost as much as in whole rows. They are assumed to be stored without
gaps.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock import api
from penstock.ir.graph import Value
from penstock.ir.op import row_axis
from penstock.ir.region import Region
from penstock.pareto import near_frontier
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.search import band_source, cost_model_and_memories, schedule
from penstock.scheduling.bands.conditions import computes_columns
from penstock.scheduling.cascades.proposals import proposals
from penstock.scheduling.cascades.uniform_search import UniformSearch
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.rows import RowPart, RowParts, RowRead, Storage
from penstock.scheduling.options import Options

NETWORKS = (
    "vww_96_int8",
    "person_detect",
    "pretrainedResnet_quant",
    "pretrainedResnet_large_int8",
    "rand_mobilenet_v1_0.25_128_int8",
    "rand_mobilenet_v2_0.35_144_int8",
    "kws_ref_model",
    "rand_mobilenet_v1_1.0_224_int8",
)


@dataclass(frozen=True, slots=True)
class Pixels:
    """Replaces rows by pixels in the tables of parts.

    images: the image of each storage whose rows become pixels, by index of the storage.
    """

    parts: Parts
    images: dict[int, Value]

    @staticmethod
    def of(parts: Parts) -> Pixels:
        """The pixels of all images of a batch of one that are stored row by row."""
        values = {value.name: value for value in parts.graph.variables()}
        found: dict[int, Value] = {}
        for k, storage in enumerate(parts.rows.storages):
            shape = values[storage.name].type.shape
            if len(shape) == 4 and (1, storage.rows) == shape[:2] and not storage.accumulates:
                found[k] = values[storage.name]
        return Pixels(parts, found)

    def rows(self) -> RowParts:
        """The tables of the parts, with pixels in place of rows."""
        old = self.parts.rows
        storages = tuple(self._storage(k, storage) for k, storage in enumerate(old.storages))
        pairs = zip(self.parts.parts, old.row_parts, strict=True)
        found = tuple(self._part(part, row_part) for part, row_part in pairs)
        return replace(old, storages=storages, row_parts=found)

    def _storage(self, k: int, storage: Storage) -> Storage:
        if k not in self.images:
            return storage
        columns = self.images[k].type.shape[2]
        return replace(storage, rows=storage.rows * columns, row_bytes=storage.row_bytes // columns)

    def _part(self, part: Part, rows: RowPart) -> RowPart:
        return replace(rows, reads=tuple(self._read(part, rows, read) for read in rows.reads))

    def _read(self, part: Part, rows: RowPart, read: RowRead) -> RowRead:
        """The pixels of a storage that a part reads for each pixel, or row, of its output."""
        count = self._units(rows.written)
        total = self._units(read.storage)
        name = self.parts.rows.storages[read.storage].name
        owners = self.parts.owners
        mine = [k for k, v in enumerate(part.inputs) if v.data is None and owners[v.name] == name]
        firsts, ends = np.zeros(count, np.int64), np.full(count, total, np.int64)
        if not rows.whole:
            for n in range(count):
                pairs = [self._needs(part, k, rows, read, n) for k in mine]
                firsts[n] = min(first for first, _ in pairs)
                ends[n] = max(end for _, end in pairs)
        done = np.minimum.accumulate(firsts[::-1])[::-1]
        needed = np.maximum.accumulate(ends)
        return replace(
            read,
            needed=np.append(0, needed).astype(np.int32),
            done=np.append(done, total).astype(np.int32),
        )

    def _needs(self, part: Part, k: int, rows: RowPart, read: RowRead, n: int) -> tuple[int, int]:
        """The interval of pixels, or rows, that input `k` needs for pixel, or row, `n`."""
        shape = part.output.type.shape
        out = Region.whole(shape)
        if rows.written in self.images:
            row, column = divmod(n, shape[2])
            out = out.replace(1, (row, row + 1)).replace(2, (column, column + 1))
        else:
            axis = row_axis(len(shape))
            out = out.replace(axis, (n, n + 1))
        need, total = part.needs(out)[k], self._units(read.storage)
        if need.empty:
            return total, 0
        image = self.images.get(read.storage)
        if image is None or part.inputs[k].type.shape != image.type.shape:
            return 0, total
        (_, _), (top, bottom), (left, right), _ = need.intervals
        columns = image.type.shape[2]
        return top * columns + left, (bottom - 1) * columns + right

    def _units(self, storage: int) -> int:
        return self._storage(storage, self.parts.rows.storages[storage]).rows


@dataclass(frozen=True, slots=True)
class Point:
    """Live bytes and estimated cycles of a schedule."""

    peak_bytes: int
    cycles: int


@dataclass(frozen=True, slots=True)
class _PixelCalls:
    """A cost model in which each call also takes the cycles of a row.

    of_rows: `BandSource.row_cycles`, by name of the part.
    """

    model: CostModel
    of_rows: Mapping[str, float]

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        return self.model.work_cycles(part, memory)

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        extra = round(self.of_rows.get(part.name, 0.0))
        return self.model.call_cycles(part, memory) + extra

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        return self.model.cycles(part, stripes, memory)

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        return self.model.cold_start_cycles(part, rows, memory)


def over_pixels(parts: Parts, options: Options) -> list[Point]:
    """The Pareto-optimal schedules over pixels."""
    model, memories = cost_model_and_memories(api.request("zoo:lenet5", TARGET).target)
    pixels = replace(parts)
    pixels.__dict__["rows"] = Pixels.of(parts).rows()
    order, start = tuple(range(len(parts.parts))), memories.default_assignment
    source = band_source(api.request("zoo:lenet5", TARGET).target)
    of_rows = {
        part.name: source.row_cycles(part)
        for part in parts.parts
        if part.nodes and computes_columns(part)
    }
    calls = _PixelCalls(model, of_rows)
    search = UniformSearch(pixels, order, calls, start, options)
    inputs = sum(parts.rows.storages[k].size_bytes for k in parts.rows.inputs)
    work = sum(map(model.work_cycles, parts.parts))
    work -= round(
        sum(
            of_rows.get(part.name, 0.0) * parts.rows.storages[row_part.written].rows
            for part, row_part in zip(parts.parts, parts.rows.row_parts, strict=True)
        )
    )
    found = proposals(order, search.candidates, start, inputs)
    points = (Point(one.peak_bytes, work + one.time) for one in found)
    return near_frontier(points, lambda p: (p.peak_bytes, p.cycles), 0.0)


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pixel_runs", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    parser.add_argument("--limit", type=float, default=1.5, help="largest F of penstock's points")
    parser.add_argument("--run", type=int, default=16, help="largest number of pixels of a call")
    given = parser.parse_args(arguments)
    table = Table(title="live bytes and cycles with rows, and with runs of pixels")
    table.add_column("network")
    headings = ("rows", "cycles", "pixels", "cycles", "penstock", "cycles", "better", "saves")
    for heading in headings:
        table.add_column(heading, justify="right")
    for model in find_shared(given.folder).named(given.network or list(NETWORKS)):
        options = Options(max_recompute=given.limit)
        done = compile_request(api.request(str(model), TARGET, stream_input=True, options=options))
        schedules = done.frontier.schedules
        parts = replace(schedules[-1].assigned_parts, alternatives=())
        alike = schedule(parts, done.request.target, options).schedules
        ours = [Point(one.peak_bytes, one.cost.cycles) for one in (*schedules, *alike)]
        rows = min(
            (Point(one.peak_bytes, one.cost.cycles) for one in schedules if not one.bands),
            key=lambda point: point.peak_bytes,
        )
        pixels = over_pixels(parts, replace(options, max_stripe=given.run, max_recompute=1.0))
        saved = [
            min(p.peak_bytes for p in ours if p.cycles <= one.cycles) - one.peak_bytes
            for one in pixels
            if any(p.cycles <= one.cycles for p in ours)
        ]
        better = [size for size in saved if size > 0]
        least, own = pixels[0], min(ours, key=lambda point: point.peak_bytes)
        numbers = (rows.peak_bytes, rows.cycles, least.peak_bytes, least.cycles)
        numbers = (*numbers, own.peak_bytes, own.cycles, len(better), max(better, default=0))
        table.add_row(model.stem, *(f"{number:,}" for number in numbers))
    console().print(table)
    return 0


if __name__ == "__main__":
    entry(main)
