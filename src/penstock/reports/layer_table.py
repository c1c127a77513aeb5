"""Tables of `penstock profile`, as renderables of rich: layers, and functions of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.reports.formats import (
    ABSENT,
    extents,
    number,
    per_mac,
    percent,
    printable,
    share_or_none,
    short_names,
)
from penstock.reports.layer_report import LayerReport
from penstock.reports.row import (
    LayerRow,
    Measured,
    has_bands,
    has_floors,
    has_limits,
    has_stripes,
    rows,
)
from penstock.reports.shortened_name import ShortenedName
from penstock.reports.times import milliseconds

WIDE_COLUMNS = 100
"""A terminal of this many columns shows all figures, with names that are shortened little."""


class LayerOrder(StrEnum):
    """What `profile` sorts layers by: their step, or a figure, the largest first."""

    STEP = "step"
    CYCLES = "cycles"
    MACS = "macs"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """Which layers a table shows, in which order, and with how many columns.

    order: what the layers are sorted by; by default the step, or the cycles if `top` is given.
    top: number of layers that are shown; None for all.
    verbose: whether stripes and instructions are shown.
    """

    order: LayerOrder | None = None
    top: int | None = None
    verbose: bool = False

    def of(self, lines: Sequence[LayerRow]) -> Sequence[LayerRow]:
        """Return the selected rows. Layers with equal figures remain in the order of steps."""
        order = self.order or (LayerOrder.STEP if self.top is None else LayerOrder.CYCLES)
        if order is LayerOrder.CYCLES:
            lines = sorted(lines, key=lambda row: -row.cycles)
        elif order is LayerOrder.MACS:
            lines = sorted(lines, key=lambda row: -row.layer.macs)
        elif order is LayerOrder.MOVED:
            lines = sorted(lines, key=lambda row: -row.layer.moved_bytes)
        return lines[: self.top]


EVERY_LAYER = LayerSelection()


@dataclass(frozen=True, slots=True)
class LayerTable:
    """A table of layers with a line of totals over all layers. On a narrow terminal, it has fewer
    columns.

    every: all layers.
    shown: those that the table shows.
    """

    every: Sequence[LayerRow]
    shown: Sequence[LayerRow]
    clock_hz: int | None
    verbose: bool

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        is_narrow = options.max_width < WIDE_COLUMNS
        measured = any(row.measured for row in self.every)
        yield self._table(is_narrow)
        if len(self.shown) < len(self.every):
            count = f"{len(self.shown)} of {len(self.every)} layers"
            yield Text(f"{count}; the totals are those of all layers", "dim")
        if is_narrow:
            yield Text(f"a terminal of {WIDE_COLUMNS} columns shows more figures", "dim")
        elif measured and has_floors(self.every):
            yield Text("/floor: cycles relative to those of the kernel's inner loop alone", "dim")

    def _table(self, is_narrow: bool) -> Table:
        layers = [row.layer for row in self.every]
        several = len({layer.engine for layer in layers}) > 1
        names = short_names(layer.name for layer in layers)
        table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
        table.add_column("step", "", justify="right", no_wrap=True)
        table.add_column("operator", "total", overflow="ellipsis")
        if several:
            table.add_column("engine", overflow="ellipsis")
        table.add_column("name")
        table.add_column("shape", no_wrap=True)
        found = _columns(self.every, self.clock_hz, self.verbose)
        columns = [one for one in found if one.is_basic or not is_narrow]
        for column in columns:
            table.add_column(column.header, column.total, justify="right", no_wrap=True)
        for row in self.shown:
            layer = row.layer
            step = ABSENT if layer.step is None else str(layer.step)
            engine = (Text(printable(layer.engine)),) if several else ()
            name, shape = ShortenedName(names[layer.name]), Text(extents(layer.shape))
            cells = (column.cell(row) for column in columns)
            table.add_row(step, Text(printable(layer.kind)), *engine, name, shape, *cells)
        return table


def layer_table(
    layers: Sequence[LayerReport],
    measured: Sequence[Measured | None] | None = None,
    clock_hz: int | None = None,
    selection: LayerSelection = EVERY_LAYER,
) -> LayerTable:
    """Return a table of layers.

    `measured` contains the counts of a simulated core per layer, in the order of `layers`, or is
    None. `clock_hz` adds a column with the time of each layer.
    """
    every = rows(layers, measured)
    return LayerTable(every, selection.of(every), clock_hz, selection.verbose)


@dataclass(frozen=True, slots=True)
class _Column:
    """A numeric column: its header, its total and the cell of a row. A narrow terminal shows only
    those that are `is_basic`."""

    is_basic: bool
    header: str
    total: str
    cell: Callable[[LayerRow], str]


def code_table(
    functions: Sequence[tuple[str, int]], code_bytes: int | None, verbose: bool = False
) -> Table:
    """Return a table of the functions of the model's code, largest first; with `verbose`, those of
    single steps, too.

    code_bytes: size of the code with its read-only data."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
    table.add_column("function", "total", overflow="ellipsis")
    total = sum(size for _, size in functions)
    listed = [(name, size) for name, size in functions if verbose or "_step_" not in name]
    steps = len(functions) - len(listed)
    if steps:
        rest = total - sum(size for _, size in listed)
        listed.append((f"{steps} functions of single steps (--verbose lists them)", rest))
    if code_bytes is not None and code_bytes > total:
        listed.append(("read-only data and alignment", code_bytes - total))
    table.add_column("code bytes", number(max(total, code_bytes or 0)), justify="right")
    for name, size in listed:
        table.add_row(Text(printable(name)), number(size))
    return table


