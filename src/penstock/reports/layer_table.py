"""Tables of `penstock profile`, as renderables of rich: layers, and functions of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

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
from penstock.reports.model_layer import ModelLayer
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

MOST_OF_NAMES, MOST_OF_OPERATORS = 16, 20
"""Columns of the terminal that names and operators claim before figures do."""


class LayerOrder(StrEnum):
    """What `profile` sorts layers by: the model, the steps, or a figure, the largest first."""

    MODEL = "model"
    STEP = "step"
    CYCLES = "cycles"
    MACS = "macs"
    MOVED = "moved"
    WEIGHTS = "weights"
    RAM = "ram"


_FIGURES: Mapping[LayerOrder, Callable[[LayerRow], int]] = {
    LayerOrder.STEP: lambda row: -1 if row.layer.step is None else -row.layer.step,
    LayerOrder.CYCLES: lambda row: row.cycles,
    LayerOrder.MACS: lambda row: row.layer.macs,
    LayerOrder.MOVED: lambda row: row.layer.moved_bytes,
    LayerOrder.WEIGHTS: lambda row: row.weight_bytes or 0,
    LayerOrder.RAM: lambda row: row.live_bytes or 0,
}


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """Which layers a table shows, in which order, and with how many columns.

    order: what the layers are sorted by; by default the model, or the cycles if `top` is given.
    top: number of layers that are shown; None for all.
    bands: whether the steps of layers that are computed in several follow them.
    verbose: whether steps, stripes and instructions are shown.
    """

    order: LayerOrder | None = None
    top: int | None = None
    bands: bool = False
    verbose: bool = False

    def of(self, lines: Sequence[LayerRow]) -> Sequence[LayerRow]:
        """Return the selected rows. Layers with equal figures remain in the order of the model."""
        order = self.order or (LayerOrder.MODEL if self.top is None else LayerOrder.CYCLES)
        if order in _FIGURES:
            figure = _FIGURES[order]
            lines = sorted(lines, key=lambda row: -figure(row))
        return lines[: self.top]


EVERY_LAYER = LayerSelection()
ABOVE_FLOOR = "/floor"
"""Header of the column of cycles relative to those of the kernel's inner loop."""


