"""sequencer: the time that hardware layers take in the functional model, and the banks that they
may access.

The time follows from a layer's registers and from the bytes that the functional model has counted
(`timing.py`); `dataflow.py` predicts the same time when a network is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock_nvdla.buffer import ConvolutionBuffer
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import NvdlaMemory, Surface
from penstock_nvdla.sizes import HardwareLayer, LayerTraffic
from penstock_nvdla.stream import invalid_stream
from penstock_nvdla.timing import layer_timing


@dataclass
class Sequencer:
    """The state of the accelerator from stream to stream.

    cycles: the cycles that all layers so far have taken.
    port_bytes: the bytes that all layers so far have transferred, by memory.
    buffer: the contents of the convolution buffer, which outlast a stream."""

    cycles: int = 0
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])
    buffer: ConvolutionBuffer = field(default_factory=ConvolutionBuffer)

    def run(
        self,
        hardware: NvdlaConfiguration,
        layer: HardwareLayer,
        port_bytes: Mapping[NvdlaMemory, int],
        moved: LayerTraffic,
        sram_bytes: int = 0,
    ) -> None:
        """Update the fields `cycles` and `port_bytes` for a layer that runs next.

        port_bytes: the bytes that this layer transfers, by memory.
        moved: the same bytes by tensor.
        sram_bytes: how many bytes of features it reads from the memory at the second port."""
        self.port_bytes.update(port_bytes)
        self.cycles += layer_timing(hardware, layer, moved, sram_bytes)[0]


# Refuses hardware layers that read and write the same bank of the memory at the second port.


# Features in memory, and their shape (rows, columns, channels).
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


def _banks(place: FeaturePlace, atom_bytes: int, bank_bytes: int) -> set[int]:
    surface, (rows, columns, channels) = place
    if surface.memory is not NvdlaMemory.CVSRAM:
        return set()
    found: set[int] = set()
    for row in range(rows):
        for pack in range(-(-channels // atom_bytes)):
            begin = surface.address + row * surface.line_stride + pack * surface.surface_stride
            end = begin + columns * atom_bytes
            found.update(range(begin // bank_bytes, (end - 1) // bank_bytes + 1))
    return found
