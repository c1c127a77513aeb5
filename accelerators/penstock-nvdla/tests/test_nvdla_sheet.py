"""NVDLA's performance sheet: manually computed figures for each of its pages."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.nvdla_sheet import (
    ALEXNET,
    GOOGLENET,
    RESNET,
    Hardware,
    Page,
    SheetLayer,
    SheetLayerKind,
    SheetWindow,
    figures_of,
    frames_per_second,
)
from penstock_nvdla.configurations import CONFIGURATIONS, configuration

HARDWARE = Hardware(1, 1, Fraction(2), 64, Fraction(100), Fraction(1), 2)
PLAIN = SheetLayer(
    "plain", SheetLayerKind.CONVOLUTION, 16, 8, 8, 64, SheetWindow(1, 1, 1, 1), False
)
STREAMED = SheetLayer(
    "streamed", SheetLayerKind.CONVOLUTION, 16, 8, 8, 64, SheetWindow(3, 3, 1, 1), True
)
CONNECTED = SheetLayer(
    "connected", SheetLayerKind.FULLY_CONNECTED, 64, 1, 1, 10, SheetWindow(1, 1, 1, 1), False
)
LAYERS = (PLAIN, STREAMED, CONNECTED)

ON_PAPER: tuple[tuple[Page, tuple[float, ...], tuple[int, ...]], ...] = (
    (ALEXNET, (6, 21, 0.390625), (1024, 4096, 16)),
    (GOOGLENET, (6, 31, 0.703125), (1024, 4096, 16)),
    (RESNET, (6, 21, 0.703125), (2048, 8192, 64)),
)
"""By page, KiB of traffic and cycles of multiplications of the three layers."""


@pytest.mark.parametrize(
    ("page", "traffic", "cycles"), ON_PAPER, ids=lambda x: getattr(x, "name", "")
)
def test_pages_count_as_worked_out_on_paper(
    page: Page, traffic: tuple[float, ...], cycles: tuple[int, ...]
) -> None:
    figures = figures_of(LAYERS, HARDWARE, page)
    assert tuple(f.dram_kib for f in figures) == traffic
    assert tuple(f.mac_cycles for f in figures) == cycles
    assert tuple(f.dram_cycles for f in figures) == tuple(
        -(-int(t * 64) * 100 // 64) for t in traffic
    )


def test_layers_report_the_limiting_resource() -> None:
    assert [f.limit for f in figures_of(LAYERS, HARDWARE, GOOGLENET)] == ["MAC", "MAC", "DRAM"]


def test_frames_per_second_are_cycles_turned_round() -> None:
    cycles = 1024 + 4096 + 71
    assert frames_per_second(LAYERS, HARDWARE, GOOGLENET) == Fraction(100_000_000, cycles)


def test_a_first_layer_is_counted_with_a_row_ahead() -> None:
    first, second = figures_of((STREAMED, STREAMED), HARDWARE, RESNET)
    assert (first.least_in_kib, second.least_in_kib) == (Fraction(1, 2), Fraction(3, 8))
    assert (first.group_kib, first.weights_kib) == (1, 16)
    assert (first.dram_kib, second.dram_kib) == (1 + 16 + 4, 1 + 16 + 4)
    wider = Hardware(2, 1, Fraction(2), 64, Fraction(100), Fraction(1), 2)
    # Two KiB of input with the weights of a group beside them: twice all weights.
    assert figures_of((PLAIN, STREAMED), wider, RESNET)[1].dram_kib == 2 * 16 + 2 + 8


def test_configurations_are_nvdlas() -> None:
    figures = {c.name: (c.macs, c.buffer_bytes // 1024) for c in CONFIGURATIONS.values()}
    assert figures == {"small": (64, 128), "small_256": (256, 128), "large": (2048, 512)}
    assert configuration("nv_large") is configuration("large")