def constant_lines(layers: Iterable[LayerReport], verbose: bool = False) -> Iterator[Text]:
    """Yield a line for each layer with output channels that do not depend on the input; with
    `verbose`, it lists the channels."""
    for layer in layers:
        if layer.constant is not None:
            where = f"step {layer.step}, {printable(layer.name)}"
            ranges = f" (channels {layer.constant.ranges})" if verbose else ""
            yield Text(f"{where}: {layer.constant.words}{ranges}")


def _columns(lines: Sequence[LayerRow], clock_hz: int | None, verbose: bool) -> tuple[_Column, ...]:
    """Return the numeric columns with totals over `lines`.

    Simulated cycles have no total and no share if an accelerator runs a layer, because its cycles
    are unknown.
    """
    macs = sum(row.layer.macs for row in lines)
    moved = sum(row.layer.moved_bytes for row in lines)
    measured = any(row.measured for row in lines)
    known = not (measured and any(row.layer.offloaded for row in lines))
    estimated = sum(row.layer.cycles for row in lines)
    simulated = sum(row.simulated_cycles or 0 for row in lines) if known else None
    instructions = sum(row.instructions or 0 for row in lines) if known else None
    cycles = sum(row.cycles for row in lines) if known else None
    found: list[_Column] = []

    def add(
        condition: object,
        header: str,
        total: str,
        cell: Callable[[LayerRow], str],
        *,
        is_basic: bool = False,
    ) -> None:
        if condition:
            found.append(_Column(is_basic, header, total, cell))

    def add_cycles(kind: str, total: int | None, cell: Callable[[LayerRow], int | None]) -> None:
        is_basic = (kind == "simulated") == measured
        header = f"cycles\n{kind}"
        add(True, header, number(total), lambda row: number(cell(row)), is_basic=is_basic)

    in_bands = has_bands(lines)
    add(verbose and has_stripes(lines), "stripes", "", lambda row: row.stripes)
    add(in_bands, "chain:\nbands", "", lambda row: row.short_bands)
    add(in_bands, "F", "", lambda row: f"{row.layer.factor:.2f}", is_basic=True)
    add(True, "MACs", number(macs), lambda row: number(row.layer.macs), is_basic=True)
    add_cycles("estimated", estimated, lambda row: row.layer.cycles)
    if measured:
        add_cycles("simulated", simulated, lambda row: row.simulated_cycles)
    if clock_hz:
        total = milliseconds(cycles, clock_hz)
        add(True, "ms", total, lambda row: milliseconds(row.cycles, clock_hz))
    add(known, "share", "", lambda row: percent(row.share), is_basic=True)
    if verbose and measured:
        total = number(instructions)
        add(True, "instruc-\ntions", total, lambda row: number(row.instructions))
    add(True, "cycles\n/MAC", per_mac(cycles, macs), _per_mac)
    add(measured and has_floors(lines), "/floor", "", _above_floor)
    add(True, "bytes\nmoved", number(moved), lambda row: number(row.layer.moved_bytes))
    limits = has_limits(lines)
    add(limits, "limited\nby", "", lambda row: printable(row.layer.limit or ABSENT))
    add(limits, "multi-\npliers", "", lambda row: share_or_none(row.layer.utilisation))
    return tuple(found)


def _per_mac(row: LayerRow) -> str:
    return per_mac(row.cycles, row.layer.macs)


def _above_floor(row: LayerRow) -> str:
    return ABSENT if row.above_floor is None else f"{row.above_floor:.2f}"
