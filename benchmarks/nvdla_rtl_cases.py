"""Cases of NVDLA's RTL: cycles of hardware layers, and what streams leave in memory.

`rtl_cycles` lists hardware layers with the cycles from the last register write to the interrupt.
`rtl_streams` lists compiled networks: for each call, the CRCs of its stream and of the memory that
the RTL left.  A network is compiled and executed on the functional model; calls whose streams have
changed since the measurement are counted, but not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch
from zlib import crc32

from benchmarks.case_file import Document, Record, Section, malformed, read_as
from penstock import api
from penstock.errors import PenstockError
from penstock.pipeline.compilation import compile_request
from penstock.simulators.machine import Machine
from penstock_nvdla import programs
from penstock_nvdla.configurations import NvdlaConfiguration, configuration
from penstock_nvdla.layer import NvdlaMemory
from penstock_nvdla.model import Memories, execute
from penstock_nvdla.timing import (
    ConvolutionWork,
    PoolAxis,
    convolution_timing,
    pooling_timing,
    sdp_timing,
)

KEYS = frozenset({"rtl_cycles"})
"""Top-level keys."""
LEAST_SHARE, LARGEST_ERROR = 0.9, 0.1
"""The share of layers whose cycles must be within this relative error."""
FEATURES, WEIGHTS, ADDENDS, OPERANDS = "8", "9", "1", ("5", "6")
"""Identifiers of the read engines in beats of read data."""
BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Relative errors in the distribution."""


class Case(Record):
    """A hardware layer and the cycles that the RTL took."""

    name: str
    chip: str
    kind: str
    geometry: Mapping[str, Any]
    rtl_cycles: int
    read_beats_by_axi_id: Mapping[str, int]
    read_latency: int
    source: str


class Crcs(Record):
    """The CRCs of a call's stream, and of the memory after it, in hexadecimal."""

    stream: str
    memory: str


