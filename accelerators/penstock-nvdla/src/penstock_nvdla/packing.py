"""packing: features and weights in NVDLA's memory layouts.

Features are stored in packs of channels; a pack has as many channels as a memory atom has bytes.
Within a pack, pixels are in row-major order; the strides of lines (rows) and of packs (surfaces)
are arbitrary.  The axes of weights are, from the outermost to the innermost: group of `atomic_k`
kernels, block of `atomic_c` channels, tap in row-major order, kernel in the group, channel in the
block.  There are no gaps; zeros pad the end.

Source: NVDLA hardware manual, in-memory formats.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from penstock.uma import Array, BackendError
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import Surface


def unpack_features(
    memory: Array, surface: Surface, shape: tuple[int, int, int], atom_bytes: int
) -> Array:
    """Return a copy of the int8 elements of a surface in a memory, as an array of shape `shape`
    (rows, columns, channels).  In the memory, each pack has `atom_bytes` channels.

    Raises BackendError if the surface exceeds the memory, or if its rows or packs overlap."""
    packs = _packs(memory, surface, shape, atom_bytes)
    rows, columns, channels = shape
    return packs.transpose(1, 2, 0, 3).reshape(rows, columns, -1)[..., :channels]


def pack_features(memory: Array, surface: Surface, elements: Array, atom_bytes: int) -> None:
    """Write int8 elements of shape (rows, columns, channels) to a surface in a memory.

    Raises BackendError if the surface exceeds the memory, or if its rows or packs overlap."""
    # A pack has `atom_bytes` channels; the unused channels of the last pack become 0.
    rows, columns, channels = elements.shape
    packs = _packs(memory, surface, (rows, columns, channels), atom_bytes)
    whole = np.zeros((rows, columns, len(packs) * atom_bytes), np.int8)
    whole[..., :channels] = elements
    packs[:] = whole.reshape(rows, columns, len(packs), atom_bytes).transpose(2, 0, 1, 3)


def pack_weights(weights: Array, hardware: NvdlaConfiguration) -> bytes:
    """Return int8 weights of shape (kernels, rows, columns, channels) as bytes in NVDLA's memory
    order.  From the outermost to the innermost, the axes are: group of kernels, block of channels,
    row, column, kernel in the group, channel in the block.  Zeros fill the last entry of the
    convolution buffer.

    >>> from penstock_nvdla.configurations import SMALL
    >>> pack_weights(np.arange(4, dtype=np.int8).reshape(2, 1, 2, 1), SMALL)[:4].hex()
    '00020103'
    """
    parts = [
        weights[kernels, :, :, channels].transpose(1, 2, 0, 3).ravel()
        for kernels, channels in _blocks(weights.shape, hardware)
    ]
    found = np.concatenate(parts).astype(np.int8).tobytes()
    return found + bytes(-len(found) % hardware.entry_bytes)


def unpack_weights(
    content: Array, shape: tuple[int, int, int, int], hardware: NvdlaConfiguration
) -> Array:
    """Return int8 weights of shape `shape` (kernels, rows, columns, channels) from `content`, their
    bytes in NVDLA's memory order (`pack_weights`)."""
    found = np.zeros(shape, np.int8)
    at = 0
    for kernels, channels in _blocks(shape, hardware):
        block = found[kernels, :, :, channels].transpose(1, 2, 0, 3)
        block[:] = content[at : at + block.size].view(np.int8).reshape(block.shape)
        at += block.size
    return found


def _blocks(shape: tuple[int, ...], hardware: NvdlaConfiguration) -> Iterator[tuple[slice, slice]]:
    """(slice of kernels, slice of channels) for each block of weights, in the order of the
    blocks in memory.  A block is contiguous; it has up to `atomic_k` kernels and `atomic_c`
    channels."""
    for kernel in range(0, shape[0], hardware.atomic_k):
        for channel in range(0, shape[3], hardware.atomic_c):
            yield (
                slice(kernel, kernel + hardware.atomic_k),
                slice(channel, channel + hardware.atomic_c),
            )


def _packs(memory: Array, surface: Surface, shape: tuple[int, int, int], atom_bytes: int) -> Array:
    """A view of a surface in a memory, of shape (packs, rows, columns, channels of a pack);
    a pack has `atom_bytes` channels.  `shape` is (rows, columns, channels) of the features."""
    rows, columns, channels = shape
    packs = -(-channels // atom_bytes)
    strides = (surface.surface_stride, surface.line_stride, atom_bytes, 1)
    whole = (packs, rows, columns, atom_bytes)
    last = surface.address + sum((n - 1) * s for n, s in zip(whole, strides, strict=True))
    line = columns * atom_bytes
    nested = sorted(((strides[0], packs), (strides[1], rows)))  # lines of packs, or packs of lines
    overlap, reached = False, line
    for stride, count in nested:
        overlap |= count > 1 and stride < reached
        reached += (count - 1) * stride
    if overlap:
        raise BackendError(
            "nvdla-013",
            f"lines or surfaces of {rows}x{columns}x{channels} elements overlap",
            where=f"memory {surface.memory.name} of NVDLA",
            why=f"lines are {surface.line_stride} bytes apart and surfaces "
            f"{surface.surface_stride}; a line takes {line}",
            help="correct the strides",
        )
    if surface.address < 0 or last >= memory.size:
        raise BackendError(
            "nvdla-010",
            f"a tensor takes bytes up to {last:#x}, the memory has {memory.size:#x}",
            where=f"memory {surface.memory.name} of NVDLA",
            why=f"its address is {surface.address:#x}, its strides are {surface.line_stride} "
            f"(lines) and {surface.surface_stride} (surfaces) bytes",
            help="correct addresses and strides, or make the memory larger",
        )
    return as_strided(memory[surface.address :].view(np.int8), whole, strides)
