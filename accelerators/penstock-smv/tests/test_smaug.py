"""SMAUG's tiler: what it moves, that ours never moves more, and what it does not tile."""

from __future__ import annotations

import json
from math import prod
from random import Random

import pytest

import beside
from benchmarks.smaug_cases import Case, layer_of, scratchpads_of
from penstock.errors import CapacityError, UnsupportedError
from penstock.tiling.layer import Axis, Dimension, Layer, LayerOperand, Scratchpads, flattened
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import choose
from penstock_smv.smaug import Smaug
from tile_layers import convolution

SHARED = beside.CASES / "smaug_tiling.json"
SIZED = Scratchpads.separate(32768, 32768, 32768, alignment=8)


def test_it_moves_what_smaug_moves() -> None:
    """In 31 row tiles and 8 tiles of weights, which are read again for each: figures from SMAUG's
    own loop nest, counted by hand."""
    tiling = choose(Smaug(), convolution((1, 32, 64, 32), 1024, (2, 2)), SIZED)
    assert [len(tiling.tiles[axis]) for axis in "nhwkc"] == [1, 31, 1, 8, 1]
    assert [moved.elements for moved in tiling.moved] == [126_976, 4_063_232, 2_097_152]


def test_it_cannot_tile_the_second_layer_of_vgg() -> None:
    with pytest.raises(CapacityError) as caught:
        choose(Smaug(), convolution((1, 224, 224, 64), 64, (3, 3)), SIZED)
    assert caught.value.code == "tiling-003"


def drawn_convolution(seed: int) -> Layer:
    dice = Random(seed)
    shape = (dice.choice((1, 1, 2)), dice.randint(8, 70), dice.randint(8, 70),
             dice.choice((3, 8, 20, 32, 64, 128, 192, 512)))  # fmt: skip
    window, step = (dice.randint(1, 5), dice.randint(1, 5)), dice.randint(1, 2)
    outputs, same = dice.choice((8, 16, 20, 64, 256, 512)), dice.random() < 0.6
    return convolution(shape, outputs, window, (step, step), same=same)


def test_ours_never_moves_more_for_convolutions_drawn() -> None:
    tiled = 0
    for seed in range(40):
        layer = drawn_convolution(seed)
        ours = LeastTraffic().tile(layer, SIZED)
        try:
            theirs = choose(Smaug(), layer, SIZED)
        except CapacityError:
            continue
        assert ours.bytes <= theirs.bytes, f"seed {seed}"
        tiled += 1
    assert tiled > 25


@beside.need(SHARED)
def test_ours_never_moves_more_for_the_shared_layers() -> None:
    layers = 0
    for found in json.loads(SHARED.read_text("utf-8"))["cases"]:
        case = Case.model_validate(found)
        layer, scratchpads = layer_of(case, case.id), scratchpads_of(case)
        theirs = choose(Smaug(), layer, scratchpads)
        assert LeastTraffic().tile(layer, scratchpads).bytes <= theirs.bytes
        layers += 1
    assert layers > 10


def test_tiles_join_where_smaug_s_own_pieces_do_not() -> None:
    """Where a tile has as many rows as the window, SMAUG does not trim the first one, and loses a
    row at the end; the pieces say so, the cuts cover every row."""
    layer = convolution((1, 31, 48, 64), 128, (4, 1), (3, 3))
    rows = Smaug().tensor_pieces(layer, SIZED)["output"][1]
    tiling = choose(Smaug(), layer, SIZED)
    assert sum(rows[-1]) < tiling.tiles["h"][-1][1] == layer.axis("h").extent


def test_weights_share_their_scratchpad_with_a_bias() -> None:
    layer = convolution((1, 1, 1, 64), 1024, (1, 1))
    bias = LayerOperand("b", "weights", (Dimension(1024, "k"),), 4)
    with_bias = Layer("biased", layer.axes, (*layer.inputs, bias), layer.output)
    tilings = [choose(Smaug(), each, SIZED) for each in (layer, with_bias)]
    assert not tilings[1].faults
    assert len(tilings[1].tiles["k"]) > len(tilings[0].tiles["k"])