@dataclass(frozen=True, slots=True)
class LayerTable:
    """A table of layers with a line of totals over all layers. On a narrow terminal, it has fewer
    columns.

    every: all layers.
    selection: which layers and columns are shown.
    """

    every: Sequence[LayerRow]
    selection: LayerSelection
    clock_hz: int | None

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        shown = self.selection.of(self.every)
        lines = [line for row in shown for line in (row, *(row.steps if self._has_steps else ()))]
        found = _columns(self.every, self.clock_hz, self.selection)
        columns = self._fitting(found, lines, options.max_width)
        yield self._table(lines, columns)
        if len(shown) < len(self.every):
            count = f"{len(shown)} of {len(self.every)} layers"
            yield Text(f"{count}; the totals are those of all layers", "dim")
        several = sum(bool(row.steps) for row in shown)
        if several and not self._has_steps:
            layers = "1 layer runs" if several == 1 else f"{several} layers run"
            yield Text(f"{layers} in several steps, which --bands lists", "dim")
        if len(columns) < len(found):
            words = ", ".join(one.words for one in found if one not in columns)
            needed = self._fixed_width(lines) + sum(one.width(lines) for one in found)
            yield Text(f"a terminal of {needed} columns also shows: {words}", "dim")
        if any(one.header == ABOVE_FLOOR for one in columns):
            yield Text(
                f"{ABOVE_FLOOR}: cycles relative to those of the kernel's inner loop alone", "dim"
            )

    @property
    def _has_steps(self) -> bool:
        return self.selection.bands or self.selection.verbose

    @property
    def _names(self) -> Mapping[str, str]:
        return short_names(row.layer.name for row in self.every)

    @property
    def _has_engines(self) -> bool:
        """Whether several engines compute layers; a caller that supplies inputs is none."""
        return len({row.main.engine for row in self.every if row.main.step is not None}) > 1

    def _fixed_width(self, lines: Sequence[LayerRow]) -> int:
        """Return the width of the columns that every terminal shows."""

        def longest(texts: Iterable[str]) -> int:
            return max(map(len, texts), default=0) + 1

        names = self._names
        return (
            2
            + max(5, longest(line.numbers for line in lines))
            + min(MOST_OF_OPERATORS, longest(line.layer.kind for line in lines))
            + self._has_engines * longest(line.layer.engine for line in lines)
            + min(MOST_OF_NAMES, longest(names.get(line.layer.name, "") for line in lines))
            + longest(extents(line.layer.shape) for line in lines)
        )

    def _fitting(
        self, found: Sequence[_Column], lines: Sequence[LayerRow], width: int
    ) -> Sequence[_Column]:
        """Return the columns that a terminal of that width shows: all that are basic, and of the
        others as many as fit, the most important ones first."""
        room = width - self._fixed_width(lines)
        kept: list[_Column] = []
        for column in sorted(found, key=lambda one: one.importance):
            room -= column.width(lines)
            if room < 0 and column.importance != Importance.BASIC:
                break
            kept.append(column)
        return [column for column in found if column in kept]

    def _table(self, lines: Sequence[LayerRow], columns: Sequence[_Column]) -> Table:
        names = self._names
        table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
        table.add_column("step", "", justify="right", no_wrap=True)
        table.add_column("operator", "total", overflow="ellipsis")
        if self._has_engines:
            table.add_column("engine", overflow="ellipsis")
        table.add_column("name")
        table.add_column("shape", no_wrap=True)
        for column in columns:
            justify = "right" if column.is_numeric else "left"
            table.add_column(column.header, column.total, justify=justify, no_wrap=True)
        for line in lines:
            layer = line.layer
            is_layer = isinstance(layer, ModelLayer)
            operator = Text(f"{'' if is_layer else '  '}{printable(layer.kind)}")
            engine = (Text(printable(layer.engine)),) if self._has_engines else ()
            name = ShortenedName(names[layer.name]) if is_layer else Text("")
            cells = (column.cell(line) for column in columns)
            shape = Text(extents(layer.shape))
            style = "" if is_layer else "dim"
            table.add_row(line.numbers, operator, *engine, name, shape, *cells, style=style)
        return table


def layer_table(
    layers: Sequence[ModelLayer],
    measured: Sequence[Measured | None] | None = None,
    clock_hz: int | None = None,
    selection: LayerSelection = EVERY_LAYER,
) -> LayerTable:
    """Return a table of layers.

    `measured` contains the counts of a simulated core per step, in the order of the program, or is
    None. `clock_hz` adds a column with the time of each layer.
    """
    return LayerTable(rows(layers, measured), selection, clock_hz)


class Importance(IntEnum):
    """Which columns a terminal shows that has no room for all: those with the least values."""

    BASIC = 0
    """On every terminal, however narrow."""
    ASKED_FOR = 1
    WORK = 2
    MEMORY = 3
    LIMIT = 4
    ESTIMATE = 5
    KERNEL = 6
    TIME = 7
    RATIO = 8
    TRAFFIC = 9


@dataclass(frozen=True, slots=True)
class _Column:
    """A column after the shape: its importance, header, total, and the cell of a row."""

    importance: Importance
    header: str
    total: str
    cell: Callable[[LayerRow], str]
    is_numeric: bool = True

    @property
    def words(self) -> str:
        """The header as words on one line."""
        return self.header.replace("-\n", "").replace("\n", " ").strip()

    def width(self, lines: Sequence[LayerRow]) -> int:
        texts = (*self.header.split("\n"), self.total, *map(self.cell, lines))
        return max(map(len, texts)) + 1


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


def constant_lines(layers: Iterable[ModelLayer]) -> Iterator[Text]:
    """Yield a line for each layer with output channels that do not depend on the input."""
    for layer in layers:
        found = layer.main.constant
        if found is not None:
            yield Text(f"{printable(layer.name)}: {found.words} (channels {found.ranges})")


