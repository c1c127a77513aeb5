"""Cases of SMAUG's tiling: dimensions, tile shapes and tiles for its SMV engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Annotated

from pydantic import Field

from benchmarks.case_file import Document, Record, Section, malformed, read_as, read_document
from penstock.errors import CapacityError, PenstockError, UnsupportedError
from penstock.uma import (
    INPUT,
    OUTPUT,
    WEIGHTS,
    Axis,
    Dimension,
    Layer,
    LayerOperand,
    Scratchpads,
    flattened,
)
from penstock_smv.smaug import Smaug, SmaugShapes
from penstock_smv.smaug_shapes import Piece

KEYS = frozenset({"constants", "conventions", "cases"})
LAYERS = "smaug_layers"
"""The key of a list of lines, each a layer and what SMAUG's own code chooses for it; the key
`smaug_format` of the file states their format."""
KEYWORDS = {INPUT: "input", WEIGHTS: "weight", OUTPUT: "output"}
"""The file's name for the tensor of a role."""

Extent = Annotated[int, Field(ge=1, le=1 << 24)]
Extents = tuple[Extent, ...]
Pair = tuple[Extent, Extent]


class Run(Record):
    """A number of consecutive tiles of one shape."""

    count: int
    shape: Extents


class Tiles(Record):
    """Expected tiles of a tensor."""

    n: int | None = None
    grid: Mapping[str, int] | None = None
    runs: tuple[Run, ...] | None = None
    channel_offset_rule: str | None = None
    element_offset_rule: str | None = None
    row_ranges: tuple[tuple[int, int], ...] | None = None


class Case(Record):
    """A layer on an engine; absent keys are not checked."""

    id: str
    op: str
    layout: str = "NHWC"
    align: Extent = 8
    dtype_bytes: Extent = 2
    spad_bytes: Extent = 32768
    input: Extents
    kernel: Pair | None = None
    pool: Pair | None = None
    stride: Pair = (1, 1)
    padding: str = "valid"
    ofmaps: Extent | None = None
    neurons: Extent | None = None
    weights: Pair | None = None
    expect: Mapping[str, object] = {}
    expect_tiles: Mapping[str, Tiles] = {}
    tiling_dims_derived: Mapping[str, str] = {}


def check(document: Document, where: str) -> tuple[Section, ...]:
    """Checks the single section of a file.  Raises ModelError if the file is malformed."""
    found = document["cases"]
    if not isinstance(found, list) or not found:
        raise malformed(f"{where}: cases", "there is no list of cases")
    return (Section.of("cases", _differences(found, f"{where}: cases")),)


def check_lines(document: Document, where: str) -> tuple[Section, ...]:
    """Checks the lines of a file, a section for each operator.  Raises ModelError if one is
    malformed."""
    found = groupby(read_lines(document, where), lambda pair: pair[0].split()[0])
    return tuple(Section.of(op, map(_line_difference, pairs)) for op, pairs in found)


def read_lines(document: Document, where: str) -> tuple[tuple[str, str], ...]:
    """Pairs (layer, what SMAUG chose).  Raises ModelError."""
    pairs: list[tuple[str, str]] = []
    for k, line in enumerate(read_as(tuple[str, ...], document[LAYERS], f"{where}, {LAYERS}")):
        match = LINE.fullmatch(line)
        if match is None:
            raise malformed(f"{where}, line {k}", f"a layer of SMAUG is not described by {line!r}")
        pairs.append((match["layer"], match["chosen"]))
    return tuple(pairs)


def recorded_layers(operator: str) -> list[tuple[str, str]]:
    """The pairs (layer, what SMAUG chose) of an operator in the repository's file of cases."""
    path = Path(__file__).parents[1] / "tests" / "cases" / "smaug_drawn.json"
    pairs = read_lines(read_document(path), str(path))
    return [pair for pair in pairs if pair[0].split()[0] == operator]


