"""The stages `read` and `simplify`."""

from __future__ import annotations

from pathlib import Path

from penstock.choices import InterfaceTypes, Rounding
from penstock.frontends.open import check_is_not_onnx, read_file
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.frontends.variables import with_states
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.passes.half_precision import half_precision
from penstock.passes.incremental import incremental
from penstock.passes.order import PASSES, run_passes
from penstock.passes.quantised_interface import quantised_interface
from penstock.passes.single_rounding import with_single_rounding
from penstock.pipeline.request import Request
from penstock.zoo.registry import open_zoo


def read(model: str, reading: Reading = AS_IT_IS) -> Graph:
    """Return the graph of a model file, or of a built-in model `zoo:NAME[:option=value,..]`.

    reading: how to interpret the file, such as dimensions to fix.

    Raises ModelError, UnsupportedError or UsageError.
    """
    return _as_asked(_parsed(model, reading), reading)


def read_request(request: Request) -> Graph:
    """Return the graph of a request: that of its model, or the graph that was built in Python.

    Raises ModelError, UnsupportedError or UsageError.
    """
    if request.graph is None:
        return read(request.model, request.reading)
    check_is_not_onnx(request.reading, request.model, "this graph was built in Python")
    verify(request.graph)
    return _as_asked(request.graph, request.reading)


def _as_asked(graph: Graph, reading: Reading) -> Graph:
    """The graph of a model as the user asks for it, with other outputs than the file states."""
    graph = with_states(graph, reading)
    if reading.incremental is not None:
        graph = incremental(graph, reading.incremental)
    return half_precision(graph) if reading.float16 else graph


def _parsed(model: str, reading: Reading) -> Graph:
    """The graph of a model as its file states it."""
    if model.startswith("zoo:"):
        check_is_not_onnx(reading, model, "networks of the zoo are quantised")
        return open_zoo(model)
    return read_file(Path(model), reading)


def simplify(
    graph: Graph,
    rounding: Rounding = Rounding.DOUBLE,
    io: InterfaceTypes = InterfaceTypes.QUANTISED,
) -> Graph:
    """Return the graph after the passes in `PASSES`, which preserve every output.

    rounding: `Rounding.SINGLE` first replaces the requantisation of fully connected layers, which
        may change outputs.
    io: `InterfaceTypes.QUANTISED` first moves conversions at the border out of the graph.
    """
    if io is InterfaceTypes.QUANTISED:
        graph = quantised_interface(graph)
    if rounding is Rounding.SINGLE:
        graph = with_single_rounding(graph)
    return run_passes(graph, PASSES)
