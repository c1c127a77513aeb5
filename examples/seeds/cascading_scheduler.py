"""Seed: TVM RFC 0037, the cascading scheduler for Ethos-U.  Its figures beside ours of today."""

from __future__ import annotations

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.region import Region

CLAIMS = """\
RFC 0037, "Cascading": MobileNetV1 takes "in excess of 1.2MB", cascaded "around 300kB".
TVM's cascader, run by us (facts/tvm-prior-art.md 1.7), input and output included:
    striping off, its default         1,204,864 bytes   3,278,624 cycles by its NPU model
    stripes along one axis              433,728 bytes   +2.1 % cycles
    stripes along several axes          298,184 bytes   2.1 times the cycles
Row bound, nothing computed twice       198,016 bytes   (facts/memory-bounds.md)"""

MISSING = """\
Not there yet: cascades.  Every part runs whole, so neighbouring layers set the arena; no stripes,
no rolling buffers, no plans and proposals.  Regions, propagators, and a Program with loops, rings
and row tables are there and under laws; no search uses them."""


def main() -> None:
    print(CLAIMS)
    print("\npenstock today, zoo:mobilenet_v1:")
    report = api.compile("zoo:mobilenet_v1", "cortex-m4").report
    print(f"    layer by layer                    {report.ram_bytes.arena:>9,} bytes of arena")
    print(f"    input and output inside it        {report.ram_bytes.io:>9,} bytes")
    print(f"    points on the frontier            {len(report.frontier):>9}")
    print_stripe()
    print(f"\n{MISSING}")


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