LINE = re.compile(
    r"(?P<layer>(conv( \d+){11}|fc( \d+){4}|pool( \d+){9}|(bn4|row)( \d+){5}"
    r"|(bn2|softmax)( \d+){3})) \| (?P<chosen>.+)"
)


def _line_difference(pair: tuple[str, str]) -> tuple[str, str]:
    line, expected = pair
    case = case_of(line)
    found = chosen(layer_of(case, line), scratchpads_of(case))
    return line, "" if found == expected else f"{found}, expected {expected}"


def case_of(line: str) -> Case:
    """The layer of a line, with int8 elements."""
    op, size, *numbers = line.split()
    n = [int(number) for number in numbers]
    found: dict[str, object] = {"id": line, "dtype_bytes": 1, "spad_bytes": int(size), "op": op}
    match op:
        case "conv":
            found |= {"input": n[:4], "kernel": n[4:6], "stride": n[6:8], "ofmaps": n[9]}
            found["padding"] = "same" if n[8] else "valid"
        case "fc":
            found |= {"input": n[:2], "neurons": n[2]}
        case "pool":
            found |= {"input": n[:4], "pool": n[4:6], "stride": n[6:8]}
        case "row":  # SMAUG's rows of elements contain the alignment padding.
            found |= {"input": (*n[:3], n[3] + -n[3] % 8)}
        case "softmax":
            found |= {"input": n}
        case _:
            found |= {"op": "batch_norm", "input": n, "weights": (4, n[-1])}
    return Case.model_validate(found)


def chosen(layer: Layer, scratchpads: Scratchpads) -> str:
    """Tiles and split dimensions of a layer, as a line of the file states them; the pieces of a
    layer whose dimensions are not selected."""
    try:
        shapes = Smaug().tensor_shapes(layer, scratchpads)
        if not shapes.dims:
            pieces = product(*Smaug().tensor_pieces(layer, scratchpads)[OUTPUT])
            runs = groupby("x".join(str(n) for _, n in piece) for piece in pieces)
            return " ".join(f"{len(list(some))}*{tile}" for tile, some in runs)
    except (CapacityError, UnsupportedError):
        return "refused"
    known = [role for role in KEYWORDS if role in shapes.tiles]
    tiles = ["x".join(map(str, shapes.tiles[role])) for role in known]
    return " ".join([*tiles, *(str(shapes.dims[role]) for role in known)])


def _differences(cases: Sequence[object], where: str) -> Iterator[tuple[str, str]]:
    for k, found in enumerate(cases):
        place = f"{where}, case {k}"
        case = read_as(Case, found, place)
        yield f"case {k} {case.id}", "; ".join(_case_differences(case, place))


def _case_differences(case: Case, where: str) -> Iterator[str]:
    layer, scratchpads = layer_of(case, where), scratchpads_of(case)
    try:
        shapes = Smaug().tensor_shapes(layer, scratchpads)
        pieces = Smaug().tensor_pieces(layer, scratchpads)
    except PenstockError as error:
        yield error.what
        return
    for key, expected in case.expect.items():
        yield from _tile_differences(key, expected, shapes, where)
    for name, dims in case.tiling_dims_derived.items():
        found = shapes.dims.get(_role(name, where))
        if str(found) != dims:
            yield f"{name} dims are {found}, expected {dims}"
    for name, tiles in case.expect_tiles.items():
        for difference in _tiles_differences(tiles, pieces[_role(name, where)], where):
            yield f"{name} tiles: {difference}"


def _tile_differences(key: str, expected: object, shapes: SmaugShapes, where: str) -> Iterator[str]:
    if key == "tiling_dims_named_by_test":
        return  # words of a title, says the file
    name, _, tile = key.rpartition("_")
    if tile != "tile":
        raise malformed(where, f"it is not known what {key} says")
    found = shapes.tiles.get(_role(name, where))
    if found != read_as(Extents, expected, f"{where}, {key}"):
        yield f"{key} is {_shown(found)}, expected {_shown(expected)}"


