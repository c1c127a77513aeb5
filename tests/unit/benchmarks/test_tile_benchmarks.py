"""Lower bounds of groups in tiles."""

from __future__ import annotations

from functools import cache

from benchmarks.compiled_partition import engine_cycles, main_bytes
from benchmarks.tile_bounds import bounds
from benchmarks.tiled_groups import tiled_groups
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.scheduling.options import BYTES, Options
from penstock_nvdla.configurations import LARGE

CVSRAM_BYTES = 8 << 10


@cache
def compiled(model: Graph | str) -> Compilation:
    options = Options(partition="best", objective=BYTES)
    nvdla = f"nvdla:config=large,cvsram={CVSRAM_BYTES}"
    return compile_request(api.request(model, "host", accelerators=(nvdla,), options=options))


def test_the_bounds_of_a_layer_are_its_points_and_its_weights() -> None:
    net = GraphBuilder("single")
    done = compiled(net.build(net.conv2d(net.input((1, 13, 13, 32)), 64, 3)))
    found = bounds(done)
    weights, table, output = 9 * 32 * 64, 3 * 4 * 64, 13 * 13 * 64
    assert found.cycles == 9 * (64 // LARGE.atomic_k) * 13 * 13
    assert 13 * 13 * 32 < CVSRAM_BYTES < output
    assert found.main_bytes == weights + table + output


def test_groups_in_tiles_do_not_beat_the_bounds() -> None:
    done = compiled("zoo:resnet8")
    assert list(tiled_groups(done))
    assert bounds(done).cycles <= engine_cycles(done.schedule)
    assert bounds(done).main_bytes <= main_bytes(done.schedule)
