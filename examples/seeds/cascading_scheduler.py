"""Seed: TVM RFC 0037, the cascading scheduler. Prints the Pareto front of memory and cycles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from examples.seeds.page import Absence, absences, figure, heading
from penstock import api, cascader
from penstock.cascader import BufferMode, Cascade, StripeConfig
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import compile_request
from penstock.reports.frontier import FrontierPoint
from penstock.scheduling.options import Options
from penstock.simulators.machine import Machine

NETWORK = "zoo:mobilenet_v1"
RESIDUAL = "zoo:resnet8"
TVM = {
    "no striping (the default)": (1_204_864, 1.0),
    "stripes along one axis": (433_728, 3_348_959 / 3_278_624),
    "stripes along several axes": (298_184, 6_976_454 / 3_278_624),
}
"""Bytes of working memory, input and output included, and cycles relative to the first line.
Source: the cascader of TVM 0.16, run on MobileNetV1 1.0 224 for Ethos-U55-256, by its own model."""
TVM_BUDGETS = {434_000: 433_728, 400_000: 1_204_304, 350_000: 1_204_304, 250_000: 1_204_304}
"""Memory that the same search selects for each budget, in bytes. It does not report an error if the
selection exceeds the budget."""
ROW_BOUND = 198_016
"""Lower bound in bytes of every schedule that computes each row once, derived by hand."""

INTRODUCTION = f"""\
RFC 0037 interleaves operators stripe by stripe, so the tensors between them are never stored
completely ("Cascading"): MobileNetV1 takes "in excess of 1.2MB", "around 300kB" when cascaded.
It searches for Pareto-efficient plans of memory and cycles and takes the fastest within a budget.
Here is the Pareto front of {NETWORK} on a Cortex-M4, without wait states. TVM models an
NPU, so the two are compared in bytes, and in cycles only relative to the fastest of each."""


def two_convolutions() -> Graph:
    """Return the RFC's example: two convolutions, of which the second reads 8 channels."""
    net = GraphBuilder("two convolutions")
    first = net.conv2d(net.input((1, 13, 13, 8)), 8, 3, padding="valid", name="first")
    return net.build(net.conv2d(first, 4, 3, padding="valid", name="second"))


def searches_no_channels() -> bool:
    """Whether the search finds no schedule whose stripes are nodes of their own, as those of some
    channels are, which a user can state."""
    parts = cascader.parts(two_convolutions())
    stated = Cascade(("first", "second"), stripe=(1, 9, 9, 2))
    found = cascader.frontier(parts).schedules
    return bool(cascader.make_schedule(parts, stated).boxes) and not any(s.boxes for s in found)


ABSENT = (
    Absence("A search over stripes of some channels: a user can state them, with copies.",
            searches_no_channels),
)  # fmt: skip


def main() -> None:
    print(INTRODUCTION)
    found = api.explore(NETWORK, "cortex-m4", options=Options(max_recompute=1.0)).choices
    front = found.choices
    fastest = front[-1].cycles
    print_front(front)
    heading("bytes of working memory")
    for (name, (size, slower)), limit in zip(TVM.items(), (None, 433_728, 300_000), strict=True):
        choice = within(front, limit)
        figure(name, size, choice.arena_bytes)
        figure("  cycles, relative to the fastest", slower, choice.cycles / fastest, digits=4)
    figure("lower bound if rows are computed once", ROW_BOUND, front[0].arena_bytes)
    assert found.streamed is not None
    figure("least with a streamed input", None, found.streamed[0].arena_bytes)
    heading("bytes chosen within a budget")
    for budget, chosen in TVM_BUDGETS.items():
        figure(f"budget {budget:,}", chosen, within(front, budget).arena_bytes)
    print_stripe()
    print_stated()
    print_executed()
    absences(ABSENT)


def within(front: Sequence[FrontierPoint], limit: int | None) -> FrontierPoint:
    """Return the fastest point within `limit` bytes; None means no limit."""
    return [c for c in front if limit is None or c.arena_bytes <= limit][-1]


def print_front(front: Sequence[FrontierPoint]) -> None:
    """Print at most eight points of the front, each with a bar of its memory."""
    print(f"\n{'bytes':>12} {'cycles':>16} {'slower by':>10}   memory")
    step = max(1, len(front) // 8)
    for choice in (*front[:-1:step], front[-1]):
        bar = "#" * round(40 * choice.arena_bytes / front[-1].arena_bytes)
        slower = choice.cycles / front[-1].cycles - 1
        print(f"{choice.arena_bytes:12,} {choice.cycles:16,} {slower:10.3%}   {bar}")


def print_stripe() -> None:
    """Print the RFC's example, by affine transforms and as an executed cascade."""
    parts = cascader.parts(two_convolutions())
    output = StripeConfig(
        (1, 3, 3, 4), (1, 9, 9, 4), (1, 3, 3, 4), (0, 2, 1, 0), (1, 3, 3, 1), (0, 0, 0, 0)
    )
    needed = cascader.needed_stripes(parts, output)["first"]
    schedule = cascader.single_cascade(parts, rows=3, columns=3)
    machine = Machine(cascader.program(schedule))
    machine.run({"input": np.zeros((1, 13, 13, 8), np.int8)})
    print('\n"Affine Transforms": a stripe of (1, 3, 3, 4) reads one of (1, 5, 5, 8).')
    print(f"  propagated: {needed.stripes} stripes of {needed.shape}")
    for window, count in machine.counts.windows["first"].items():
        print(f"  executed: a window of {window.shape} at {window.lower}, {count} time")
    for config in cascader.tensor_configs(schedule):
        print(f"  {config.tensor}: {config.count} stripes, {config.mode.value}")


def print_stated() -> None:
    """Print schedules that a user states, for the RFC's example: bytes, cycles, and stripes."""
    parts = cascader.parts(two_convolutions())
    print("\nSchedules that a user states, executed:")
    for mode in (BufferMode.ROLLING, BufferMode.RECOMPUTE):
        for stripe in ((1, 3, 9, 4), (1, 3, 3, 4), (1, 3, 3, 2)):
            stated = Cascade(("first", "second"), stripe, modes={"first": mode})
            schedule = cascader.make_schedule(parts, stated)
            Machine(cascader.program(schedule)).run({"input": np.zeros((1, 13, 13, 8), np.int8)})
            counts = [config.count for config in cascader.tensor_configs(schedule)]
            print(f"  {mode.value:9} {stripe}: {counts[0]} and {counts[1]} stripes, "
                  f"{schedule.peak_bytes:,} bytes, {schedule.cost.cycles:,} cycles")  # fmt: skip


def print_executed() -> None:
    """Run a network with residual connections, which TVM cannot cascade, at its least memory."""
    done = compile_request(api.request(RESIDUAL, "host"))
    least = done.points[0].ram_bytes(done.request)
    print(f"\n{RESIDUAL} in {least:,} bytes of RAM, stack included; whole layers take")
    print(f"  {done.points[-1].ram_bytes(done.request):,}. Every tensor against the operators:")
    for rung in api.verify(api.request(RESIDUAL, "host", sram=least)).rungs:
        compared = rung.compared
        print(f"  {rung.step:8} {compared.elements:,} elements, {compared.mismatches} mismatches")


if __name__ == "__main__":
    main()
