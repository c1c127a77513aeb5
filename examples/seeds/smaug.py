"""Seed: SMAUG's tiling optimizers.  Its figures beside ours of today."""

from __future__ import annotations

from penstock import pipeline
from penstock.api import request
from penstock.scheduling.cost import total
from penstock.scheduling.schedule import Frontier

TILE_ELEMENTS = 16384

CLAIMS = f"""\
The seed, "Tiling strategies" and "Best tile shape": each tensor is cut to fit a scratchpad of
    {TILE_ELEMENTS:,} elements, in the shape that fills it most
    (facts/smaug-nvdla-irregular.md 1.1, 1.4).
That page claims no figure.  SMAUG's paper, abstract (same file, 1.8): the accelerator is 25-40 % of
    the latency, the rest is moving data and software; the system's changes alone give 1.8-5x.
What its choice costs (same file, 1.6): its test conv/k2x2 moves 6.29 M elements, a choice of least
    traffic 2.83 M.  What it cannot do (1.3): VGG16's second convolution has no tile that fits."""

MISSING = """\
Not there yet: tiles.  penstock has no engine with a local memory, so the bytes above are what the
kernels touch once per layer, between flash, RAM and registers; nothing is cut, no loop order is
chosen, no tiler can be written by a user.  These are the tensors that a tiler will have to cut."""


def main() -> None:
    print(CLAIMS)
    for model in ("zoo:lenet5", "zoo:resnet8", "zoo:vgg16"):
        print_network(model)
    print(f"\n{MISSING}")


def print_network(model: str) -> None:
    """Bytes that one inference moves, and how many layers have a tensor above a scratchpad."""
    frontier = pipeline.stage(request(model, "cortex-m4"), "schedule")
    assert isinstance(frontier, Frontier)
    schedule = frontier.schedules[-1]  # the fastest: every layer whole
    parts, costs = schedule.steps, [cost for plan in schedule.plans for cost in plan.costs]
    moved = [total(cost.read_bytes) + total(cost.written_bytes) for cost in costs]
    read, written = total(schedule.cost.read_bytes), total(schedule.cost.written_bytes)
    values = [[*part.nodes[-1].inputs, part.output] for part in parts]
    large = sum(any(v.type.elements > TILE_ELEMENTS for v in vs) for vs in values)
    worst = parts[moved.index(max(moved))]
    print(f"\npenstock today, {model}, {len(parts)} layers, {schedule.cost.macs:,} products:")
    print(f"    {read:,} bytes read, {written:,} written; most by {worst.name}")
    print(f"    peak of live activations {schedule.peak_bytes:,} bytes")
    print(f"    {large} of {len(parts)} layers have a tensor above {TILE_ELEMENTS:,} elements")


if __name__ == "__main__":
    main()
