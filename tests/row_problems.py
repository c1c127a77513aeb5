"""Row problems: placement problems of networks that run row by row, from a simulation.

A row is computed when it is first needed, one row a tick, and dies when the last row that reads it
has been computed. The simulation is independent of penstock's scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from penstock.memory.problem import LiveBuffer, PlacementProblem, round_up

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a source that a row reads: `kernel` rows with stride `stride`."""

    source: int
    kernel: int = 1
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """Rows, bytes per row, and sources; the network's input has no windows."""

    rows: int
    row_bytes: int
    windows: tuple[Window, ...] = ()


Network = tuple[Tensor, ...]
"""Tensors in execution order; the first is the input, the last the output."""


class Chain:
    """A network under construction; every method appends tensors that read the last one."""

    def __init__(self, rows: int, row_bytes: int) -> None:
        self.tensors = [Tensor(rows, row_bytes)]
        self.width = rows

    def windowed(self, kernel: int, stride: int, channels: int) -> Chain:
        """A convolution or a pool with square windows, padded to the same size."""
        last = len(self.tensors) - 1
        rows = -(-self.tensors[last].rows // stride)
        self.width = -(-self.width // stride)
        window = Window(last, kernel, stride)
        self.tensors.append(Tensor(rows, self.width * channels, (window,)))
        return self

    def separable(self, stride: int, channels: int) -> Chain:
        """A 3 x 3 depthwise convolution and a pointwise one, as in MobileNetV1."""
        before = self.tensors[-1].row_bytes // self.width
        return self.windowed(3, stride, before).windowed(1, 1, channels)

    def inverted(self, stride: int, channels: int, expansion: int = 6) -> Chain:
        """An inverted residual block of MobileNetV2; it adds its input if the shapes agree."""
        source = len(self.tensors) - 1
        wide = expansion * self.tensors[source].row_bytes // self.width
        self.windowed(1, 1, wide).windowed(3, stride, wide).windowed(1, 1, channels)
        last = self.tensors[-1]
        if (last.rows, last.row_bytes) == (
            self.tensors[source].rows,
            self.tensors[source].row_bytes,
        ):
            windows = (Window(source), Window(len(self.tensors) - 1))
            self.tensors.append(Tensor(last.rows, last.row_bytes, windows))
        return self

    def network(self) -> Network:
        """The network."""
        return tuple(self.tensors)


def row_problem(
    network: Network, borders: tuple[int, ...] = (), streamed: bool = False
) -> PlacementProblem:
    """The placement problem of a network in cascades, with each row as a buffer.

    `borders` names tensors, in execution order, that are complete before anything after them
    starts. The rows of the output form an array, as do those of the input, which are live from the
    first tick; a streamed input arrives row by row and forms no array.
    """
    births = _births(network, (*borders, len(network) - 1), streamed)
    end = max(max(ticks) for ticks in births) + 1
    deaths = [[tick + 1 for tick in ticks] for ticks in births]
    deaths[-1] = [end] * len(deaths[-1])
    for tensor, ticks in zip(network, births, strict=True):
        for row, tick in enumerate(ticks):
            for window in tensor.windows:
                for read in _reads(network, tensor, window, row):
                    deaths[window.source][read] = max(deaths[window.source][read], tick + 1)
    arrays = (len(network) - 1,) if streamed else (0, len(network) - 1)
    return PlacementProblem(
        tuple(
            _buffer(index, row, births[index][row], deaths[index][row], tensor, index in arrays)
            for index, tensor in enumerate(network)
            for row in range(tensor.rows)
        )
    )


def _births(network: Network, goals: tuple[int, ...], streamed: bool) -> list[list[int]]:
    """Ticks at which the rows of each tensor are computed; 0 for an input in memory."""
    births: list[list[int]] = [[] for _ in network]
    if not streamed:
        births[0] = [0] * network[0].rows
    ticks = count()

    def make(index: int, rows: int) -> None:
        tensor = network[index]
        for row in range(len(births[index]), rows):
            for window in tensor.windows:
                make(window.source, _reads(network, tensor, window, row).stop)
            births[index].append(next(ticks))

    for goal in goals:
        make(goal, network[goal].rows)
    return births


def _reads(network: Network, tensor: Tensor, window: Window, row: int) -> range:
    """Rows of the source that a row reads; padding is split as in TFLite's SAME."""
    source = network[window.source]
    padding = max((tensor.rows - 1) * window.stride + window.kernel - source.rows, 0) // 2
    first = row * window.stride - padding
    return range(max(first, 0), min(first + window.kernel, source.rows))


def _buffer(
    index: int, row: int, birth: int, death: int, tensor: Tensor, array: bool
) -> LiveBuffer:
    name = f"t{index}[{row}]"
    if not array:
        return LiveBuffer(name, birth, death, round_up(tensor.row_bytes, WORD_BYTES), WORD_BYTES)
    if row == 0:
        return LiveBuffer(name, birth, death, tensor.row_bytes, WORD_BYTES)
    distance = row * tensor.row_bytes
    return LiveBuffer(
        name, birth, death, tensor.row_bytes, anchor=f"t{index}[0]", distance_bytes=distance
    )


@dataclass(frozen=True, slots=True)
class Case:
    """A network and its cascades."""

    name: str
    network: Network
    borders: tuple[int, ...] = ()
    streamed: bool = False

    def problem(self) -> PlacementProblem:
        """The placement problem with rows as buffers."""
        return row_problem(self.network, self.borders, self.streamed)


def mobilenet_v1(rows: int, width: float) -> Network:
    """The published blocks up to the global pooling, whose window has all rows."""
    chain = Chain(rows, rows * 3).windowed(3, 2, int(32 * width))
    strides = ((1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512))
    for stride, channels in (*strides, *((1, 512),) * 5, (2, 1024), (1, 1024)):
        chain.separable(stride, int(channels * width))
    return chain.windowed(chain.tensors[-1].rows, chain.tensors[-1].rows, 1000).network()


def mobilenet_v2(rows: int, width: float) -> Network:
    """The published blocks, with channels rounded to multiples of eight."""

    def rounded(channels: int) -> int:
        return max(8, int(channels * width + 4) // 8 * 8)

    chain = Chain(rows, rows * 3).windowed(3, 2, rounded(32)).inverted(1, rounded(16), 1)
    for channels, repeats, stride in (
        (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1),
    ):  # fmt: skip
        for repeat in range(repeats):
            chain.inverted(stride if repeat == 0 else 1, rounded(channels))
    chain.windowed(1, 1, 1280)
    return chain.windowed(chain.tensors[-1].rows, chain.tensors[-1].rows, 1000).network()


def image_to_image(rows: int) -> Network:
    """As many output rows as input rows, so that the output follows the input closely."""
    chain = Chain(rows, rows * 3).windowed(3, 1, 16).windowed(3, 1, 16)
    return chain.windowed(5, 1, 8).windowed(3, 1, 3).network()


def cases() -> tuple[Case, ...]:
    """One cascade, several cascades, and a streamed input."""
    v1, v2 = mobilenet_v1(224, 1.0), mobilenet_v2(160, 0.35)
    return (
        Case("MobileNetV1 0.25 96", mobilenet_v1(96, 0.25), (2, 5)),
        Case("MobileNetV1 0.25 96, streamed", mobilenet_v1(96, 0.25), (9,), True),
        Case("MobileNetV1 1.0 224", v1, (8, 12)),
        Case("MobileNetV1 1.0 224, one cascade", v1),
        Case("MobileNetV1 1.0 224, streamed", v1, (13,), True),
        Case("MobileNetV2 0.35 160", v2, (3, 6, 9, 13)),
        Case("MobileNetV2 0.35 160, one cascade", v2),
        Case("MobileNetV2 0.35 160, streamed", v2, (9, 13), True),
        Case("MobileNetV2 0.35 320, one cascade", mobilenet_v2(320, 0.35)),
        Case("MobileNetV2 0.35 320, streamed", mobilenet_v2(320, 0.35), (), True),
        Case("image to image, 128 rows", image_to_image(128)),
        Case("image to image, 128 rows, two cascades", image_to_image(128), (1,)),
    )
