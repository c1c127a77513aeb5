"""Checks that addresses and sizes are multiples of 16 bytes where the hardware requires it.

Source: the checks of the register command stream generator of Arm's compiler Vela, for U55 and U65.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.uma import BackendError
from penstock_ethos_u.interpreter.feature_map import BLOCK_CHANNELS, FeatureMap
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.memory import SHARED
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)

ALIGNMENT = 16
"""Alignment in bytes."""


def check_alignment(operation: Operation, hardware: NpuHardware) -> None:
    """Raise BackendError if an address, stride or size of an operation is not a multiple of 16
    bytes although the hardware requires it."""
    if isinstance(operation, DmaOperation):
        numbers = _copy_registers(operation, hardware)
    else:
        numbers = _block_operation_registers(operation)
    for name, number in numbers:
        if number % ALIGNMENT:
            raise BackendError(
                "ethosu-113",
                f"{name} {number:#x} is not a multiple of {ALIGNMENT}",
                where=operation.where,
                why="channel blocks, weights and copies are at multiples of 16; on U65, copies only"
                " if they access shared memory",
                help="align buffers to 16 bytes, and pad their contents",
            )


def _copy_registers(operation: DmaOperation, hardware: NpuHardware) -> Iterator[tuple[str, int]]:
    """Yield (name, value) of the registers of a copy whose values must be multiples of 16.

    These are the source address, the target address and the size in bytes. If the hardware supports
    unaligned copies (U65), there are two restrictions only. An address must be a multiple of 16 if
    it is in shared memory, the internal memory of the NPU. The size must be a multiple of 16 if the
    target is in shared memory."""
    source, target = operation.source, operation.target
    anywhere = hardware.unaligned_copies
    for span in (source, target):
        if span.region == SHARED or not anywhere:
            yield f"NPU_SET_{span.name}", span.lower
    if target.region == SHARED or not anywhere:
        yield "NPU_SET_DMA0_LEN", source.upper - source.lower


def _block_operation_registers(operation: BlockOperation) -> Iterator[tuple[str, int]]:
    """Yield (name, value) of the registers of a block operation (any operation but a copy) whose
    values must be multiples of 16."""
    for map in (*operation.inputs, operation.ofm):
        if map.nhcwb16:
            yield from _feature_map_registers(map)
    if operation.weights is not None:
        weights = operation.weights
        yield "NPU_SET_WEIGHT_BASE", weights.lower
        yield "NPU_SET_WEIGHT_LENGTH", weights.upper - weights.lower
    if operation.scales is not None:
        yield "NPU_SET_SCALE_LENGTH", operation.scales.upper - operation.scales.lower


def _feature_map_registers(map: FeatureMap) -> Iterator[tuple[str, int]]:
    """Yield (name, value) of the registers of a feature map in layout NHCWB16 whose values must be
    multiples of 16: base addresses of the tiles that are in use, and strides."""
    height, width, depth = map.shape
    name = f"NPU_SET_{map.name.upper()}"
    right, below = width > map.width_0, height > map.height_0
    used = (True, right, below, right and height > map.height_1)
    for tile, base in enumerate(map.bases):
        if used[tile]:
            yield f"{name}_BASE{tile}", base
    if height > 1:
        yield f"{name}_STRIDE_Y", map.stride_y
    if depth > BLOCK_CHANNELS:
        yield f"{name}_STRIDE_C", map.stride_c
