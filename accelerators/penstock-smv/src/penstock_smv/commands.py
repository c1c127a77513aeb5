"""commands: functions that all kernels use: driver calls, and arithmetic on addresses and
intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import cast

from penstock.uma import (
    Address,
    CallTiles,
    Command,
    Compute,
    DriverRecord,
    Expr,
    KernelCall,
    Loop,
    Span,
    Tiling,
    Var,
    minimum,
    tiles_of_call,
)
from penstock_smv.cycles import EngineTiming
from penstock_smv.drivers import drivers
from penstock_smv.operations import SelectEngine, WaitForEngines
from penstock_smv.tiling import (
    engine_count,
    images_at_once,
    layer_on_engine,
    rows_at_once,
    scratchpads,
    tiling_of,
)

TiledKernel = Callable[[KernelCall, CallTiles], Sequence[Command]]
"""Returns the commands of a call, given its tiles."""


def tiled(kernel: TiledKernel) -> Compute:
    """Decorator of kernels: return a compute function that accepts any number of output rows.

    `kernel` requires a tiling of all rows of a call.  If the tiler finds none, or if several
    engines share the call, the compute function divides the rows into intervals for which there is
    a tiling, and returns a loop over the intervals.  All have the same length, except that the last
    may be shorter.  Engines take the intervals in turns, or intervals of the images of a batch.

    If the tiler returns a tile sequence instead of a tiling, the compute function returns the
    commands of all visits of the sequence one after the other, without loops.

    kernel: returns the commands of a call, given its tiles."""

    @wraps(kernel)
    def compute(call: KernelCall) -> Sequence[Command]:
        engines, images = engine_count(call.target), images_at_once(call)
        if images is not None:
            number, first = call.output.shape[0], Var("first_image")
            some = first, minimum(first + images, number)
            tiling = cast(Tiling, tiling_of(call, images=images))
            body = kernel(call, CallTiles(call, layer_on_engine(call), tiling, images=some))
            return _in_turns(call, Loop(first.name, 0, number, images, tuple(body)))
        rows, first = rows_at_once(call, call.rows), Var("first_row")
        if rows == call.rows:
            return [c for tiles in _tiles(call) for c in kernel(call, tiles)]
        part = replace(call, first=first, end=minimum(first + rows, call.end), rows=rows)
        body = [c for tiles in _tiles(part) for c in kernel(part, tiles)]
        loop = Loop(first.name, call.first, call.end, rows, tuple(body))
        return [loop] if engines == 1 else _in_turns(call, loop)

    return compute


def _in_turns(call: KernelCall, loop: Loop) -> Sequence[Command]:
    """Return a loop whose iterations the engines execute in turns."""
    engines = engine_count(call.target)
    number = (Var(loop.variable) - loop.lower) // loop.step
    select = invoke(call, SelectEngine(number % engines))
    return [replace(loop, body=(select, *loop.body)), invoke(call, WaitForEngines(engines))]


def _tiles(call: KernelCall) -> Iterator[CallTiles]:
    """Yield the `CallTiles` from which a kernel makes the commands of a call: a single one, which
    describes all tiles of a tiling, or one for each visit of a tile sequence.

    Raises PenstockError if the tiler finds no tiling."""
    return tiles_of_call(call, layer_on_engine(call), tiling_of(call, call.rows))


def offset(address: Address, offset_bytes: Expr) -> Address:
    """Return the address `offset_bytes` bytes after `address`."""
    return Address(address.buffer, address.offset + offset_bytes)


def length(span: Span) -> Expr:
    """Return the number of elements of a half-open interval, as an expression."""
    return span[1] - span[0]


def invoke(call: KernelCall, record: DriverRecord) -> Command:
    """Return the command that calls a driver function with the fields of `record` as arguments.

    The class of `record` determines the function."""
    sizes = [memory.size_bytes for memory in scratchpads(call.target).scratchpads]
    timing = EngineTiming.of(call.target)
    functions = drivers(
        call.target.name, (sizes[0], sizes[1], sizes[2]), timing, engine_count(call.target)
    )
    return call.invoke_record(functions[type(record)], record)