class Streams(Record):
    """A compiled network and its calls on the RTL."""

    network: str
    config: str
    calls: tuple[Crcs, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A layer with the cycles of the RTL and of the model."""

    name: str
    group: str
    rtl: int
    model: float

    @property
    def ratio(self) -> float:
        """Of the model's cycles to those of the RTL."""
        return self.model / self.rtl

    @property
    def agrees(self) -> bool:
        """Whether the cycles are within `LARGEST_ERROR`."""
        return abs(self.ratio - 1) <= LARGEST_ERROR


def check(document: Document, where: str) -> tuple[Section, ...]:
    """One section, which agrees if `LEAST_SHARE` of the layers do; its notes are the layers, the
    sums of each network, and the distribution.  Raises ModelError if the file is malformed."""
    layers = compared(document, where)
    agreed = sum(layer.agrees for layer in layers)
    right = agreed >= LEAST_SHARE * len(layers)
    worst = max(layers, key=lambda layer: abs(layer.ratio - 1))
    difference = "" if right else f"{worst.name}: {worst.model:.0f} cycles, not {worst.rtl}"
    title = f"cycles of {len(layers)} layers, {agreed} within {LARGEST_ERROR:.0%}"
    cycles = Section(title, 1, int(right), difference, tuple(_notes(layers)))
    streams = document.get("rtl_streams", ())
    if not isinstance(streams, list):
        return (cycles,)
    return (cycles, *(_memories(read_as(Streams, one, where)) for one in streams))


def _memories(measured: Streams) -> Section:
    """Compares the memory that each call of a network leaves in the functional model."""
    found = executed(measured.network, measured.config)
    pairs = list(zip(measured.calls, found, strict=False))
    same = [(call, crcs) for call, crcs in pairs if call.stream == crcs.stream]
    differences = (
        (f"call {call.stream}", "" if call == crcs else f"{crcs.memory}, not {call.memory}")
        for call, crcs in same
    )
    note = f"{len(measured.calls) - len(same)} of {len(measured.calls)} streams have changed"
    title = f"memories of {measured.network}, {measured.config}"
    return Section.of(title, differences, (note,) if len(same) < len(measured.calls) else ())


def executed(network: str, config: str) -> Sequence[Crcs]:
    """The CRCs of each call of a network on the functional model.

    Raises PenstockError if the network cannot be compiled."""
    engine = f"nvdla:config={config}"
    request = api.request(network, "host", accelerators=(engine,), optimize="speed")
    done = compile_request(request)
    found: list[Crcs] = []

    def recorded(stream: bytes, memories: Memories, *more: Any) -> object:
        traffic = execute(stream, memories, *more)
        after = memories[NvdlaMemory.MAIN].tobytes()
        found.append(Crcs(stream=f"{crc32(stream):08x}", memory=f"{crc32(after):08x}"))
        return traffic

    with patch.object(programs, "execute", recorded):
        for inputs in api.drawn_sets(done, 1):
            Machine(done.program).run(inputs)
    return found


def compared(document: Document, where: str) -> Sequence[Compared]:
    """The layers of a file.  Raises ModelError if it is malformed."""
    found = document["rtl_cycles"]
    if not isinstance(found, list) or not found:
        raise malformed(f"{where}: rtl_cycles", "there is no list of layers")
    return [_layer(one, f"{where}: rtl_cycles, layer {k}") for k, one in enumerate(found)]


def _layer(found: object, where: str) -> Compared:
    case = read_as(Case, found, where)
    try:
        chip = configuration(case.chip)
        chip = replace(chip, memory=replace(chip.memory, latency_cycles=case.read_latency))
        cycles = MODELS[case.kind](chip, case)
    except PenstockError as error:
        raise malformed(where, error.what) from error
    except (KeyError, TypeError, ValueError) as error:
        raise malformed(where, f"kind or geometry is incomplete: {error}") from error
    network = case.name.split("/")[0] if "/" in case.name else case.source
    return Compared(case.name, f"{case.chip}, {network}, {case.kind}", case.rtl_cycles, cycles)


def _convolution(chip: NvdlaConfiguration, case: Case) -> float:
    g, beats = case.geometry, case.read_beats_by_axi_id
    width, _, channels = map(int, g["input"])
    out_width, out_height = map(int, g["output"])
    taps = int(g["kernel"][0]) * int(g["kernel"][1])
    packs = -(-channels // chip.memory_atom_bytes)
    features = beats.get(FEATURES, 0) * chip.memory.bytes_per_cycle
    work = ConvolutionWork(
        points=out_width * out_height,
        steps=taps * -(-channels // chip.atomic_c),
        kernels=int(g["kernels"]),
        rows=features // (width * packs * chip.memory_atom_bytes),
        packs=packs,
        feature_bytes=features,
        weight_bytes=beats.get(WEIGHTS, 0) * chip.memory.bytes_per_cycle,
        kernel_bytes=taps * channels,
        weight_banks=int(g["weight_banks"]),
        operands=any(beats.get(engine) for engine in OPERANDS),
        element_bytes=_element_beats(case) * chip.memory.bytes_per_cycle,
    )
    before = None
    for _ in range(int(g.get("overlapped", 0))):  # of equal convolutions, each during the last one
        *_, before = convolution_timing(chip, work, before)
    return convolution_timing(chip, work, before)[0]


def _element_beats(case: Case) -> int:
    """The beats of SDP's operands, if there is one for each element."""
    per_point = case.geometry.get("operands") == "point"
    return sum(case.read_beats_by_axi_id.get(engine, 0) for engine in OPERANDS) * per_point


def _sdp(chip: NvdlaConfiguration, case: Case) -> float:
    g = case.geometry
    width, height, channels = map(int, g["cube"])
    packs = width * height * -(-channels // chip.memory_atom_bytes)
    per_point = [g[name] for name in ("brdma", "nrdma") if g[name] and g[name]["per"] == "point"]
    through_y = not g["y_bypass"] and chip.rates.elementwise > 0
    tensors = 1 + len(per_point) + through_y
    return sdp_timing(chip, packs, tensors, through_y=through_y)[0]


def _pool(chip: NvdlaConfiguration, case: Case) -> float:
    g = case.geometry
    width, height, channels = map(int, g["input"])
    (window_x, window_y), (stride_x, stride_y) = g["kernel"], g["stride"]
    left, top, right, bottom = g["pad_left_top_right_bottom"]
    return pooling_timing(
        chip,
        -(-channels // chip.memory_atom_bytes),
        PoolAxis(width, window_x, stride_x, left, right),
        PoolAxis(height, window_y, stride_y, top, bottom),
        overlap=(int(g["split"]) - 1) * (window_x - stride_x),
    )[0]


MODELS = {"conv": _convolution, "sdp": _sdp, "pdp": _pool}
"""The model of each kind of layer."""


def _notes(layers: Sequence[Compared]) -> Iterator[str]:
    for layer in layers:
        mark = "" if layer.agrees else "  DIFFERS"
        yield f"{layer.name}: RTL {layer.rtl}, model {layer.model:.0f} ({layer.ratio:.3f}){mark}"
    for group in dict.fromkeys(layer.group for layer in layers):
        own = [layer for layer in layers if layer.group == group]
        rtl, model = sum(layer.rtl for layer in own), sum(layer.model for layer in own)
        agreed = sum(layer.agrees for layer in own)
        yield (
            f"{group}: {agreed} of {len(own)} layers within {LARGEST_ERROR:.0%}, "
            f"RTL {rtl}, model {model:.0f} ({model / rtl:.3f})"
        )
    for bound in BOUNDS:
        within = sum(abs(layer.ratio - 1) <= bound for layer in layers)
        yield f"within {bound:.0%}: {within} of {len(layers)} ({within / len(layers):.1%})"
