"""Tables of `penstock profile`, as renderables of rich: layers, and functions of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from math import prod

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.frozen import frozen
from penstock.reports.formats import (
    ABSENT,
    extents,
    milliseconds,
    number,
    per_mac,
    percent,
    printable,
    share_or_none,
    shorten_middle,
)
from penstock.reports.layer import Layer, Step, above_floor, number_words
from penstock.scheduling.model.stripe import count_stripes

Line = Layer | Step  # A line of a table: a layer, or one of its steps below it.
LEAST_LETTERS = 8  # Names are not shortened further than this unless the table has no room at all.
# Columns of the terminal that names and operators claim before figures do.
MOST_OF_NAMES, MOST_OF_OPERATORS = 16, 20


class LayerOrder(StrEnum):
    """What `profile` sorts layers by: the model, the steps, or a figure, the largest first."""

    MODEL = "model"
    STEP = "step"
    CYCLES = "cycles"
    MACS = "macs"
    MOVED = "moved"
    WEIGHTS = "weights"
    RAM = "ram"


_FIGURES: Mapping[LayerOrder, Callable[[Layer], int]] = {
    LayerOrder.STEP: lambda layer: -1 if layer.step is None else -layer.step,
    LayerOrder.CYCLES: lambda layer: layer.best_cycles,
    LayerOrder.MACS: lambda layer: layer.macs,
    LayerOrder.MOVED: lambda layer: layer.moved_bytes,
    LayerOrder.WEIGHTS: lambda layer: layer.weight_bytes,
    LayerOrder.RAM: lambda layer: layer.live_bytes or 0,
}


@frozen
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

    def of(self, layers: Sequence[Layer]) -> Sequence[Layer]:
        """Return the selected layers. Those with equal figures remain in the order of the model."""
        order = self.order or (LayerOrder.MODEL if self.top is None else LayerOrder.CYCLES)
        if order in _FIGURES:
            figure = _FIGURES[order]
            layers = sorted(layers, key=lambda layer: -figure(layer))
        return layers[: self.top]


EVERY_LAYER = LayerSelection()
# Header of the column of cycles relative to those of the kernel's inner loop.
ABOVE_FLOOR = "/floor"


@frozen
class LayerTable:
    """A table of layers with a line of totals over all layers. On a narrow terminal, it has fewer
    columns.

    every: all layers.
    clock_hz: adds a column with the time of each layer.
    selection: which layers and columns are shown.
    """

    every: Sequence[Layer]
    clock_hz: int | None = None
    selection: LayerSelection = EVERY_LAYER

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown = self.selection.of(self.every)
        lines = [line for layer in shown for line in (layer, *self._listed_steps(layer))]
        found = _columns(self.every, self.clock_hz, self.selection)
        columns = self._fitting(found, lines, options.max_width)
        yield self._table(lines, columns)
        if len(shown) < len(self.every):
            count = f"{len(shown)} of {len(self.every)} layers"
            yield Text(f"{count}; the totals are those of all layers", "dim")
        several = sum(len(layer.steps) > 1 for layer in shown)
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

    def _listed_steps(self, layer: Layer) -> Sequence[Step]:
        return layer.steps if self._has_steps and len(layer.steps) > 1 else ()

    @property
    def _has_engines(self) -> bool:
        """Whether several engines compute layers; a caller that supplies inputs is none."""
        return len({one.main.engine for one in self.every if one.main.step is not None}) > 1

    def _fixed_width(self, lines: Sequence[Line]) -> int:
        def longest(texts: Iterable[str]) -> int:
            return max(map(len, texts), default=0) + 1

        return (
            2
            + max(5, longest(map(number_words, lines)))
            + min(MOST_OF_OPERATORS, longest(line.kind for line in lines))
            + self._has_engines * longest(line.engine for line in lines)
            + min(MOST_OF_NAMES, longest(line.short_name for line in _layers(lines)))
            + longest(extents(line.shape) for line in lines)
        )

    def _fitting(
        self, found: Sequence[_Column], lines: Sequence[Line], width: int
    ) -> Sequence[_Column]:
        room = width - self._fixed_width(lines)
        kept: list[_Column] = []
        for column in sorted(found, key=lambda one: one.importance):
            room -= column.width(lines)
            if room < 0 and column.importance != Importance.BASIC:
                break
            kept.append(column)
        return [column for column in found if column in kept]

    def _table(self, lines: Sequence[Line], columns: Sequence[_Column]) -> Table:
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
            is_layer = isinstance(line, Layer)
            operator = Text(f"{'' if is_layer else '  '}{printable(line.kind)}")
            engine = (Text(printable(line.engine)),) if self._has_engines else ()
            name = _ShortenedName(line.short_name) if is_layer else Text("")
            cells = (column.cell(line) for column in columns)
            shape = Text(extents(line.shape))
            style = "" if is_layer else "dim"
            table.add_row(number_words(line), operator, *engine, name, shape, *cells, style=style)
        return table


@frozen
class _ShortenedName:
    """A name in a table. The ends of names tell similar layers apart, so both are kept."""

    name: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.name), LEAST_LETTERS), Text(self.name).cell_len)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        name = shorten_middle(self.name, options.max_width)
        yield Text(name, no_wrap=True, overflow="ellipsis")


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


@frozen
class _Column:
    """A column after the shape: its importance, header, total, and the cell of a row."""

    importance: Importance
    header: str
    total: str
    cell: Callable[[Line], str]
    is_numeric: bool = True

    @property
    def words(self) -> str:
        return self.header.replace("-\n", "").replace("\n", " ").strip()

    def width(self, lines: Sequence[Line]) -> int:
        texts = (*self.header.split("\n"), self.total, *map(self.cell, lines))
        return max(map(len, texts)) + 1


def code_table(
    functions: Mapping[str, int], code_bytes: int | None, verbose: bool = False
) -> Table:
    """Return a table of the functions of the model's code, largest first; with `verbose`, those of
    single steps, too.

    code_bytes: size of the code with its read-only data."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
    table.add_column("function", "total", overflow="ellipsis")
    total = sum(functions.values())
    listed = [(name, size) for name, size in functions.items() if verbose or "_step_" not in name]
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


