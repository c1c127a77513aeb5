"""ethos_u: rows as tiles, exactness, buffers for constants, against plain counting."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.ethos_u import point_cycles
from offloading import assert_exact, compiled
from penstock.fixedpoint import quantise_multiplier
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.transpose import Transpose
from penstock.ops.unary import Logistic
from penstock.program.program import Kind
from penstock_ethos_u.configurations import CONFIGURATIONS, U55_32, MapShape, configuration
from penstock_ethos_u.constraints import ELEMENTS, average_is_exact, sum_is_exact
from penstock_ethos_u.operation import NpuFunction, Operation, SecondInput, fastest_copy
from penstock_ethos_u.tiles import tiles_of


def rows_of(tiles: tuple[int, int, int, int, int], count: int) -> list[int]:
    """Where the hardware finds each row."""
    pitch, height, first, second, _ = tiles
    return [
        first + row * pitch if row < height else second + (row - height) * pitch
        for row in range(count)
    ]


@given(
    st.lists(st.integers(0, 50).map(lambda k: 16 * k), min_size=1, max_size=7, unique=True),
    st.booleans(),
)
def test_tiles_are_where_the_rows_are(offsets: list[int], backwards: bool) -> None:
    found = tiles_of(offsets, 16, backwards=backwards)
    if found is not None:
        assert rows_of(found, len(offsets)) == offsets
        assert backwards or found.pitch > 0
        return
    assert len(offsets) > 2 + backwards
    for height in range(1, len(offsets)):  # no other cut would do either
        pieces = offsets[:height], offsets[height:]
        steps = {b - a for piece in pieces for a, b in pairwise(piece)}
        assert len(steps) > 1 or (min(steps) < 0 and not backwards)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 100))
def test_a_ring_with_its_seam_is_two_tiles(ring: int, rows: int, first: int) -> None:
    rows = min(rows, ring)
    offsets = [(first + row) % ring * 32 for row in range(rows)]
    found = tiles_of(offsets, 32)
    assert found is not None
    assert rows_of(found, rows) == offsets


def pool(size: int, kernel: int, before: int) -> Operation:
    out = size + before - kernel + 1
    return Operation(
        U55_32, NpuFunction.AVERAGE, size, 1, 1, out, 1, 1, kernel_h=kernel, pad_top=before
    )


@pytest.mark.parametrize(("size", "kernel", "before"), [(9, 3, 1), (8, 8, 0), (30, 25, 0)])
def test_averages_are_exact(size: int, kernel: int, before: int) -> None:
    assert average_is_exact(pool(size, kernel, before)) is True


def test_an_average_is_the_rounded_quotient_of_every_sum() -> None:
    """As the package scales averages: a product with the reciprocal, rounded twice."""
    for count in (1, 2, 3, 7, 9, 25, 49):
        bits = (count - 1).bit_length()
        scale, shift = ((1 << (31 + bits)) + (1 << bits)) // count, 31 + bits
        for total in range(-128 * count, 127 * count + 1):
            away = Fraction(abs(total), count) + Fraction(1, 2)
            wanted = (1 if total >= 0 else -1) * (away.numerator // away.denominator)
            nudge = ((1 << 30) if total >= 0 else -(1 << 30)) if shift > 31 else 0
            assert (total * scale + (1 << (shift - 1)) + nudge) >> shift == wanted


def test_a_sum_of_terms_whose_multipliers_are_both_below_a_half_is_refused() -> None:
    """TFLite has none: one scale is the larger one."""
    small = quantise_multiplier(0.3)
    op = Operation(
        U55_32, NpuFunction.ADD, 1, 1, 1, 1, 1, 1, second=SecondInput(MapShape(1, 1, 1)),
        multiplier0=small[0], shift0=small[1], multiplier1=small[0], shift1=small[1],
        out_multiplier=1 << 30, out_shift=-18,
    )  # fmt: skip
    assert sum_is_exact(op, ELEMENTS) == "neither of its terms has the larger scale"
    half = replace(op, multiplier0=1 << 30, shift0=0)
    assert sum_is_exact(half, ELEMENTS) is True


def wide() -> Graph:
    """A layer whose weights several columns of blocks read."""
    net = GraphBuilder("wide")
    return net.build(net.conv2d(net.input((1, 28, 28, 128)), 136, 1, name="wide"))


@pytest.mark.parametrize("layout", ["nhwc", "nhcwb16"])
def test_constants_are_copied_where_that_is_faster_and_there_is_room(layout: str) -> None:
    """The fastest point copies segments of weights, the least one reads them where they lie."""
    done = compiled(wide(), f"ethos_u55:macs=256,layout={layout}")
    least, *_, fastest = done.points
    assert least.schedule.cost.cycles > fastest.schedule.cost.cycles
    reading, copying = (
        plan.kernel(k, point.schedule.parts.parts[k]).name
        for point in (least, fastest)
        for plan in point.schedule.plans
        for k in plan.parts
    )
    assert reading == "ethos_u"
    assert copying in ("ethos_u_buffered", "ethos_u_fetched_1")  # maybe the first one earlier
    assert any(b.kind is Kind.SCRATCH for b in done.program.buffers)
    assert_exact(done, "points")


def test_in_sram_alone_nothing_is_copied() -> None:
    done = compiled(wide(), "ethos_u55:macs=256,memory_mode=sram_only")
    assert not any(b.kind is Kind.SCRATCH for b in done.program.buffers)


def test_scattered_rows_of_a_large_window_are_gathered() -> None:
    """Stripes of a window of five rows, which a schedule may put anywhere."""
    net = GraphBuilder("tall", seed=3)
    x = net.conv2d(net.input((1, 24, 24, 4)), 8, 3, name="a")
    y = net.depthwise_conv2d(x, 5, name="b")
    done = compiled(net.build(net.conv2d(y, 8, (7, 1), name="c")), "ethos_u55:macs=32")
    assert len(done.points) > 3
    assert_exact(done, "points")


def test_every_element_of_every_layer_equals_the_model() -> None:
    """Without bricks nothing is left out: each layer's output is a tensor of the model."""
    net = GraphBuilder("chain", seed=5)
    x = net.conv2d(net.input((1, 11, 9, 3)), 24, 3, 2, activation="relu", name="a")
    x = net.add(net.conv2d(x, 24, 1, name="b"), x, "relu6", name="c")
    x = net.max_pool2d(net.depthwise_conv2d(x, 3, name="d"), 2, 2, name="e")
    graph = net.build(net.fully_connected(net.average_pool2d(x, (3, 2), 2, name="f"), 7, name="g"))
    for macs in (32, 64, 128, 256):
        done = compiled(graph, f"ethos_u55:macs={macs},layout=nhwc")
        assert not done.parts.cpu_fallbacks
        assert_exact(done, "points")


