"""Seed: SMAUG's tiling optimizers. Compares its rule with `least_traffic` on VGG16, and runs
operators in its tiles, a loop nest in free form, a tensor in tiles, and a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.smaug_cases import Case, layer_of, scratchpads_of
from examples.seeds.page import Absence, absences, figure, heading
from penstock import api, ladder
from penstock.api.explored import Axes
from penstock.backends.accelerator import Accelerator
from penstock.backends.discovery import open_accelerators
from penstock.errors import CapacityError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Add, Mul
from penstock.ops.unary import LeakyRelu
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.request import Request
from penstock.scheduling.options import DEFAULTS, Options
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import Tiling, choose
from penstock.uma import (
    Layer,
    Offloaded,
    Scratchpads,
    TileSequence,
    TileShape,
    TileVisit,
)
from penstock_smv import HALF_LAYERS, Smv
from penstock_smv.smaug import Smaug
from penstock_smv.tiled_tensor import SlidingWindow, TiledTensor
from penstock_smv.tiling import tiling_of

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

SWEPT = ("input_bytes", "bytes_per_cycle", "processing_elements")
AXES: Axes = {
    ("input_bytes", "weights_bytes", "output_bytes"): (8192, 32768),
    "bytes_per_cycle": (2, 8),
    "processing_elements": (8, 16),
}

INTRODUCTION = """\
SMAUG divides a layer into tiles for three scratchpads of 16,384 fp16 elements each. Among the tile
shapes that its preference order over dimensions permits, it selects the one that fills the
scratchpads most ("Tiling strategies", "Best tile shape for the strategy"). The page notes that this
need not be optimal. penstock implements that rule as the tiler `smaug`. The tiler `least_traffic`
searches every tiling of its model for the one that moves the fewest bytes. Users can add others."""


def few_half_layers() -> bool:
    """Whether float16 layers are convolutions and fully connected layers alone."""
    return HALF_LAYERS.keys() == {"half_conv2d", "half_dense"}


def one_layout() -> bool:
    """Whether images have no layout but (N, H, W, C)."""
    return not any("layout" in name for name in Smv().attributes)


ABSENT = (
    Absence(
        "fp16 (--float16) in other operators than convolutions and fully connected layers: the "
        "accelerator smv computes them in int8, as TensorFlow Lite does.",
        few_half_layers,
    ),
    Absence("NCHW: tensors on the accelerator are (N, H, W, C) or (N, C).", one_layout),
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
    print_operators()
    print_free_form()
    print_tiled_tensor()
    print_sweep()
    print_engines()
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
        found = next(ladder.climb(done, ladder.Truth(), api.drawn_sets(done, 1))).compared
        cycles.append(done.schedule.cost.cycles)
        print(f"  {tiler:14} {found.elements:,} elements, {found.mismatches} mismatches, "
              f"{cycles[-1]:,} cycles estimated")  # fmt: skip
    heading("cycles of that layer; SMAUG's rule, least traffic")
    figure("smv, copies included", *cycles)


def print_operators() -> None:
    """Run batches, batch normalisation, unary and depthwise layers in SMAUG's tiles."""
    net = GraphBuilder("operators")
    scale = Quantisation((0.02,), (3,))
    factors, offsets = (
        net.constant(np.arange(k, k + 16, dtype=np.int8), scale, "constants") for k in (40, -8)
    )
    x = net.conv2d(net.input((4, 24, 24, 8)), 16, 3, name="batch")
    x = net.depthwise_conv2d(x, 3, name="depthwise")
    x = net.apply(Mul(), x, factors, quantisation=scale)
    x = net.apply(Add(), x, offsets, quantisation=scale, name="batch_norm")
    graph = net.build(net.apply(LeakyRelu(0.1), x, name="leaky_relu"))
    sizes = "input_bytes=8192,weights_bytes=8192,output_bytes=32768"
    found = executed(graph, f"smv:tiler=smaug,{sizes}")
    print(
        "\nA batch of 4, depthwise, batch normalisation and leaky ReLU, executed in SMAUG's tiles:"
    )
    for node in found.graph.nodes:
        target = found.request.accelerators[0].target
        tiles = {
            name: len(cut)
            for name, cut in tiling_of(Offloaded(node, target)).tiles.items()
            if len(cut) > 1
        }
        print(f"  {node.name:11} {', '.join(f'{n} {k}' for k, n in tiles.items()) or '1'}")


