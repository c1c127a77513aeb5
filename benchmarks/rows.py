"""Rows: height of row placements relative to live bytes, on cascades like those of real
networks.

    python -m benchmarks.rows
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.row_problems import Chain, Network, row_problem
from penstock.memory.check import check
from penstock.memory.place import place
from penstock.memory.problem import PlacementProblem

LIMIT = 1.10
"""Largest accepted height / live bytes."""


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


def main(arguments: Sequence[str]) -> int:
    """Prints figures; returns 1 if a height exceeds the limit."""
    argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__).parse_args(
        arguments
    )
    table = Table(title="placement of rows; work in comparisons, seconds after one to warm up")
    for heading in ("case", "rows", "live bytes", "height", "ratio", "work", "ms"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    above = 0
    place(cases()[0].problem())
    for case in cases():
        problem = case.problem()
        begun = perf_counter()
        placement = place(problem)
        seconds = perf_counter() - begun
        assert check(problem, placement) == ()
        height, bound = placement.height_bytes, placement.bound_bytes
        above += height > LIMIT * bound
        numbers = (len(problem.buffers), bound, height, placement.nodes)
        rows, live, high, work = (f"{number:,}" for number in numbers)
        table.add_row(
            case.name, rows, live, high, f"{height / bound:.3f}", work, f"{seconds * 1e3:.1f}"
        )
    console().print(table)
    return 1 if above else 0


if __name__ == "__main__":
    entry(main)
