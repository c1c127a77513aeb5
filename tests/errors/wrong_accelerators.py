"""Calls that raise the errors of accelerators that fail at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from offloading import layer_by_layer
from penstock import api
from penstock.backends.accelerator import (
    Accelerator,
    AcceleratorTarget,
    CpuFallback,
    PassPhase,
    StreamDriver,
)
from penstock.backends.offload import require_no_cpu_fallback
from penstock.ir.graph import Graph
from penstock.ladder import run_machine
from penstock.pipeline.graphs import read
from penstock.program.program import Driver
from toy_accelerator import Bytes, Toy, Unit, store, toy_request

Numbers = int | Bytes


def fails(unit: Unit, *arguments: Numbers) -> None:
    """A functional model that raises."""
    raise KeyError("sums")


def strays(unit: Unit, multiplier: Bytes, shift: Bytes, y: Bytes, *bounds: int) -> None:
    """A functional model that writes one byte too many."""
    store(unit, multiplier, shift, y, *bounds)
    y[unit.sums.size] ^= 0xFF


def forgets(graph: Graph, target: AcceleratorTarget) -> None:
    """A pass that returns nothing."""


def with_forgetful_pass(accelerator: Accelerator) -> Accelerator:
    passes = ((PassPhase.PRE_PARTITIONING, forgets), *accelerator.graph_passes)
    return replace(accelerator, graph_passes=passes)  # pyright: ignore[reportArgumentType]


def no_call(arguments: Sequence[str]) -> str:
    """How a call is written, forgotten."""
    return ""


def without_calls(accelerator: Accelerator) -> Accelerator:
    code = replace(accelerator.codegen, replace_call_extern=no_call)
    return replace(accelerator, codegen=code)


def without_a_header(accelerator: Accelerator) -> Accelerator:
    return replace(accelerator, codegen=replace(accelerator.codegen, includes=""))


def with_a_file_of_the_models(accelerator: Accelerator) -> Accelerator:
    code = replace(accelerator.codegen, sources=(("main.c", "int main(void) { return 0; }"),))
    return replace(accelerator, codegen=code)


def with_encoder(encoder: Callable[..., object], accelerator: Accelerator) -> Accelerator:
    """The accelerator with a driver that takes streams, of what an encoder makes."""
    submit = Driver("toy_submit", "toy", fails, Unit)
    code = replace(accelerator.codegen, encoder=encoder, driver=StreamDriver(submit))  # pyright: ignore[reportArgumentType]
    return replace(accelerator, codegen=code)


def without_an_encoder() -> None:
    """Compiles for an accelerator whose kernels issue operations that nothing encodes."""
    request = api.request("zoo:lenet5", accelerators=("nvdla",))
    (accelerator,) = request.accelerators
    code = replace(accelerator.codegen, encoder=None)
    api.compile(replace(request, accelerators=(replace(accelerator, codegen=code),)))


def in_machine(toy: Toy) -> None:
    """Runs a network with an accelerator in the machine."""
    done = layer_by_layer(api.compile(toy_request("zoo:lenet5", "host", toy)).compilation)
    run_machine(done, api.drawn_sets(done, 1))


def with_nodes_left() -> None:
    """Refuses what an accelerator leaves."""
    pool, dense = read("zoo:lenet5").nodes[1:6:4]
    why = "no pattern of toy matches this node"
    require_no_cpu_fallback((CpuFallback(pool, why, 613402), CpuFallback(dense, why, 404448)))


WRONG_ACCELERATORS: dict[str, Callable[[], object]] = {
    "accelerator-001": with_nodes_left,
    "backend-082": lambda: api.compile(toy_request(change=with_forgetful_pass)),
    "backend-083": lambda: api.compile(toy_request(change=partial(with_encoder, lambda: b""))),
    "backend-084": lambda: api.compile(toy_request(change=partial(with_encoder, lambda c: "x"))),
    "backend-085": without_an_encoder,
    "backend-090": partial(in_machine, Toy(stores=fails)),
    "backend-091": lambda: api.compile(toy_request(change=without_calls)),
    "backend-093": partial(in_machine, Toy(beyond=2)),
    "backend-094": lambda: api.compile(toy_request(change=without_a_header)),
    "backend-092": lambda: api.compile(toy_request(change=with_a_file_of_the_models)),
    "machine-010": partial(in_machine, Toy(stores=strays)),
}
"""By code, the call that meets it."""
