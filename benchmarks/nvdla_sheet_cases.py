"""Cases of NVDLA's performance sheet: traffic and cycles of layers, totals, and frame rates.

A file holds networks with the sheet's figures, or layers of one network; frame rates are printed
for both. The name of the network or the origin in the file determines the page of the sheet.
Otherwise it is the page of ResNet-50, which counts additions on the fly, if the network has such
layers, and that of GoogLeNet if it has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field

from benchmarks.case_file import Document, Record, Section, malformed, read_as
from benchmarks.nvdla_sheet import (
    GOOGLENET,
    PAGES,
    RESNET,
    Hardware,
    LayerFigures,
    Page,
    SheetLayer,
    SheetLayerKind,
    SheetWindow,
    figures_of,
    frames_per_second,
)
from penstock.errors import PenstockError

NETWORKS = frozenset({"config", "nets"})
LAYERS = frozenset({"config", "layers"})
"""Top-level keys of the two formats."""

CORES = (
    (2048, 512, Fraction(20), "268.8"),
    (1024, 256, Fraction(15), "152.6"),
    (512, 256, Fraction(10), "93.0"),
    (256, 256, Fraction(5), "46.5"),
    (128, 256, Fraction(2), "20.0"),
    (64, 128, Fraction(1), "7.3"),
    (32, 128, Fraction(1, 2), "3.6"),
)
"""Multipliers, KiB of buffer and GB/s, with the published frame rates of ResNet-50.

Source: NVDLA primer, table of int8 ResNet-50 at 1 GHz, one decimal place.
"""

MEANINGS = {
    "in_kb": "in_kib",
    "min_in_kb": "least_in_kib",
    "out_kb": "out_kib",
    "w_kb": "weights_kib",
    "min_w_kb": "group_kib",
    "mac_cycles": "mac_cycles",
    "dram_kb": "dram_kib",
    "dram_cycles": "dram_cycles",
    "max_cycles": "cycles",
}
"""Names of figures by their keys in a file."""


def _fraction(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | Fraction) or value <= 0:
        raise ValueError("must be a number above 0")
    return Fraction(value)


def _figure(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError("must be a number")
    return Fraction(value)


def _kind(value: object) -> object:
    """A kind as the sheet writes it, with or without spaces."""
    known = {kind.value.replace(" ", ""): kind for kind in SheetLayerKind}
    found = known.get(str(value).lower().replace(" ", "").replace("eltwise", "elwise"))
    if found is None:
        raise ValueError(f"must be one of {', '.join(kind.value for kind in SheetLayerKind)}")
    return found


Positive = Annotated[Fraction, BeforeValidator(_fraction)]
Figure = Annotated[Fraction, BeforeValidator(_figure)]
Count = Annotated[int, Field(ge=1, le=1 << 24)]


class Config(Record):
    """The input of the sheet."""

    feature_bytes: Count = 1
    weight_bytes: Count = 1
    cbuf_kb: Positive
    macs: Count
    mhz: Positive
    dram_gbps: Positive
    fc_batch: Count = 1

    def value(self) -> Hardware:
        return Hardware(
            self.feature_bytes,
            self.weight_bytes,
            self.cbuf_kb,
            self.macs,
            self.mhz,
            self.dram_gbps,
            self.fc_batch,
        )


class Row(Record):
    """A row of the sheet: a layer, with its figures if the file has them."""

    name: str
    kind: Annotated[SheetLayerKind, BeforeValidator(_kind)] = SheetLayerKind.CONVOLUTION
    C: Count
    H: Count
    W: Count
    K: Count
    R: Count
    S: Count
    same: bool
    sv: Count
    sh: Count
    pool: tuple[Count, Count, Count, Count] | None = None
    wfac: bool = True
    cached: Mapping[str, Figure | None] | None = None

    def value(self) -> SheetLayer:
        window = SheetWindow(self.R, self.S, self.sv, self.sh)
        pool = SheetWindow(*self.pool) if self.pool else None
        return SheetLayer(
            self.name, self.kind, self.C, self.H, self.W, self.K, window, self.same, pool, self.wfac
        )

    @property
    def counted(self) -> bool:
        """Whether the sheet counts the layer; it gives no cycles to fused layers."""
        return self.cached is None or self.cached.get("max_cycles") is not None


class Net(Record):
    """A network, and the total cycles of its layers."""

    layers: tuple[Row, ...] = Field(min_length=1)
    total_cycles: Figure | None = None


def check(document: Document, where: str) -> tuple[Section, ...]:
    """Checks each network as a section.  Raises ModelError if the file is malformed."""
    hardware = read_as(Config, document["config"], f"{where}: config").value()
    origin = str(document.get("origin", ""))
    if "layers" in document:
        net = read_as(Net, {"layers": document["layers"]}, where)
        return (_layers_section(net, hardware, origin, where),)
    nets = document["nets"]
    if not isinstance(nets, Mapping) or not nets:
        raise malformed(f"{where}: nets", "there is no network")
    return tuple(
        _network_section(
            name, read_as(Net, found, f"{where}: {name}"), hardware, f"{where}: {name}"
        )
        for name, found in nets.items()
    )


def _network_section(name: str, net: Net, hardware: Hardware, where: str) -> Section:
    page = _page(name, net)
    pairs = list(_differences(net, hardware, page, where))
    rate = _rate(net, hardware, page, where)
    note = f"{float(rate):.1f} frames per second, by the page of {page.name}"
    return Section.of(name, pairs, (note,))


def _layers_section(net: Net, hardware: Hardware, origin: str, where: str) -> Section:
    """Frame rates at seven cores; those of ResNet-50 are compared with the published ones."""
    page = _page(origin, net)
    pairs = list(_differences(net, hardware, page, where))
    notes = [f"by the page of {page.name}"]
    for macs, buffer, gbps, published in CORES:
        core = hardware.sized(macs, buffer, gbps)
        found = f"{float(_rate(net, core, page, where)):.1f}"
        label = f"{macs} MACs, {buffer} KiB, {float(gbps):g} GB/s"
        notes.append(f"{label}: {found} frames per second")
        if _named(RESNET, origin):
            pairs.append(
                (label, f"{found} frames per second, published {published}" * (found != published))
            )
    return Section.of("layers", pairs, notes)


def _page(text: str, net: Net) -> Page:
    named = next((page for page in PAGES if _named(page, text)), None)
    added = any(row.kind is SheetLayerKind.WITH_ELEMENTWISE for row in net.layers)
    return named or (RESNET if added else GOOGLENET)


def _named(page: Page, text: str) -> bool:
    """Whether a text contains a page's network, in any spelling."""
    return page.name.lower().replace("-", "") in text.lower().replace("-", "")


