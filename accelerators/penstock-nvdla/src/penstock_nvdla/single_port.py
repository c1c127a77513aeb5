"""single_port: refuses hardware layers that read and write the same bank of the feature buffer."""

from __future__ import annotations

from collections.abc import Iterable

from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import NvdlaMemory, Surface
from penstock_nvdla.stream import invalid_stream

FeaturePlace = tuple[Surface, tuple[int, int, int]]
"""Features in memory, and their shape (rows, columns, channels)."""


def check_ports(
    hardware: NvdlaConfiguration, read: Iterable[FeaturePlace], written: FeaturePlace
) -> None:
    """Raise BackendError if a layer reads a bank of the feature buffer that it writes.

    The banks have a single port.  They are checked if the configuration states their size.

    read, written: the features that the layer reads, and those that it writes."""
    extension = hardware.extension
    if extension is None or not extension.feature_bank_bytes:
        return
    atom, bank = hardware.memory_atom_bytes, extension.feature_bank_bytes
    banks_read = {index for place in read for index in _banks(place, atom, bank)}
    shared = banks_read & _banks(written, atom, bank)
    if shared:
        raise invalid_stream(
            f"a layer reads and writes bank {min(shared)} of the feature buffer",
            "a bank has a single port",
        )


def _banks(place: FeaturePlace, atom_bytes: int, bank_bytes: int) -> set[int]:
    """Return the indices of the banks of the feature buffer that contain some features."""
    surface, (rows, columns, channels) = place
    if surface.memory is not NvdlaMemory.FEATURE_BUFFER:
        return set()
    found: set[int] = set()
    for row in range(rows):
        for pack in range(-(-channels // atom_bytes)):
            begin = surface.address + row * surface.line_stride + pack * surface.surface_stride
            end = begin + columns * atom_bytes
            found.update(range(begin // bank_bytes, (end - 1) // bank_bytes + 1))
    return found