def constant_lines(layers: Iterable[Layer]) -> Iterator[Text]:
    """Yield a line for each layer with output channels that do not depend on the input."""
    for layer in layers:
        found = layer.main.constant
        if found is not None:
            yield Text(f"{printable(layer.name)}: {found.words} (channels {found.ranges})")


def _columns(
    layers: Sequence[Layer], clock_hz: int | None, selection: LayerSelection
) -> tuple[_Column, ...]:
    """The columns after the shape, with totals over all layers."""
    # Simulated cycles have no total and no share if an accelerator runs a layer, because its cycles
    # are unknown.
    macs = sum(one.macs for one in layers)
    moved = sum(one.moved_bytes for one in layers)
    weights = sum(one.weight_bytes for one in layers)
    live = max((one.live_bytes or 0 for one in layers), default=0)
    measured = any(one.simulated_cycles is not None for one in layers)
    known = not (measured and any(one.offloaded for one in layers))
    estimated = sum(one.cycles for one in layers)
    simulated = sum(one.simulated_cycles or 0 for one in layers) if known else None
    instructions = sum(one.simulated_instructions or 0 for one in layers) if known else None
    cycles = sum(one.best_cycles for one in layers)
    found: list[_Column] = []

    def add(
        condition: object,
        importance: Importance,
        header: str,
        total: str,
        cell: Callable[[Line], str],
        *,
        is_numeric: bool = True,
    ) -> None:
        if condition:
            found.append(_Column(importance, header, total, cell, is_numeric))

    def add_cycles(kind: str, total: int | None, cell: Callable[[Line], int | None]) -> None:
        is_basic = (kind == "simulated") == measured
        importance = Importance.BASIC if is_basic else Importance.ESTIMATE
        add(True, importance, f"cycles\n{kind}", number(total), lambda line: number(cell(line)))

    verbose, in_bands = selection.verbose, any(one.main.bands for one in layers)
    limits = any(one.limit for one in layers)
    floors = measured and any(above_floor(one) is not None for one in layers)
    asked, ratio, limit = Importance.ASKED_FOR, Importance.RATIO, Importance.LIMIT
    stripes = verbose and any(_stripes(one) != ABSENT for one in layers)
    add(stripes, asked, "stripes", "", _stripes)
    add(in_bands and (selection.bands or verbose), asked, "chain:\nbands", "", _bands)
    add(in_bands, Importance.BASIC, "F", "", lambda line: f"{line.factor:.2f}")
    add(True, Importance.WORK, "MACs", number(macs), lambda line: number(line.macs))
    add_cycles("estimated", estimated, lambda line: line.cycles)
    if measured:
        add_cycles("simulated", simulated, lambda line: line.simulated_cycles)
    if clock_hz:
        total = milliseconds(cycles if known else None, clock_hz)
        add(
            True,
            Importance.TIME,
            "ms",
            total,
            lambda line: milliseconds(line.best_cycles, clock_hz),
        )
    add(
        known,
        Importance.BASIC,
        "share",
        "",
        lambda line: percent(line.best_cycles / max(1, cycles)),
    )
    if verbose and measured:
        total = number(instructions)
        add(
            True,
            asked,
            "instruc-\ntions",
            total,
            lambda line: number(line.simulated_instructions),
        )
    total = per_mac(cycles if known else None, macs)
    add(True, ratio, "cycles\n/MAC", total, lambda line: per_mac(line.best_cycles, line.macs))
    add(floors, ratio, ABOVE_FLOOR, "", _above_floor)
    memory, traffic = Importance.MEMORY, Importance.TRAFFIC
    add(live, memory, "RAM\nlive", number(live), _live_bytes)
    add(weights, memory, "weight\nbytes", number(weights), _weight_bytes)
    add(True, traffic, "bytes\nmoved", number(moved), lambda line: number(line.moved_bytes))
    add(limits, limit, "limited\nby", "", lambda line: printable(line.limit or ABSENT))
    add(limits, limit, "multi-\npliers", "", lambda line: share_or_none(line.utilisation))
    kernels = any(one.main.kernel for one in layers)
    add(kernels, Importance.KERNEL, " kernel", "", _kernel, is_numeric=False)
    return tuple(found)


def _layers(lines: Iterable[Line]) -> Iterator[Layer]:
    return (line for line in lines if isinstance(line, Layer))


def _stripes(line: Line) -> str:
    """The number of stripes and the shape of the largest one; absent if it runs whole."""
    main = line.main
    if main.calls == 1 or not main.stripes:
        return ABSENT
    largest = max((config.shape for config in main.stripes), key=prod)
    return f"{number(count_stripes(main.stripes))} of {extents(largest)}"


def _bands(line: Line) -> str:
    """The number of the chain; for a step, with those of the bands."""
    bands = line.main.bands
    if bands is None:
        return ABSENT
    return bands.short if isinstance(line, Step) else bands.short_total


def _above_floor(line: Line) -> str:
    above = above_floor(line)
    return ABSENT if above is None else f"{above:.2f}"


def _live_bytes(line: Line) -> str:
    known = line.live_bytes if isinstance(line, Layer) else None
    return "" if known is None else number(known)


def _weight_bytes(line: Line) -> str:
    return number(line.weight_bytes) if isinstance(line, Layer) else ""


def _kernel(line: Line) -> str:
    return f" {printable(line.main.kernel)}"
