"""sequencer: the time that hardware layers take in the functional model, the banks that they may
access, and which of them may overlap.

The time follows from a layer's registers and from the bytes that the functional model has counted
(`timing.py`); `dataflow.py` predicts the same time when a network is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.uma import Array
from penstock_nvdla.buffer import ConvolutionBuffer
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import ConvolutionLayer, NvdlaMemory, Surface, fits_beside
from penstock_nvdla.sizes import HardwareLayer, LayerTraffic
from penstock_nvdla.stream import invalid_stream
from penstock_nvdla.timing import LayerBefore, layer_timing


@dataclass
class Sequencer:
    """The state of the accelerator from stream to stream.

    cycles: the cycles that all layers so far have taken.
    port_bytes: the bytes that all layers so far have transferred, by memory.
    buffer: the contents of the convolution buffer, which outlast a stream.
    before: when the hardware finished the previous layer, if that was a convolution."""

    cycles: int = 0
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])
    buffer: ConvolutionBuffer = field(default_factory=ConvolutionBuffer)
    before: LayerBefore | None = None

    def run(
        self,
        hardware: NvdlaConfiguration,
        layer: HardwareLayer,
        port_bytes: Mapping[NvdlaMemory, int],
        moved: LayerTraffic,
        second_port: LayerTraffic,
        *,
        early: bool,
    ) -> None:
        """Update the fields `cycles` and `port_bytes` for a layer that runs next.

        port_bytes: the bytes that this layer transfers, by memory.
        moved: the same bytes by tensor.
        second_port: those of them that it transfers to and from the memory at the second port.
        early: whether it starts while the layer before runs."""
        self.port_bytes.update(port_bytes)
        before = self.before if early else None
        cycles, _, self.before = layer_timing(hardware, layer, moved, second_port, before)
        self.cycles += cycles


# Refuses hardware layers that read and write the same bank of the memory at the second port.


# Features or other bytes in memory, and their shape (rows, columns, channels).
FeaturePlace = tuple[Surface, tuple[int, int, int]]


def check_ports(
    hardware: NvdlaConfiguration, read: Iterable[FeaturePlace], written: FeaturePlace
) -> None:
    """Raise BackendError if a layer reads a bank of the memory at the second port that it writes.

    read, written: the features that the layer reads, and those that it writes."""
    # The banks have a single port.  They are checked if the configuration states their size.
    atom, bank = hardware.memory_atom_bytes, hardware.sram_bank_bytes
    if not bank:
        return
    banks_read = {index for place in read for index in _banks(place, atom, bank)}
    shared = banks_read & _banks(written, atom, bank)
    if shared:
        raise invalid_stream(
            f"a layer reads and writes bank {min(shared)} of the memory at the second port",
            "a bank has a single port",
        )


def check_early(
    hardware: NvdlaConfiguration,
    before: tuple[HardwareLayer, FeaturePlace] | None,
    layer: HardwareLayer,
    read: Iterable[FeaturePlace],
) -> None:
    """Raise BackendError if a layer must not start while the layer before runs.

    before: that layer, and the features that it writes.
    read: what the layer reads."""
    running, written = before or (None, None)
    if not isinstance(running, ConvolutionLayer) or not isinstance(layer, ConvolutionLayer):
        raise invalid_stream("a layer starts too early", "only convolutions may overlap")
    if not fits_beside(running, layer):
        raise invalid_stream(
            "a convolution starts too early",
            "the convolution buffer has other banks, or no space beside the one before",
        )
    assert written is not None
    if any(_share_bytes(place, written, hardware.memory_atom_bytes) for place in read):
        raise invalid_stream(
            "a convolution reads what the one before writes",
            "they may overlap, so the elements may not be there yet",
        )


def _share_bytes(one: FeaturePlace, other: FeaturePlace, atom_bytes: int) -> bool:
    """Whether two surfaces have bytes in common."""
    if one[0].memory is not other[0].memory:
        return False
    begins, ends = (np.sort(_line_addresses(place, atom_bytes)) for place in (one, other))
    after = np.searchsorted(ends, begins - other[1][1] * atom_bytes, "right")
    return bool((after < np.searchsorted(ends, begins + one[1][1] * atom_bytes)).any())


def _line_addresses(place: FeaturePlace, atom_bytes: int) -> Array:
    """The address of each line of each pack of a surface."""
    surface, (rows, _, channels) = place
    packs = np.arange(-(-channels // atom_bytes)) * surface.surface_stride
    lines = np.arange(rows)[:, None] * surface.line_stride
    return (surface.address + lines + packs).ravel()


def _banks(place: FeaturePlace, atom_bytes: int, bank_bytes: int) -> set[int]:
    if place[0].memory is not NvdlaMemory.CVSRAM:
        return set()
    found, size = set[int](), place[1][1] * atom_bytes
    for begin in _line_addresses(place, atom_bytes).tolist():
        found.update(range(begin // bank_bytes, (begin + size - 1) // bank_bytes + 1))
    return found