def test_a_flattened_layer_is_a_row_of_elements() -> None:
    box = tuple(Dimension(n, name) for n, name in ((40, "h"), (50, "w"), (30, "c")))
    axes = tuple(Axis(d.axis or "", d.size) for d in box)
    layer = Layer(
        "sum", axes, (LayerOperand("x", "input", box, 2),), LayerOperand("y", "output", box, 2)
    )
    row = flattened(layer)
    assert row is not None
    tiling = choose(Smaug(), row, SIZED)
    assert [upper - lower for lower, upper in tiling.tiles["i"]] == [16384] * 3 + [10848]


@pytest.mark.parametrize("scratchpads", [SIZED, Scratchpads.shared(98304)])
def test_what_it_has_no_rule_for_is_refused(scratchpads: Scratchpads) -> None:
    box = tuple(Dimension(n, name) for n, name in ((40, "h"), (50, "w"), (30, "c")))
    axes = tuple(Axis(d.axis or "", d.size) for d in box)
    layer = Layer("sum", axes, (LayerOperand("x", "input", box),), LayerOperand("y", "output", box))
    with pytest.raises(UnsupportedError, match="no rule") as caught:
        choose(Smaug(), layer, scratchpads)
    assert caught.value.code == "tiling-006"


ORDER = ("", "N", "NC", "NH", "NW", "NHW", "NCH", "NCW")
"""Source: "Tiling strategies" of SMAUG's page, and its list of strategies."""
MINIMUM = {
    "convolution": lambda rows, columns, width: (1, rows, width, 32),
    "pool": lambda rows, columns, width: (1, rows, columns, 8),
    "batch_norm": lambda rows, columns, width: (1, 8, 8, 8),
    "fc": lambda rows, columns, width: (1, 32),
}
"""The smallest useful tile of an operator's input."""


@pytest.mark.parametrize("operator", MINIMUM)
def test_inputs_are_split_along_the_first_dimensions_that_make_the_smallest_tile_fit(
    operator: str,
) -> None:
    """The page's order: nothing; the batch; the batch and one dimension; the batch and two."""
    dice, found = Random(operator), set[str]()
    for _ in range(300):
        rows, columns, size = dice.randint(1, 5), dice.randint(1, 5), 2 ** dice.randint(8, 15)
        extents = (dice.randint(1, 4), dice.randint(8, 90), dice.randint(8, 90))
        channels = 8 * dice.randint(1, 4) if dice.random() < 0.5 else 32 * dice.randint(1, 60)
        shape = (extents[0], channels) if operator == "fc" else (*extents, channels)
        least = MINIMUM[operator](rows, columns, shape[-2])
        letters = "NC" if operator == "fc" else "NHWC"
        part = dict(zip(letters, zip(shape, least, strict=True), strict=True))
        case = Case.model_validate(
            {
                "id": "drawn", "op": operator, "input": shape, "kernel": (rows, columns),
                "pool": (rows, columns), "ofmaps": 1, "neurons": 1, "weights": (4, channels),
                "dtype_bytes": 1, "spad_bytes": size,
            }
        )  # fmt: skip
        fitting = (
            order
            for order in ORDER
            if set(order) <= set(part)
            and prod(min(pair) if letter in order else pair[0] for letter, pair in part.items())
            <= size
        )
        expected = next(fitting, None)
        try:
            dims = Smaug().tensor_shapes(layer_of(case, "drawn"), scratchpads_of(case)).dims
        except (CapacityError, UnsupportedError):
            continue  # Another tensor may not fit.
        assert dims["input"].value == expected, (shape, rows, columns, size)
        found.add(expected)
    assert len(found) >= (3 if operator == "fc" else 4)
