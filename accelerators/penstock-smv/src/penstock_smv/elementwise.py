"""elementwise: the commands of unary and binary operators, batch normalisation and softmax.

In SMAUG's tiling, tensors are flattened and a tile is an interval of their elements.  In other
tilings, a tile has rows, columns and channels.  The commands are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.uma import Address, CallTiles, Command, Expr, KernelCall, Node, ScratchpadTile
from penstock_smv.commands import invoke, length, tiled
from penstock_smv.copies import (
    load,
    load_constants,
    load_table,
    row_and_column,
    spans,
    store,
)
from penstock_smv.operations import (
    AddTiles,
    CompareTiles,
    ElementRange,
    ExtremeTiles,
    LookUpTile,
    MultiplyTiles,
    NormaliseTile,
    ProductScales,
    SoftmaxTile,
    TermScales,
    TilePitches,
    setting,
)
from penstock_smv.tiling import constant_input

_OPERAND_PARAMETERS = (("zero0", "zero1"), ("multiplier0", "multiplier1"), ("shift0", "shift1"))
"""The parameters of the first operand, each with that of the second one."""


@tiled
def add(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of an element-wise sum or difference."""
    return _combined(call, tiles, AddTiles)


@tiled
def extreme(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of an element-wise maximum or minimum."""
    return _combined(call, tiles, partial(ExtremeTiles, larger=_parameters(call.main)["larger"]))


@tiled
def compare(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a comparison of two tensors."""
    relation = _parameters(call.main)["relation"]
    if constant_input(call.main) == 0:
        relation = relation & 2 | relation >> 2 | (relation & 1) << 2  # b > a where a < b
    return _combined(call, tiles, partial(CompareTiles, relation=relation))


@tiled
def mul(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of an element-wise product."""
    return _combined(call, tiles, MultiplyTiles)


@tiled
def batch_norm(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a batch normalisation: a product with one constant per channel,
    followed by a sum with another constant per channel."""
    x, w, y = tiles.operand_tiles
    product, total = call.composite.nodes
    corner = tiles.corner(y)
    rows, columns, channels = spans(y.box)
    compute = NormaliseTile(
        x=x.at(*corner),
        factors=w.at(0, corner[-1]),
        offsets=w.at(1, corner[-1]),
        y=y.at(*corner),
        rows=length(rows),
        columns=length(columns),
        channels=length(channels),
    )
    sources = [_constant(call, node) for node in (product, total)]
    scaling, terms = _parameters(product), _parameters(total)
    return [
        invoke(call, setting(ElementRange, terms)),
        invoke(call, setting(TermScales, terms)),
        invoke(call, setting(ProductScales, scaling)),
        invoke(call, TilePitches(*row_and_column(x), 0, 0, *row_and_column(y))),
        *tiles.nest(
            [_load_variable(call, x), load_constants(call, w, sources)],
            tiles.by_image(invoke(call, compute)),
            store(call, y),
        ),
    ]


@tiled
def lookup(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a unary operator, whose output element for input element x is entry
    x + 128 of a table."""
    return _looked_up(call, tiles, LookUpTile, "table")


@tiled
def softmax(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a softmax, whose table holds the exponentials of differences to the
    largest element of a vector."""
    return _looked_up(call, tiles, SoftmaxTile, "exp")


def _looked_up(
    call: KernelCall, tiles: CallTiles, record: type[LookUpTile[Expr]], name: str
) -> Sequence[Command]:
    """Return the commands of an operator with a table.

    record: the class of the record of the computing command.
    name: the name of the table."""
    x, table, y = tiles.operand_tiles
    corner = tiles.corner(y)
    rows, columns, channels = spans(y.box)
    compute = record(
        x=x.at(*corner),
        table=table.base,
        y=y.at(*corner),
        rows=length(rows),
        columns=length(columns),
        channels=length(channels),
    )
    return [
        invoke(call, TilePitches(*row_and_column(x), 0, 0, *row_and_column(y))),
        *tiles.nest(
            [load(call, call.operand(0), x), load_table(call, table, name)],
            tiles.by_image(invoke(call, compute)),
            store(call, y),
        ),
    ]


def _combined(
    call: KernelCall, tiles: CallTiles, record: Callable[..., AddTiles[Expr]]
) -> Sequence[Command]:
    """Return the commands of an element-wise function of two tensors, or of a tensor and one
    constant per channel.

    record: makes the record of the computing command, such as `AddTiles` for a sum or
        difference."""
    a, b, y = tiles.operand_tiles
    constant = constant_input(call.main)
    corner = tiles.corner(y)
    rows, columns, channels = spans(y.box)
    compute = record(
        a=a.at(*corner),
        b=b.at(*corner) if constant is None else b.at(0, corner[-1]),
        y=y.at(*corner),
        rows=length(rows),
        columns=length(columns),
        channels=length(channels),
    )
    second = row_and_column(b) if constant is None else (0, 0)
    loads = [
        _load_variable(call, a),
        load(call, call.operand(1), b)
        if constant is None
        else load_constants(call, b, [_constant(call, call.main)]),
    ]
    p = _parameters(call.main)
    return [
        invoke(call, setting(ElementRange, p)),
        invoke(call, setting(TermScales, p)),
        invoke(call, TilePitches(*row_and_column(a), *second, *row_and_column(y))),
        *tiles.nest(loads, tiles.by_image(invoke(call, compute)), store(call, y)),
    ]


def _load_variable(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of the operator's first input or, if that input is
    constant, of its second input.  The tile is in the scratchpad of inputs."""
    return load(call, call.operand(1 if constant_input(call.main) == 0 else 0), tile)


def _constant(call: KernelCall, node: Node) -> Address:
    """Return the address of the constant input of `node`, a node of the composite that the call
    computes."""
    k = constant_input(node)
    assert k is not None
    return call.operands[call.composite.inputs.index(node.inputs[k].name)].address


def _parameters(node: Node) -> Mapping[str, int]:
    """Return the parameters of an element-wise node by name, such as "multiplier0" for the first
    operand and "multiplier1" for the second.

    If the first operand is constant, the parameters of the operands are exchanged, because the
    engine takes the constant as its second operand."""
    found = dict(node.op.kernel(node.site).params)
    if constant_input(node) == 0:
        for first, second in _OPERAND_PARAMETERS:
            if first in found:
                found[first], found[second] = found[second], found[first]
    return found