def _role(name: str, where: str) -> str:
    role = next((role for role, word in KEYWORDS.items() if word == name), None)
    if role is None:
        raise malformed(where, f"there is no tensor {name}")
    return role


def _tiles_differences(
    tiles: Tiles, pieces: tuple[tuple[Piece, ...], ...], where: str
) -> Iterator[str]:
    if unknown := list(tiles.model_extra or {}):
        raise malformed(where, f"it is not known what {unknown[0]} says")
    every = list(product(*pieces))
    starts = [tuple(start for start, _ in tile) for tile in every]
    counts = dict(zip("NHWC" if len(pieces) == 4 else "NC", map(len, pieces), strict=True))
    runs = tuple(
        (len(list(some)), shape)
        for shape, some in groupby(tuple(n for _, n in tile) for tile in every)
    )
    rows = [tile[1] if len(tile) == 4 else tile[0] for tile in every]
    found: dict[str, object] = {
        "n": len(every),
        "grid": {k: counts.get(k, 1) for k in tiles.grid or ()},
        "runs": runs,
        "channel_offset_rule": [start[-1] for start in starts],
        "element_offset_rule": [start[-1] for start in starts],
        "row_ranges": _ranges(rows, tiles.row_ranges),
    }
    for key, answer in found.items():
        said = getattr(tiles, key)
        if said is None:
            continue
        expected = said
        if key == "runs":
            expected = tuple((run.count, run.shape) for run in said)
        elif key.endswith("rule"):
            expected = [_offset(said, i, where) for i in range(len(every))]
        if answer != expected:
            yield f"{key} is {_shown(answer)}, expected {_shown(expected)}"


def _ranges(
    rows: Sequence[Piece], expected: Sequence[tuple[int, int]] | None
) -> tuple[tuple[int, int], ...]:
    """First and last row of every tile; repeated ranges once, if that many are expected."""
    some = rows
    if expected is not None and len(expected) != len(rows):
        some = list(dict.fromkeys(rows))
    return tuple((start, start + count - 1) for start, count in some)


RULE = re.compile(r"\(?i(?: mod (\d+))?\)?(?:\*(\d+))?|\(?i(?: div (\d+))?\)?(?:\*(\d+))?|(\d+)")


def _offset(rule: str, i: int, where: str) -> int:
    """The value of a rule such as "(i mod 6)*32" for tile i."""
    found = RULE.fullmatch(rule)
    if found is None:
        raise malformed(where, f'the rule "{rule}" is none such as "(i mod 6)*32"')
    modulus, times, divisor, times_too, constant = (int(n) if n else None for n in found.groups())
    if constant is not None:
        return constant
    i = i % modulus if modulus else i // divisor if divisor else i
    return i * (times or times_too or 1)


def scratchpads_of(case: Case) -> Scratchpads:
    """A scratchpad for each role."""
    return Scratchpads.separate(*(case.spad_bytes,) * 3, alignment=case.align)


def layer_of(case: Case, where: str) -> Layer:
    """The layer of a case.  Raises ModelError."""
    builders: Sequence[tuple[str, Callable[[Case], Layer | None]]] = (
        ("conv", _convolution),
        ("inner_product|fully_connected|fc", _connected),
        ("pool", _pooled),
        ("batch_norm", _scaled),
        ("softmax", _vectors),
        ("", _row),
    )
    build = next(build for words, build in builders if re.search(words, case.op))
    layer = build(case)
    if layer is None or case.padding not in ("same", "valid"):
        raise malformed(where, f"a layer of {case.op} is not described as its kind must be")
    return layer


def _convolution(case: Case) -> Layer | None:
    if case.kernel is None or case.ofmaps is None or len(case.input) != 4:
        return None
    axes, slid = _slid(case, case.kernel)
    n, _, _, c = case.input
    wide, deep = Dimension(case.ofmaps, "k"), Dimension(c, "c")
    taps = (Dimension(case.kernel[0]), Dimension(case.kernel[1]))
    return Layer(
        case.id,
        (Axis("n", n), *axes, Axis("k", case.ofmaps), Axis("c", c)),
        (
            _operand(case, INPUT, Dimension(n, "n"), *slid, deep),
            _operand(case, WEIGHTS, wide, *taps, deep),
        ),
        _operand(case, OUTPUT, Dimension(n, "n"), *_plain(axes), wide),
        prod(case.kernel),
    )