@pytest.mark.parametrize("shape", [(1, 5, 4, 6), (1, 1, 20, 6)])
def test_a_dense_layer_has_the_constants_of_one_of_a_row(shape: tuple[int, ...]) -> None:
    """Channels of an image are not rounded up: its input is contiguous, so it is one pixel."""
    sizes = set[int]()
    for each in (shape, (1, 120)):
        net = GraphBuilder("dense", seed=1)
        done = compiled(net.build(net.fully_connected(net.input(each), 9)), "ethos_u85:macs=256")
        assert_exact(done, "machine")
        constants = [b for b in done.program.buffers if b.kind is Kind.CONSTANT]
        sizes.add(sum(b.size_bytes for b in constants if not b.is_stream))
    assert len(sizes) == 1


@pytest.mark.parametrize("last", ["softmax", "logistic"])
def test_tables_are_copied_while_an_earlier_layer_runs(last: str) -> None:
    net, unit = GraphBuilder("tables", seed=1), Quantisation((1 / 256,), (-128,))
    x = net.fully_connected(net.input((1, 25, 20, 8)), 12)
    y = net.softmax(x) if last == "softmax" else net.apply(Logistic(), x, quantisation=unit)
    done = compiled(net.build(y), "ethos_u85:macs=256")
    schedule = done.points[-1].schedule
    kernels = [p.kernel(k, schedule.parts.parts[k]).name for p in schedule.plans for k in p.parts]
    assert kernels[-1] == "ethos_u_fetched_1"
    assert_exact(done, "points")
    chip = configuration("ethos-u85", 256, "shared_sram")
    for point in done.points:
        assert point.schedule.cost.cycles == point_cycles(point, done.request.accelerators, chip)


@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=128", "ethos_u65:macs=512", "ethos_u85"])
def test_channels_of_a_pixel_are_exchanged_by_a_convolution(accelerator: str) -> None:
    """Copies of single channels would take many times as long as the layer before."""
    net = GraphBuilder("shuffle", seed=1)
    x = net.conv2d(net.input((1, 16, 16, 4)), 24, 1, name="before")
    x = net.reshape(x, (1, 16, 16, 2, 12))
    x = net.apply(Transpose((0, 1, 2, 4, 3)), x, quantisation=x.type.quantisation, name="shuffle")
    done = compiled(net.build(net.reshape(x, (1, 16, 16, 24))), accelerator)
    assert not done.parts.cpu_fallbacks
    assert_exact(done, "points")
    before, shuffle = (plan.costs[0].cycles for plan in done.points[-1].schedule.plans)
    assert shuffle < 4 * before


def test_copies_take_the_faster_operation() -> None:
    for chip in CONFIGURATIONS.values():
        plain = Operation(chip, NpuFunction.COPY, 32, 32, 52, 32, 32, 52)
        every = (plain, fastest_copy(plain))
        found = [op.fastest_block_and_cycles(op.work(op.out_h)) for op in every]
        slow, fast = (float(one[1].total[0]) for one in found if one is not None)
        assert fast <= (slow if chip.macs == 32 or chip.macs > 512 else slow * 0.7)


@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=256", "ethos_u85:macs=128"])
def test_tables_are_looked_up_in_blocks_of_channels(accelerator: str) -> None:
    net, unit = GraphBuilder("tables", seed=1), Quantisation((1 / 256,), (-128,))
    x = net.conv2d(net.input((1, 9, 7, 3)), 20, 1, name="before")
    y = net.apply(Logistic(), x, quantisation=unit)
    done = compiled(net.build(net.conv2d(y, 17, 1, name="after")), accelerator)
    assert not done.parts.cpu_fallbacks
    assert_exact(done, "points")
