"""Seed: TVM RFC 0037, the cascading scheduler for Ethos-U.  Its figures beside ours of today."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.region import Region
from penstock.reports.frontier import Choice

CLAIMS = """\
RFC 0037, "Cascading": MobileNetV1 takes "in excess of 1.2MB", cascaded "around 300kB".
TVM's cascader, run by us (facts/tvm-prior-art.md 1.7), input and output included:
    striping off, its default         1,204,864 bytes   3,278,624 cycles by its NPU model
    stripes along one axis              433,728 bytes   +2.1 % cycles
    stripes along several axes          298,184 bytes   2.1 times the cycles
Row bound, nothing computed twice       198,016 bytes   129,696 with a streamed input"""

MISSING = """\
Not there yet: what goes below the row bound: stripes along columns and channels, recomputation."""


def main() -> None:
    print(CLAIMS)
    print("\npenstock today, zoo:mobilenet_v1, input and output included, cycles by our CPU model:")
    found = api.explore("zoo:mobilenet_v1", "cortex-m4").choices
    for limit in (None, 300_000, 250_000, found.choices[0].arena_bytes):
        print_choice(found.choices, limit, found.macs)
    assert found.streamed is not None
    print(f"    input streamed, at least         {found.streamed[0].arena_bytes:>10,} bytes")
    print_stripe()
    print(f"\n{MISSING}")


def print_choice(choices: Sequence[Choice], limit: int | None, macs: int) -> None:
    """The fastest choice of at most so many bytes, beside the fastest of all."""
    choice = [c for c in choices if limit is None or c.arena_bytes <= limit][-1]
    words = "whole layers, the fastest" if limit is None else f"of at most {limit:,} bytes"
    more = f"{choice.cycles / choices[-1].cycles - 1:+.4%} cycles"
    work = f"{choice.macs_executed / macs:.2f} x the model's products"
    print(f"    {words:32} {choice.arena_bytes:>10,} bytes   {more}, {work}")


def print_stripe() -> None:
    """The RFC's own example of a propagator, by ours."""
    net = GraphBuilder("one convolution")
    node = net.build(net.conv2d(net.input((1, 8, 8, 8)), 4, 3, padding="valid")).nodes[0]
    stripe = Region.whole((1, 3, 3, 4))
    affine = node.op.affine(node.site)[0].apply(stripe).shape
    exact = node.op.needs(node.site, stripe)[0].shape
    print('\nRFC 0037, "Affine Transforms": a (1, 3, 3, 4) stripe reads a (1, 5, 5, 8) one.')
    print(f"    penstock's propagators: affine {affine}, exact {exact}")


if __name__ == "__main__":
    main()
