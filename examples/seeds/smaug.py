"""Seed: SMAUG's tiling optimizers. Compares its rule with `least_traffic` on VGG16."""

from __future__ import annotations

from benchmarks.smaug_cases import Case, layer_of, scratchpads_of
from examples.seeds.page import Absence, absences, figure, heading
from penstock import api, ladder
from penstock.accelerators.registry import open_accelerators
from penstock.accelerators.smv import Smv
from penstock.errors import CapacityError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.tensor import DType
from penstock.pipeline.compilation import compile_graph
from penstock.pipeline.request import Request
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.smaug import Smaug
from penstock.tiling.tiler import choose
from penstock.tiling.tiling import Tiling

VGG16 = (
    (224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128), (56, 128, 256), (56, 256, 256),
    (56, 256, 256), (28, 256, 512), (28, 512, 512), (28, 512, 512), (14, 512, 512), (14, 512, 512),
    (14, 512, 512),
)  # fmt: skip
"""Rows and columns, input channels and output channels of its convolutions, all 3x3."""
RUN = (14, 56, 256, 256)
"""Rows, columns, input and output channels of the slice that is executed: a quarter of the rows of
VGG16's sixth convolution."""
OWN_TEST = 126_976 + 4_063_232 + 2_097_152
"""Elements of input, weights and output that SMAUG moves in its test conv/k2x2: its loop nest,
counted by hand."""

INTRODUCTION = """\
SMAUG divides a layer into tiles for three scratchpads of 16,384 fp16 elements each. Among the tile
shapes that its preference order over dimensions permits, it selects the one that fills the
scratchpads most ("Tiling strategies", "Best tile shape for the strategy"). The page notes that this
need not be optimal. penstock implements that rule as the tiler `smaug`. The tiler `least_traffic`
searches every tiling of its model for the one that moves the fewest bytes. Users can add others."""


def no_half_floats() -> bool:
    """Whether tensors have no type of 16-bit floating point."""
    return not any("FLOAT16" in name for name in DType.__members__)


def one_engine() -> bool:
    """Whether the backend has no attribute for the number of engines."""
    return not any("engine" in name or "count" in name for name in Smv().attributes)


ABSENT = (
    Absence("fp16: the accelerator smv computes in int8, as TensorFlow Lite does.", no_half_floats),
    Absence("Several engines that share a layer's tiles (SMAUG: up to 8).", one_engine),
)


def main() -> None:
    print(INTRODUCTION)
    heading("elements moved; SMAUG's rule, least traffic")
    own = Case(id="k2x2", op="convolution", input=(1, 32, 64, 32), kernel=(2, 2), ofmaps=1024,
               padding="same")  # fmt: skip
    theirs, ours = tilings(own)
    assert theirs is not None
    figure("SMAUG's test conv/k2x2, by its rule", OWN_TEST, theirs.elements)
    figure("SMAUG's test conv/k2x2, by least traffic", OWN_TEST, ours.elements)
    for number, (extent, channels, outputs) in enumerate(VGG16, start=1):
        case = Case(id=f"conv{number}", op="convolution", input=(1, extent, extent, channels),
                    kernel=(3, 3), ofmaps=outputs, padding="same")  # fmt: skip
        theirs, ours = tilings(case)
        name = f"VGG16 conv {number}, {extent}x{extent}x{channels} -> {outputs}"
        figure(name, None if theirs is None else theirs.elements, ours.elements)
    print("  -: no tile of SMAUG fits, because it never splits the columns of a convolution")
    print_executed()
    absences(ABSENT)


def tilings(case: Case) -> tuple[Tiling | None, Tiling]:
    """Return the tilings of a layer by SMAUG's rule (None if none fits) and by least traffic."""
    layer, scratchpads = layer_of(case, case.id), scratchpads_of(case)
    ours = LeastTraffic().tile(layer, scratchpads)
    try:
        return choose(Smaug(), layer, scratchpads), ours
    except CapacityError:
        return None, ours


def print_executed() -> None:
    """Run a slice of a VGG16 layer on smv with either tiler."""
    rows, columns, channels, outputs = RUN
    net = GraphBuilder("vgg16_slice")
    graph = net.build(net.conv2d(net.input((1, rows, columns, channels)), outputs, 3))
    host = load_target("host")
    cycles: list[int] = []
    print(f"\nVGG16 conv 6, {rows} of 56 rows, executed on smv in int8, with 32 KiB scratchpads:")
    for tiler in ("smaug", "least_traffic"):
        smv = open_accelerators((f"smv:tiler={tiler}",), host)
        done = compile_graph(graph, Request("zoo:vgg16_slice", host, accelerators=smv))
        found = next(ladder.climb(done, None, api.drawn_sets(done, 1))).comparison
        cycles.append(done.schedule.cost.cycles)
        print(f"  {tiler:14} {found.elements:,} elements, {found.mismatches} mismatches, "
              f"{cycles[-1]:,} cycles estimated")  # fmt: skip
    heading("cycles of that layer; SMAUG's rule, least traffic")
    figure("smv, copies included", *cycles)


if __name__ == "__main__":
    main()