@dataclass(frozen=True)
class Snake(LeastTraffic):
    """A user's tiler: rows go down and up again; channels are summed in both orders."""

    def shapes(
        self, layer: Layer, scratchpads: Scratchpads, dims: frozenset[str]
    ) -> tuple[TileShape, ...]:
        sizes = {"h": 4, "c": 8, "sum": 32}
        return (TileShape(tuple(sizes.get(axis.name, axis.extent) for axis in layer.axes)),)

    def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
        held = {"sum": (0, len(tiling.tiles["sum"]))}
        rows, sums = range(len(tiling.tiles["h"])), range(len(tiling.tiles["sum"]))
        for c in range(len(tiling.tiles["c"])):
            for h in rows if c % 2 == 0 else reversed(rows):
                for k in sums if h % 2 == 0 else reversed(sums):
                    tile = {"h": h, "c": c, "sum": k}
                    yield TileVisit(tile, {"input 0": held, "input 1": held})


def print_free_form() -> None:
    """Run a convolution in a loop nest that no order of loops describes, with partial sums."""
    net = GraphBuilder("snake")
    graph = net.build(net.conv2d(net.input((1, 16, 16, 64)), 24, 3, name="conv"))
    host, smv = load_target("host"), Smv()
    smv._register_tiler("nn.conv2d", Snake())
    print("\nA loop nest in free form, with partial sums, executed:")
    found = executed(graph, smv.accelerator({}, host))
    (node,) = found.graph.nodes
    sequence = tiling_of(Offloaded(node, found.request.accelerators[0].target))
    assert isinstance(sequence, TileSequence)
    copies = {moved.operand.name: moved.copies for moved in sequence.moved}
    print(f"  {sequence.count} tiles, {copies['input 0']} copies of the input, "
          f"{copies['output']} of the output")  # fmt: skip


def print_tiled_tensor() -> None:
    """Divide a tensor into tiles with halos, and untile it."""
    window = SlidingWindow(3, before=1, after=1)
    tiled = TiledTensor.sliding((1, 32, 32, 8), (1, 8, 8, 8), (None, window, window, None))
    tensor = np.arange(32 * 32 * 8).reshape(1, 32, 32, 8)
    same = np.array_equal(tiled.untiled(tiled.copy_in(tensor)), tensor)
    held = sum(tile.region.elements for tile in tiled.tiles())
    print(f"\nA tensor of {tensor.size:,} elements in {len(list(tiled.tiles()))} tiles of {held:,} "
          f"elements with halos; untiled, it is the original: {same}")  # fmt: skip


def print_sweep() -> None:
    """Sweep scratchpad sizes, bandwidth and lanes for a layer."""
    net = GraphBuilder("swept")
    graph = net.build(net.conv2d(net.input((1, 28, 28, 64)), 64, 3, name="conv"))
    found = api.sweep(graph, "host", accelerator="smv", axes=AXES, optimize="speed",
                      options=Options(max_parts=1))  # fmt: skip
    print("\nA sweep (python -m benchmarks.smaug_sweep draws one for resnet8 and VGG16):")
    for one in found.configurations:
        size, bandwidth, lanes = (one.attributes[name] for name in SWEPT)
        print(f"  {size:>6} bytes each, {bandwidth} bytes/cycle, {lanes:>2} lanes: "
              f"{one.cycles:>9,} cycles, {one.traffic_bytes:>8,} bytes")  # fmt: skip


def print_engines() -> None:
    """Run a layer on several engines, and print how many times faster they are."""
    net = GraphBuilder("engines")
    graph = net.build(net.conv2d(net.input((1, 64, 64, 16)), 16, 7, name="conv"))
    print("\nA convolution whose rows 1, 2, 4 and 8 engines share, with one port to memory:")
    cycles = [
        executed(graph, f"smv:engines={engines}", Options(max_parts=1)).schedule.cost.cycles
        for engines in (1, 2, 4, 8)
    ]
    print(f"  speed-up {', '.join(f'{cycles[0] / each:.2f}' for each in cycles)}")


def executed(
    graph: Graph, accelerator: str | Accelerator, options: Options = DEFAULTS
) -> Compilation:
    """Compile a graph, compare the reference machine with the operators, and print the result."""
    host = load_target("host")
    opened = (
        open_accelerators((accelerator,), host) if isinstance(accelerator, str) else (accelerator,)
    )
    request = Request(f"zoo:{graph.name}", host, accelerators=opened, options=options)
    done = compile_graph(graph, request)
    assert done.parts.cpu_fallbacks == ()
    found = next(ladder.climb(done, ladder.Truth(), api.drawn_sets(done, 1))).compared
    print(f"  {graph.name:14} {found.elements:,} elements, {found.mismatches} mismatches")
    return done


if __name__ == "__main__":
    main()
