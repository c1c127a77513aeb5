"""Seed: TVM RFC 0037 on the NPU that it was written for.  Its figures and others' beside ours."""

from __future__ import annotations

from penstock import api
from penstock.pipeline import Point, compile_request

NETWORK, BUDGET = "zoo:mobilenet_v1", "300000"
CLAIMS = """\
RFC 0037, "Cascading": MobileNetV1 takes "in excess of 1.2MB", cascaded "around 300kB".
Others on Ethos-U55-256, MobileNetV1 1.0 224, input and output included; each by its own model:
    TVM, striping off, its default    1,204,864 bytes   3,278,624 cycles
    TVM, stripes along one axis         433,728 bytes   +2.1 % cycles
    TVM, along several axes             298,184 bytes   2.1 times the cycles
        (facts/tvm-prior-art.md 1.7; its memories are faster than Vela's and ours)
    Vela 5.2, fastest                 1,208,256 bytes   6,350,097 cycles
    Vela 5.2, least memory              451,584 bytes   7,424,933 cycles
        (facts/vela.md 2; constants in flash; cycles of whole layers, so without its stripes')"""

MISSING = """\
Not there yet: a measurement on hardware.
penstock's cycles are the time of its streams by Vela's formulas, with constants in flash."""


def main() -> None:
    print(CLAIMS)
    found = compile_request(
        api.request(NETWORK, "cortex-m55", sram=BUDGET, accelerators=["ethos_u55:macs=256"])
    )
    print(f"\npenstock today, {NETWORK}, the same NPU, input and output included:")
    fastest = found.points[-1]
    print_point("fastest", fastest, fastest)
    print_point(f"compiled with --sram {BUDGET}", found.point, fastest)
    print_point("least memory", found.points[0], fastest)
    offloaded = sum(part.engine in found.parts.accelerators for part in found.parts.parts)
    print(f"    {offloaded} of {len(found.parts.parts)} parts run on the NPU")
    print(f"\n{MISSING}")


def print_point(words: str, point: Point, fastest: Point) -> None:
    """Memory and cycles of a point, beside those of the fastest."""
    cycles, most = point.schedule.cost.cycles, fastest.schedule.cost.cycles
    more = f"{cycles:,} cycles, {cycles / most - 1:+.1%}"
    print(f"    {words:32} {point.height_bytes:>10,} bytes   {more}")


if __name__ == "__main__":
    main()