def _rate(net: Net, hardware: Hardware, page: Page, where: str) -> Fraction:
    try:
        rows = [row.value() for row in net.layers if row.counted]
        return frames_per_second(rows, hardware, page)
    except PenstockError as error:
        raise malformed(where, error.what) from error


def _differences(net: Net, hardware: Hardware, page: Page, where: str) -> Iterator[tuple[str, str]]:
    """Differences of every layer with figures, and of the total."""
    try:
        figures = figures_of([row.value() for row in net.layers], hardware, page)
    except PenstockError as error:
        raise malformed(f"{where}, {error.where}", error.what) from error
    for k, (row, found) in enumerate(zip(net.layers, figures, strict=True)):
        if row.cached is not None:
            place = f"{where}, layer {k}"
            yield f"layer {k} {row.name}", "; ".join(_row_differences(row.cached, found, place))
    if net.total_cycles is not None:
        counted = zip(net.layers, figures, strict=True)
        total = sum((f.cycles for row, f in counted if row.counted), Fraction(0))
        yield "total", "; ".join(_differs("total_cycles", total, net.total_cycles))


def _row_differences(
    cached: Mapping[str, Fraction | None], found: LayerFigures, where: str
) -> Iterator[str]:
    if unknown := [key for key in cached if key not in MEANINGS]:
        raise malformed(where, f"it is not known what {unknown[0]} says")
    for key, expected in cached.items():
        if expected is not None:
            yield from _differs(key, getattr(found, MEANINGS[key]), expected)


def _differs(name: str, answer: Fraction, expected: Fraction) -> Sequence[str]:
    """The difference; empty if both are the same double, the number type of the sheet."""
    same = float(answer) == float(expected)
    return () if same else (f"{name} is {float(answer)!r}, expected {float(expected)!r}",)
