"""Ethos-U operations from Vela's API, run by penstock's functional model.

Tests that import this module skip if the package ethos-u-vela is not installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from ethos_u_judge import Image, got, made, put
from penstock_ethos_u.interpreter import Execution, execute

api = pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

ACCELERATORS = {
    "ethos-u55-32": "Ethos_U55_32",
    "ethos-u55-64": "Ethos_U55_64",
    "ethos-u55-128": "Ethos_U55_128",
    "ethos-u55-256": "Ethos_U55_256",
    "ethos-u65-256": "Ethos_U65_256",
    "ethos-u65-512": "Ethos_U65_512",
}
LAYOUTS = ("NHWC", "NHCWB16")
CONSTANTS, MAPS = 0, 1
"""Regions."""
MEMORY_BYTES = 1 << 18
GAP_BYTES = 32
"""Gap between feature maps, which makes stray writes visible."""

accelerators = st.sampled_from(tuple(ACCELERATORS))
layouts = st.sampled_from(LAYOUTS)


class Stage:
    """Memory for constants and feature maps, and a list of operations."""

    def __init__(self, accelerator: str = "ethos-u55-128", seed: int = 0) -> None:
        self.accelerator = accelerator
        self.npu = api.NpuAccelerator[ACCELERATORS[accelerator]]
        self.cores = 2 if accelerator == "ethos-u65-512" else 1
        self.rng = np.random.default_rng(seed)
        self.regions = {
            n: self.rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8) for n in (CONSTANTS, MAPS)
        }
        self.used = {CONSTANTS: 0, MAPS: 0}
        self.operations: list[Any] = []

    def room(self, region: int, size: int) -> int:
        """The address of a new block of bytes."""
        at = self.used[region]
        self.used[region] = -(-(at + size + GAP_BYTES) // 16) * 16
        assert self.used[region] <= MEMORY_BYTES
        return at

    def constant(self, data: bytes) -> Any:
        """Appends bytes to the region of constants, padded to 16."""
        data += bytes(-len(data) % 16)
        at = self.room(CONSTANTS, len(data))
        self.regions[CONSTANTS][at : at + len(data)] = list(data)
        return api.NpuAddressRange(CONSTANTS, at, len(data))

    def map(
        self,
        shape: tuple[int, int, int],
        dtype: str = "INT8",
        layout: str = "NHWC",
        zero_point: int = 0,
        scale: float | None = None,
        cut: tuple[int, int, int] | None = None,
    ) -> Any:
        """A map with memory; `cut` holds height_0, height_1 and width_0 of its tiles."""
        height, width, depth = shape
        made = api.NpuFeatureMap()
        made.data_type, made.region, made.layout = (
            api.NpuDataType[dtype],
            MAPS,
            api.NpuLayout[layout],
        )
        made.shape = api.NpuShape3D(*shape)
        made.quantization = api.NpuQuantization(scale, zero_point)
        size = made.data_type.size_in_bytes()
        deep = -(-depth // 16) * 16 if layout == "NHCWB16" else depth
        made.strides = api.NpuShape3D(height=size * width * deep, width=size * depth, depth=size)
        if layout == "NHCWB16":
            made.strides = api.NpuShape3D(size * width * deep, 16 * size, 16 * size * width)
        height_0, height_1, width_0 = cut or (height, 0, width)
        bases = [self.room(MAPS, size * height * width * deep) for _ in range(4 if cut else 1)]
        made.tiles = api.NpuTileBox(height_0, height_1, width_0, [*bases, 0, 0, 0][:4])
        return made

    def filled(self, map: Any, image: Image | None = None) -> Image:
        """Writes elements, random by default, into a map and returns them."""
        if image is None:
            lower, upper = map.data_type.min_value(), map.data_type.max_value()
            image = self.rng.integers(lower, upper + 1, tuple(map.shape)).tolist()
        put(self.regions[MAPS], map, image)
        return image

    def add(self, operation: Any, block: int = 0) -> Any:
        """Adds an operation; block operations get a block configuration by index."""
        if not isinstance(operation, api.NpuDmaOperation):
            found = api.npu_find_block_configs(operation, self.npu)
            operation.block_config = found[block % len(found)]
        self.operations.append(operation)
        return operation

    def stream(self) -> list[int]:
        """The words of all operations."""
        return api.npu_generate_register_command_stream(self.operations, self.npu)

    def run(self, words: list[int] | None = None, *, waited: bool = False) -> Execution:
        """Runs the operations or other words; asserts the number of waits for copies."""
        raw = np.array(self.stream() if words is None else words, "<u4").tobytes()
        return execute(raw, self.regions, self.accelerator, waited=waited)

    def result(self, map: Any) -> Image:
        """The elements of a map."""
        return got(self.regions[MAPS], map)

    def weights(self, operation: Any, kernel: Any, bits: int = 8) -> None:
        """Encodes `kernel` [outputs, height, width, inputs] for an operation with a block depth."""
        depthwise = isinstance(operation, api.NpuConvDepthWiseOperation)
        traversal = api.NpuBlockTraversal.DEPTH_FIRST if depthwise else operation.block_traversal
        operation.weights = [
            self.constant(
                bytes(
                    api.npu_encode_weights(
                        self.npu,
                        np.asarray(kernel[core :: self.cores], np.int16),
                        (operation.kernel.dilation_x, operation.kernel.dilation_y),
                        bits,
                        -(-(operation.block_config.depth - core) // self.cores),
                        depthwise,
                        traversal,
                    )
                )
            )
            for core in range(min(self.cores, len(kernel)))
        ]

    def biases(self, operation: Any, triples: list[tuple[int, int, int]]) -> None:
        """Encodes (bias, scale, shift) of every output channel."""
        data = [bytes(api.npu_encode_bias(np.int64(b), m, s)) for b, m, s in triples]
        operation.biases = [
            self.constant(b"".join(data[core :: self.cores]))
            for core in range(min(self.cores, len(data)))
        ]


def cuts(shape: tuple[int, int, int]) -> st.SearchStrategy[tuple[int, int, int] | None]:
    """Extents of the tiles of a feature map, or None."""
    height, width, _ = shape
    return st.none() | st.tuples(
        st.integers(1, height), st.integers(1, height), st.integers(1, width)
    )


def compared(stage: Stage, map: Any, element: Any) -> None:
    """Asserts that every element of a map equals `element(row, column, channel)`."""
    assert stage.result(map) == made(map.shape, element)


def commands(words: list[int]) -> list[list[int]]:
    """The words of a stream, split into commands."""
    found: list[list[int]] = []
    at = 0
    while at < len(words):
        size = 2 if words[at] & 0x4000 else 1
        found.append(words[at : at + size])
        at += size
    return found


def replaced(words: list[int], code: int, parameter: int | None, place: int = 0) -> list[int]:
    """Words with another parameter in the n-th command of a code; removes the command if the
    parameter is None.

    Raises IndexError if there is no such command.
    """
    found = commands(words)
    at = [k for k, command in enumerate(found) if command[0] & 0xFFFF == code][place]
    found[at : at + 1] = [] if parameter is None else [[code | parameter << 16]]
    return [word for command in found for word in command]


DMA_WAIT, KERNEL_WAIT, BLOCKDEP = 0x011, 0x012, 0x12F
