"""Tables of `penstock profile`, as renderables of rich: layers, and functions of the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from penstock.reports.formats import (
    ABSENT,
    extents,
    number,
    per_mac,
    printable,
    share_or_none,
    short_names,
)
from penstock.reports.layer_report import LayerReport
from penstock.reports.row import LayerRow, Measured, has_bands, has_limits, has_stripes, rows
from penstock.reports.times import milliseconds


def layer_table(
    layers: Sequence[LayerReport],
    measured: Sequence[Measured | None] | None = None,
    clock_hz: int | None = None,
) -> Table:
    """Return a table of layers with a line of totals.

    `measured` contains the counts of a simulated core per layer, in the order of `layers`, or is
    None. `clock_hz` adds a column with the time of each layer. On a narrow terminal, names are
    truncated before numbers.
    """
    lines = rows(layers, measured)
    several = len({layer.engine for layer in layers}) > 1
    names = short_names(layer.name for layer in layers)
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
    table.add_column("step", "", justify="right", no_wrap=True)
    table.add_column("operator", "total", overflow="ellipsis")
    if several:
        table.add_column("engine", overflow="ellipsis")
    table.add_column("name", overflow="ellipsis")
    table.add_column("shape", no_wrap=True)
    for header, total in _totals(lines, clock_hz):
        table.add_column(header, total, justify="right", no_wrap=True)
    for row in lines:
        layer = row.layer
        step = ABSENT if layer.step is None else str(layer.step)
        engine = (printable(layer.engine),) if several else ()
        words = (printable(layer.kind), *engine, names[layer.name], extents(layer.shape))
        cells = _numbers(row, lines, bool(measured), clock_hz)
        table.add_row(step, *map(Text, words), *cells)
    return table


def code_table(functions: Sequence[tuple[str, int]]) -> Table:
    """Return a table of the functions of the model's code, largest first."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_footer=True)
    table.add_column("function", "total", overflow="ellipsis")
    total = sum(size for _, size in functions)
    table.add_column("code bytes", number(total), justify="right", no_wrap=True)
    for name, size in functions:
        table.add_row(Text(printable(name)), number(size))
    return table


def constant_lines(layers: Iterable[LayerReport]) -> Iterator[Text]:
    """Yield a line for each layer with output channels that do not depend on the input."""
    for layer in layers:
        if layer.constant is not None:
            where = f"step {layer.step}, {printable(layer.name)}"
            ranges = layer.constant.ranges
            yield Text(f"{where}: {layer.constant.words} (channels {ranges})")


def _totals(lines: Sequence[LayerRow], clock_hz: int | None) -> tuple[tuple[str, str], ...]:
    """Return the headers and totals of the numeric columns.

    Simulated cycles have no total if an accelerator runs a layer, because its cycles are unknown.
    """
    macs = sum(row.layer.macs for row in lines)
    moved = sum(row.layer.moved_bytes for row in lines)
    measured = any(row.measured for row in lines)
    known = not (measured and any(row.layer.offloaded for row in lines))
    simulated = sum(row.simulated_cycles or 0 for row in lines) if known else None
    instructions = sum(row.instructions or 0 for row in lines) if known else None
    cycles = sum(row.cycles for row in lines) if known else None
    return (
        *((("stripes", ""),) if has_stripes(lines) else ()),
        *((("chain:\nbands", ""), ("F", "")) if has_bands(lines) else ()),
        ("MACs", number(macs)),
        ("cycles\nestimated", number(sum(row.layer.cycles for row in lines))),
        *((("cycles\nsimulated", number(simulated)),) if measured else ()),
        *((("ms", milliseconds(cycles, clock_hz)),) if clock_hz else ()),
        *((("instruc-\ntions", number(instructions)),) if measured else ()),
        ("cycles\n/MAC", per_mac(cycles, macs)),
        *((("/floor", ""),) if measured else ()),
        ("bytes\nmoved", number(moved)),
        *((("limited\nby", ""), ("multi-\npliers", "")) if has_limits(lines) else ()),
    )


def _numbers(
    row: LayerRow, lines: Sequence[LayerRow], counts: bool, clock_hz: int | None
) -> tuple[str, ...]:
    """Return the cells of the numeric columns; `lines` are all rows of the table, and `counts`
    tells whether there are simulated figures."""
    layer = row.layer
    limiting = (printable(layer.limit or ABSENT), share_or_none(layer.utilisation))
    simulated = (number(row.simulated_cycles),) if counts else ()
    timed = (milliseconds(row.cycles, clock_hz),) if clock_hz else ()
    executed = (number(row.instructions),) if counts else ()
    above = ABSENT if row.above_floor is None else f"{row.above_floor:.2f}"
    in_bands = layer.bands.short if layer.bands else ABSENT
    return (
        *((row.stripes,) if has_stripes(lines) else ()),
        *((in_bands, f"{layer.factor:.2f}") if has_bands(lines) else ()),
        number(layer.macs),
        number(layer.cycles),
        *(*simulated, *timed, *executed),
        per_mac(row.cycles, layer.macs),
        *((above,) if counts else ()),
        number(layer.moved_bytes),
        *(limiting if has_limits(lines) else ()),
    )
