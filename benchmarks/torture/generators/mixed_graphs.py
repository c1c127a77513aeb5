"""Networks of torch of which onnxruntime quantises a part, or only the weights beforehand."""

from __future__ import annotations

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import mixed
from benchmarks.torture.generators.float_graphs import NEEDS, draw_in


def draw(seed: int) -> Case | None:
    """The network of a seed."""
    return draw_in(mixed, seed)


GENERATOR = Generator("mixed-graphs", draw, NEEDS)
