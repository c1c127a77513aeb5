"""The resource figure: one group of bars per layer, with the limiting resource emphasised."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from penstock import api
from penstock.accelerators.nvdla import Nvdla
from penstock.hardware.load import load_target
from penstock.ir.breakdown import Breakdown
from penstock.pipeline.request import Request
from penstock.reports.report import LayerReport
from penstock.reports.resource_figure import resource_figure, resource_png, resource_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def layers() -> tuple[LayerReport, ...]:
    chip = load_target("host")
    nvdla = Nvdla().accelerator({"config": "large"}, chip)
    return api.compile(Request("zoo:resnet8", chip, accelerators=(nvdla,))).layers


def words(svg: str) -> list[str]:
    """Every text of the picture."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def drawn(layers: tuple[LayerReport, ...]) -> list[tuple[float, float, tuple[float, ...]]]:
    """Width, height and colour of each bar."""
    from matplotlib.collections import PolyCollection

    (axes,) = resource_figure(layers).axes
    bars = [c for c in axes.collections if isinstance(c, PolyCollection)]
    found: list[tuple[float, float, tuple[float, ...]]] = []
    for bar in bars:
        for path, color in zip(bar.get_paths(), bar.get_facecolor(), strict=True):
            box = path.get_extents()
            found.append((box.width, box.height, tuple(color)))
    return found


def test_every_layer_on_the_accelerator_is_there_with_what_limits_it(
    layers: tuple[LayerReport, ...],
) -> None:
    svg = resource_svg(layers)
    assert svg is not None
    found = words(svg)
    offloaded = [layer for layer in layers if layer.breakdown]
    assert offloaded
    for layer in offloaded:
        assert layer.breakdown is not None
        assert f"{layer.cycles:,}" in found
        needed = round(layer.breakdown.by_resource[layer.limit or ""])
        assert f"{layer.limit} {needed:,}" in found
    assert "Softmax" not in found


def test_bars_are_as_long_as_cycles_and_the_limiting_one_is_the_thickest(
    layers: tuple[LayerReport, ...],
) -> None:
    layer = next(layer for layer in layers if layer.breakdown)
    needs = {"a": 40.0, "b": 90.0, "c": 0.0}
    one = dataclasses.replace(layer, breakdown=Breakdown(100, needs))
    *legend, whole, limit, a, c = drawn((one,))
    assert len(legend) == 4
    widths = [width / whole[0] for width, _, _ in (limit, a, c)]
    assert widths == [pytest.approx(0.9), pytest.approx(0.4), pytest.approx(0.0)]
    assert limit[1] > 2 * a[1] == 2 * c[1]
    assert [bar[2] for bar in (a, limit, c, whole)] == [swatch[2] for swatch in legend]


def test_the_same_layers_give_the_same_bytes(layers: tuple[LayerReport, ...]) -> None:
    assert resource_svg(layers) == resource_svg(layers)
    picture = resource_png(layers)
    assert picture is not None
    assert picture[:4] == b"\x89PNG"
    assert picture == resource_png(layers)


def test_names_are_only_names(layers: tuple[LayerReport, ...]) -> None:
    odd = [dataclasses.replace(layer, name=f"<b>$x_{k}$&\x1b{k}") for k, layer in enumerate(layers)]
    svg = resource_svg(odd)
    assert svg is not None
    assert "<b>$x_2$&\ufffd2" in words(svg)


def test_there_is_none_where_nobody_says_what_layers_need(layers: tuple[LayerReport, ...]) -> None:
    plain = [dataclasses.replace(layer, breakdown=None) for layer in layers]
    assert (resource_svg(plain), resource_png(plain)) == (None, None)