def _columns(
    lines: Sequence[LayerRow], clock_hz: int | None, selection: LayerSelection
) -> tuple[_Column, ...]:
    """Return the columns after the shape, with totals over `lines`.

    Simulated cycles have no total and no share if an accelerator runs a layer, because its cycles
    are unknown.
    """
    macs = sum(row.layer.macs for row in lines)
    moved = sum(row.layer.moved_bytes for row in lines)
    weights = sum(row.weight_bytes or 0 for row in lines)
    live = max((row.live_bytes or 0 for row in lines), default=0)
    measured = any(row.measured for row in lines)
    known = not (measured and any(row.layer.offloaded for row in lines))
    estimated = sum(row.layer.cycles for row in lines)
    simulated = sum(row.simulated_cycles or 0 for row in lines) if known else None
    instructions = sum(row.instructions or 0 for row in lines) if known else None
    cycles = sum(row.cycles for row in lines) if known else None
    found: list[_Column] = []

    def add(
        condition: object,
        importance: Importance,
        header: str,
        total: str,
        cell: Callable[[LayerRow], str],
        *,
        is_numeric: bool = True,
    ) -> None:
        if condition:
            found.append(_Column(importance, header, total, cell, is_numeric))

    def add_cycles(kind: str, total: int | None, cell: Callable[[LayerRow], int | None]) -> None:
        is_basic = (kind == "simulated") == measured
        importance = Importance.BASIC if is_basic else Importance.ESTIMATE
        add(True, importance, f"cycles\n{kind}", number(total), lambda row: number(cell(row)))

    verbose, in_bands, limits = selection.verbose, has_bands(lines), has_limits(lines)
    asked, ratio, limit = Importance.ASKED_FOR, Importance.RATIO, Importance.LIMIT
    steps = in_bands and (selection.bands or verbose)
    add(verbose and has_stripes(lines), asked, "stripes", "", lambda row: row.stripes)
    add(steps, asked, "chain:\nbands", "", lambda row: row.short_bands)
    add(in_bands, Importance.BASIC, "F", "", lambda row: f"{row.layer.factor:.2f}")
    add(True, Importance.WORK, "MACs", number(macs), lambda row: number(row.layer.macs))
    add_cycles("estimated", estimated, lambda row: row.layer.cycles)
    if measured:
        add_cycles("simulated", simulated, lambda row: row.simulated_cycles)
    if clock_hz:
        total = milliseconds(cycles, clock_hz)
        add(True, Importance.TIME, "ms", total, lambda row: milliseconds(row.cycles, clock_hz))
    add(known, Importance.BASIC, "share", "", lambda row: percent(row.share))
    if verbose and measured:
        total = number(instructions)
        add(True, asked, "instruc-\ntions", total, lambda row: number(row.instructions))
    add(True, ratio, "cycles\n/MAC", per_mac(cycles, macs), _per_mac)
    add(measured and has_floors(lines), ratio, ABOVE_FLOOR, "", _above_floor)
    memory, traffic = Importance.MEMORY, Importance.TRAFFIC
    add(live, memory, "RAM\nlive", number(live), lambda row: _count(row.live_bytes))
    add(weights, memory, "weight\nbytes", number(weights), lambda row: _count(row.weight_bytes))
    add(True, traffic, "bytes\nmoved", number(moved), lambda row: number(row.layer.moved_bytes))
    add(limits, limit, "limited\nby", "", lambda row: printable(row.layer.limit or ABSENT))
    add(limits, limit, "multi-\npliers", "", lambda row: share_or_none(row.layer.utilisation))
    kernels = any(row.main.kernel for row in lines)
    add(kernels, Importance.KERNEL, " kernel", "", _kernel, is_numeric=False)
    return tuple(found)


def _kernel(row: LayerRow) -> str:
    return f" {printable(row.main.kernel)}"


def _count(value: int | None) -> str:
    return "" if value is None else number(value)


def _per_mac(row: LayerRow) -> str:
    return per_mac(row.cycles, row.layer.macs)


def _above_floor(row: LayerRow) -> str:
    return ABSENT if row.above_floor is None else f"{row.above_floor:.2f}"
