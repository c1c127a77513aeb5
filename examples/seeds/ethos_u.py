"""Seed: TVM RFC 0037 on its original target, Ethos-U55-256: memory against cycles."""

from __future__ import annotations

from dataclasses import fields

from examples.seeds.page import Absence, absences, figure, heading
from penstock import api
from penstock.api.compiled import Compiled
from penstock.cascader import Cascade
from penstock.frontends.builder import GraphBuilder
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.placing import PlacedPoint

NETWORK, NPU, TARGET = "zoo:mobilenet_v1", "ethos_u55:macs=256", "cortex-m55"
LIMITS = (None, 451_584, 300_000)
TVM = ((1_204_864, 3_278_624), (433_728, 3_348_959), (298_184, 6_976_454))
"""Bytes and cycles of MobileNetV1 1.0 224: without striping, which is the default; stripes along
one axis; along several.  Source: the cascader of TVM 0.16, by its own cycle model."""
VELA = ((1_208_256, 6_350_097), (451_584, 7_424_933))
"""The same for Arm's Vela 5.2, optimised for performance and for size, constants in flash."""

INTRODUCTION = f"""\
RFC 0037 plans cascades for Ethos-U: MobileNetV1 takes "in excess of 1.2MB", "around 300kB" when
cascaded. Three compilers are compared on Ethos-U55-256, input and output included: TVM's cascader,
Arm's Vela, and penstock with {NETWORK}, which has the same layer shapes.
Each compiler has its own cycle model: Vela and penstock use the same formulas, and TVM assumes
faster memories. None of the figures was measured on hardware."""


def nothing_is_measured_on_hardware() -> bool:
    """Whether a report contains only estimated and simulated cycles."""
    cycles = api.compile("zoo:lenet5", TARGET).report.cycles
    return {field.name for field in fields(cycles)} == {"estimated", "simulated"}


def stripes_of_channels() -> Compiled:
    """Compile a stated schedule of two layers whose stripes have 8 of 16 channels."""
    net = GraphBuilder("two")
    first = net.conv2d(net.input((1, 16, 16, 16)), 16, 3, name="first")
    graph = net.build(net.conv2d(first, 16, 3, name="second"))
    stated = Cascade(("first", "second"), stripe=(1, 16, 16, 8))
    return api.compile(graph, TARGET, accelerators=[NPU], schedule=stated)


def whole_rows_of_channel_blocks() -> bool:
    """Whether no kernel computes some columns of a tensor in channel blocks, in any schedule."""
    blocked = [
        part.kernel
        for part in compiled("zoo:resnet8", None).parts.parts
        if part.engine == NPU.partition(":")[0] and part.output.type.layout is not None
    ]
    return bool(blocked) and not any(kernel.by_columns for kernel in blocked)


ABSENT = (
    Absence("Measurements on hardware: cycles are those of the streams by Vela's formulas.",
            nothing_is_measured_on_hardware),
    Absence("Bands of columns of tensors in channel blocks: only layers in NHWC (all, with the "
            "attribute layout=nhwc) run in bands.", whole_rows_of_channel_blocks),
)  # fmt: skip


def compiled(network: str, sram: int | None) -> Compilation:
    """Compile a network for the NPU within `sram` bytes of RAM."""
    return compile_request(api.request(network, TARGET, sram=sram, accelerators=[NPU]))


def main() -> None:
    print(INTRODUCTION)
    found = compiled(NETWORK, LIMITS[-1])
    points = [within(found, limit) for limit in LIMITS]
    for name, theirs in (("TVM's cascader", TVM), ("Arm's Vela", VELA)):
        for what in ("bytes", "cycles"):
            heading(f"{what}, compared with {name}")
            for limit, point, seed in zip(LIMITS, points, theirs, strict=False):
                ours = {"bytes": point.height_bytes, "cycles": point.schedule.cost.cycles}
                words = "fastest" if limit is None else f"at most {limit:,} bytes here"
                figure(words, seed[what == "cycles"], ours[what])
    heading("least memory")
    figure("bytes; TVM: stripes along several axes", TVM[-1][0],
           found.points[0].height_bytes)  # fmt: skip
    figure("cycles", TVM[-1][1], found.points[0].schedule.cost.cycles)
    offloaded = sum(part.engine in found.parts.accelerators for part in found.parts.parts)
    print(f"\n{offloaded} of {len(found.parts.parts)} parts run on the NPU; with `--sram 300000` ")
    print(f"the arena takes {found.point.height_bytes:,} bytes.")
    report = stripes_of_channels().report
    print("A stated schedule with stripes of 8 of 16 channels of two layers takes")
    print(f"{report.ram_bytes.arena:,} bytes of arena and {report.cycles.estimated:,} cycles.")
    absences(ABSENT)


def within(found: Compilation, limit: int | None) -> PlacedPoint:
    """Return the fastest point within `limit` bytes; None means no limit."""
    return [p for p in found.points if limit is None or p.height_bytes <= limit][-1]


if __name__ == "__main__":
    main()
