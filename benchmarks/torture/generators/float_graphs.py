"""Networks of torch in float32, as both of torch's exporters write them."""

from __future__ import annotations

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import Form, unquantised
from benchmarks.torture.generators import nnsmith_graphs, torch_modules

NEEDS = nnsmith_graphs.GENERATOR.needs


def draw_in(form: Form, seed: int) -> Case | None:
    """The network of a seed in a form: NNSmith's graphs and modules take turns."""
    source = (torch_modules, nnsmith_graphs)[seed % 2]
    return source.draw(seed, form)


def draw(seed: int) -> Case | None:
    """The network of a seed."""
    return draw_in(unquantised, seed)


GENERATOR = Generator("float-graphs", draw, NEEDS)
