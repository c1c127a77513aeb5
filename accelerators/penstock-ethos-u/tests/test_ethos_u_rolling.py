"""ethos_u.interpreter: two layers in stripes, with a ring of rows between them, by tile boxes."""

from __future__ import annotations

from typing import Any

import pytest

from ethos_u_layers import LAYOUTS, Stage, api

ROWS, WIDTH, DEPTH, WINDOW = 12, 5, 20, 3


def ring(whole: Any, rows: int, lower: int, upper: int) -> Any:
    """Rows [lower, upper) of a map of which some rows lie, each at its number modulo `rows`."""
    map = api.NpuFeatureMap()
    for name in ("data_type", "region", "layout", "quantization", "strides"):
        setattr(map, name, getattr(whole, name))
    map.shape = whole.shape._replace(height=upper - lower)
    base, stride = whole.tiles.addresses[0], whole.strides.height
    before = rows - lower % rows
    map.tiles = api.NpuTileBox(
        min(before, upper - lower), 0, WIDTH, [base + lower % rows * stride, 0, base, 0]
    )
    return map


def pooled(stage: Stage, ifm: Any, ofm: Any, window: int) -> None:
    op = api.NpuPoolingOperation(api.NpuPoolingOp.MAX)
    op.ifm, op.ofm = ifm, ofm
    op.kernel, op.padding = api.NpuKernel(1, window), api.NpuPadding(0, 0, 0, 0)
    stage.add(op)


def striped(layout: str, rows: int, stripe: int) -> tuple[Any, Any]:
    """What comes out, and what should: the greatest of three rows, of a copy in a ring."""
    stage = Stage("ethos-u55-256")
    first = stage.map((ROWS, WIDTH, DEPTH), layout=layout)
    between = stage.map((rows, WIDTH, DEPTH), layout=layout)
    last = stage.map((ROWS - WINDOW + 1, WIDTH, DEPTH), layout=layout)
    image = stage.filled(first)
    done = 0
    for lower in range(0, last.shape.height, stripe):
        upper = min(lower + stripe, last.shape.height)
        needed = upper + WINDOW - 1
        pooled(stage, ring(first, ROWS, done, needed), ring(between, rows, done, needed), 1)
        pooled(stage, ring(between, rows, lower, needed),
               ring(last, last.shape.height, lower, upper), WINDOW)  # fmt: skip
        done = needed
    stage.run()
    expected = [
        [
            [max(image[y + k][x][c] for k in range(WINDOW)) for c in range(DEPTH)]
            for x in range(WIDTH)
        ]
        for y in range(ROWS - WINDOW + 1)
    ]
    return stage.result(last), expected


@pytest.mark.parametrize("stripe", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ring_of_just_enough_rows_is_right(layout: str, stripe: int) -> None:
    found, expected = striped(layout, WINDOW - 1 + stripe, stripe)
    assert found == expected


@pytest.mark.parametrize("stripe", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ring_that_is_one_row_too_small_is_found(layout: str, stripe: int) -> None:
    found, expected = striped(layout, WINDOW - 2 + stripe, stripe)
    assert found != expected