def _pooled(case: Case) -> Layer | None:
    if case.pool is None or len(case.input) != 4:
        return None
    axes, slid = _slid(case, case.pool)
    n, _, _, c = case.input
    batch, deep = Dimension(n, "n"), Dimension(c, "c")
    return Layer(
        case.id,
        (Axis("n", n), *axes, Axis("c", c)),
        (_operand(case, INPUT, batch, *slid, deep),),
        _operand(case, OUTPUT, batch, *_plain(axes), deep),
        prod(case.pool),
    )


def _connected(case: Case) -> Layer | None:
    if case.neurons is None or len(case.input) != 2:
        return None
    n, c = case.input
    batch, wide, deep = Dimension(n, "n"), Dimension(case.neurons, "k"), Dimension(c, "c")
    return Layer(
        case.id,
        (Axis("n", n), Axis("k", case.neurons), Axis("c", c)),
        (_operand(case, INPUT, batch, deep), _operand(case, WEIGHTS, wide, deep)),
        _operand(case, OUTPUT, batch, wide),
    )


def _scaled(case: Case) -> Layer | None:
    if case.weights is None or case.weights[1] != case.input[-1] or len(case.input) not in (2, 4):
        return None
    names = "nhwc" if len(case.input) == 4 else "nc"
    axes = [Axis(name, extent) for name, extent in zip(names, case.input, strict=True)]
    columns = _plain(axes)
    return Layer(
        case.id,
        tuple(axes),
        (
            _operand(case, INPUT, *columns),
            _operand(case, WEIGHTS, Dimension(case.weights[0]), columns[-1]),
        ),
        _operand(case, OUTPUT, *columns),
    )


def _vectors(case: Case) -> Layer:
    batch, width = Axis("n", case.input[0]), Dimension(case.input[1])
    dimensions = (*_plain([batch]), width)
    data = (_operand(case, INPUT, *dimensions), _operand(case, OUTPUT, *dimensions))
    return Layer(case.id, (batch,), data[:1], data[1])


def _row(case: Case) -> Layer | None:
    axes = [Axis(f"a{k}", extent) for k, extent in enumerate(case.input)]
    row = _plain(axes)
    roles = (INPUT, WEIGHTS) if case.op.startswith(("eltwise", "less", "greater")) else (INPUT,)
    return flattened(
        Layer(
            case.id,
            tuple(axes),
            tuple(_operand(case, role, *row) for role in roles),
            _operand(case, OUTPUT, *row),
        )
    )


def _operand(case: Case, role: str, *dimensions: Dimension) -> LayerOperand:
    return LayerOperand(KEYWORDS[role], role, dimensions, case.dtype_bytes)


def _plain(axes: Sequence[Axis]) -> tuple[Dimension, ...]:
    return tuple(Dimension(axis.extent, axis.name) for axis in axes)


def _slid(case: Case, window: Pair) -> tuple[tuple[Axis, ...], tuple[Dimension, ...]]:
    """Axes of rows and columns, and the input dimensions; odd padding comes first."""
    axes: list[Axis] = []
    slid: list[Dimension] = []
    for name, extent, size, stride in zip("hw", case.input[1:3], window, case.stride, strict=True):
        padding = size - 1 if case.padding == "same" else 0
        before = -(-padding // 2)
        axes.append(Axis(name, max(1, (extent + padding - size) // stride + 1)))
        slid.append(Dimension.sliding(extent, name, window=size, stride=stride, before=before))
    return tuple(axes), tuple(slid)


def _shown(value: object) -> str:
    return str(value).replace("(", "[").replace(")", "]").replace(",]", "]")
