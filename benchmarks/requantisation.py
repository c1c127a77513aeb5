"""Requantisation: cost of the certified form, of generic C and of a form with five constants.

    python -m benchmarks.requantisation [--compiler zig|gcc] [--models FOLDER]

Measured on the simulated Cortex-M4 with equal flags: cycles per output of a requantised 1x1
convolution with four input channels, beside the accumulation alone in generic C; instructions,
cycles and bytes of constants per output of requantisation, counted in the disassembly; and
instructions per output of the networks' layers. Exits with 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import compile_graph, compile_request
from penstock.pipeline.request import Request
from penstock.scheduling.options import Options
from penstock.simulators.cortex_m import Simulator
from penstock.simulators.cortex_m_timing import BasicBlock, Instruction, InstructionKind, decode
from penstock.toolchains.compiler import Compiler, compile_objects
from penstock.toolchains.cortex_m import gcc_cortex_m, link_firmware, zig_cortex_m

TARGET = "cortex-m4"
SOURCE = Path(__file__).with_suffix(".c")
NETWORKS = ("vww_96_int8", "kws_ref_model", "pretrainedResnet_quant")
SIZE = 24
"""Rows and columns of the convolution."""
INPUTS = 4
OUTPUTS = (8, 16, 32, 64)
WIDE_LOADED_BYTES = 2 * 4 + 3 * 8
MOST_CYCLES, MOST_INSTRUCTIONS = 15.0, 8.0
LEAST_BYTES_RATIO, LEAST_CYCLES_RATIO = 5.0, 4.0
WIDE_NAMES = frozenset(
    [
        "ldrd",
        "strd",
        "adc",
        "adcs",
        "sbc",
        "sbcs",
        "smull",
        "umull",
        "smlal",
        "umlal",
        "asrl",
        "lsll",
    ]
)
"""Instructions on register pairs, and additions with carry."""
SUMMING = frozenset(["smlad", "smuad", "smlabb", "smlatt"])
TILES = {  # the function, its outputs a turn, and words of constants loaded before the sums
    ("conv2d_s8_dsp", 0): ("penstock_tile_plain", 8, 2),
    ("conv2d_s8_dsp", 1): ("penstock_tile_signed", 8, 2),
    ("depthwise_conv2d_s8_dsp", 0): ("penstock_nine_taps_plain", 4, 0),
    ("depthwise_conv2d_s8_dsp", 1): ("penstock_nine_taps_signed", 4, 0),
    ("fully_connected_s8_dsp", 0): ("penstock_row_plain", 4, 2),
    ("fully_connected_s8_dsp", 1): ("penstock_row_signed", 4, 2),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A form of requantisation, per output; `wide`: names of its 64-bit instructions."""

    name: str
    instructions: float
    cycles: float
    loaded_bytes: float
    wide: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Cycles per output of a 1x1 convolution of four input channels."""

    outputs: int
    ours: float
    generic: float


@dataclass(frozen=True, slots=True)
class Network:
    """A network's program, and instructions per output of requantisation over all outputs."""

    name: str
    core: Simulator
    average: float
    outputs: int


def main(arguments: Sequence[str]) -> int:
    """Prints three tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.requantisation", description=__doc__
    )
    parser.add_argument("--compiler", choices=("zig", "gcc"), default="zig")
    parser.add_argument("--models", type=Path, help="folder of models")
    wanted = parser.parse_args(arguments)
    models = find_shared(wanted.models).named(list(NETWORKS))
    with tempfile.TemporaryDirectory() as name:
        generic = generic_core(wanted.compiler, Path(name))
        points = [pointwise(generic, count, wanted.compiler) for count in OUTPUTS]
        wide = wide_form(generic)
    networks = [network(str(path), wanted.compiler) for path in models]
    cores = {name: core for core in (n.core for n in networks) for name in _functions(core)}
    forms = [form_of(cores[name], key) for key, (name, *_) in TILES.items() if name in cores]
    out = console()
    for table in (_points(points), _forms([wide, *forms]), _averages(networks)):
        out.print(table)
    return int(missed(points[-1], wide, forms[0], mean(networks)))


def missed(point: Pointwise, wide: Form, cheap: Form, average: float) -> bool:
    """Whether a limit is missed."""
    return (
        point.ours > MOST_CYCLES
        or bool(cheap.wide)
        or wide.loaded_bytes < LEAST_BYTES_RATIO * cheap.loaded_bytes
        or wide.cycles < LEAST_CYCLES_RATIO * cheap.cycles
        or average > MOST_INSTRUCTIONS
    )


def mean(networks: Sequence[Network]) -> float:
    """Instructions per output over all networks."""
    return sum(n.average * n.outputs for n in networks) / sum(n.outputs for n in networks)


def pointwise(generic: Simulator, outputs: int, compiler: str) -> Pointwise:
    """Our convolution with requantisation beside generic C's accumulation."""
    ran = _run(_convolution(outputs), compiler)
    pixels = SIZE * SIZE
    sums = _slope(generic, "generic_sums", outputs)
    return Pointwise(outputs, ran.counts.cycles / (pixels * outputs), sums[1])


def wide_form(generic: Simulator) -> Form:
    """The form of five constants, with loop and store."""
    instructions, cycles = _slope(generic, "wide_requantisation", OUTPUTS[-1])
    names = _function(generic, "wide_requantisation")
    return Form("five constants", instructions, cycles, WIDE_LOADED_BYTES, wide_instructions(names))


def form_of(core: Simulator, key: tuple[str, int]) -> Form:
    """The certified form in its kernel: from the last product of an iteration to the branch to the
    next one."""
    name, outputs, before = TILES[key]
    code = requantising(_function(core, name))
    cycles = core.core.timing.block_cycles(BasicBlock(code)) + core.core.timing.taken_branch_cycles
    words = before + sum(
        found.registers
        for found in code
        if found.kind in (InstructionKind.LOAD, InstructionKind.LOAD_MULTIPLE)
        and "sp" not in found.address_registers
    )
    return Form(
        name, len(code) / outputs, cycles / outputs, 4 * words / outputs, wide_instructions(code)
    )


def network(model: str, compiler: str) -> Network:
    """A network's program, and the cost of requantisation in its layers with weights."""
    done = compile_request(api.request(model, TARGET, options=Options(accumulate=False)))
    with execution.firmware(done, compiler) as chip:
        core = chip.simulator
    assert isinstance(core, Simulator), "the simulator of TARGET"
    steps = [
        ((part.kernel.name, dict(part.kernel.params).get("is_signed", 0)), part.output.type)
        for part in done.schedule.steps
    ]
    counts = [
        (form_of(core, key).instructions * type.elements, type.elements)
        for key, type in steps
        if key in TILES
    ]
    total, outputs = map(sum, zip(*counts, strict=True))
    return Network(Path(model).stem, core, total / outputs, outputs)


def _functions(core: Simulator) -> frozenset[str]:
    return frozenset(symbol.name for symbol in core.image.symbols if symbol.function)


def requantising(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Instructions from the last product to the first branch after the high products; if products
    have a loop of their own, after that loop."""
    high = max(k for k, found in enumerate(code) if found.name == "smmla")
    end = next(k for k in range(high, len(code)) if code[k].kind is InstructionKind.BRANCH)
    begins = [
        k
        for k, found in enumerate(code[:high])
        if found.name in SUMMING or found.kind is InstructionKind.BRANCH
    ]
    return tuple(code[max(begins) + 1 : end + 1])


def wide_instructions(code: Sequence[Instruction]) -> tuple[str, ...]:
    return tuple(sorted({found.name for found in code} & WIDE_NAMES))


def _function(core: Simulator, name: str) -> tuple[Instruction, ...]:
    """The instructions of a function up to the first return, which ends it."""
    address = core.symbol(name) & ~1
    later = [s.address & ~1 for s in core.image.symbols if s.function and s.address & ~1 > address]
    end = min([*later, core.image.code_upper])
    return decode(core.read(address, end - address), address).instructions


def _slope(core: Simulator, name: str, outputs: int) -> tuple[float, float]:
    """Instructions and cycles of one more output."""
    pool = core.symbol("pool")
    arguments = (pool, pool + 1024, pool + 65536) if name == "generic_sums" else (pool, pool + 1024)
    most, least = (core.call(name, *arguments, n).counts for n in (outputs, outputs // 2))
    more = most - least
    return more.instructions / (outputs - outputs // 2), more.cycles / (outputs - outputs // 2)


def generic_core(compiler: str, folder: Path) -> Simulator:
    """The forms of `requantisation.c` on the simulated core, built in a folder."""
    tools = _tools(compiler)
    objects = compile_objects(tools, [SOURCE], folder)
    keep = ("generic_sums", "wide_requantisation", "pool")
    return Simulator(link_firmware(tools, objects, folder / "generic.elf", keep=keep), "cortex-m4")


def _tools(compiler: str) -> Compiler:
    found = load_target(TARGET).compiler
    make = {"zig": zig_cortex_m, "gcc": gcc_cortex_m}[compiler]
    return make(getattr(found, compiler), found.optimise)


def _convolution(outputs: int) -> Graph:
    net = GraphBuilder(f"pointwise{outputs}")
    x = net.input((1, SIZE, SIZE, INPUTS))
    return net.build(net.conv2d(x, outputs, 1, activation="relu"))


def _run(graph: Graph, compiler: str) -> execution.CoreRun:
    """One inference of a graph, layer by layer."""
    wanted = Request(f"zoo:{graph.name}", load_target(TARGET))
    done = compile_graph(graph, wanted)
    with execution.firmware(done, compiler) as chip:
        return chip.run(api.drawn_sets(done, 1)[0])


def _points(points: Sequence[Pointwise]) -> Table:
    table = Table(title=f"1x1 convolution of {INPUTS} input channels: cycles per output")
    for heading in ("output channels", "ours, requantised", "generic C, sums alone", "limit"):
        table.add_column(heading, justify="right")
    for p in points:
        limit = f"{MOST_CYCLES:.0f}" if p is points[-1] else ""
        table.add_row(str(p.outputs), f"{p.ours:.1f}", f"{p.generic:.1f}", limit)
    return table


def _forms(forms: Sequence[Form]) -> Table:
    table = Table(title="requantisation, per output; store and loop included")
    table.add_column("form", no_wrap=True)
    for heading in ("instructions", "cycles", "bytes of constants", "fewer cycles", "fewer bytes"):
        table.add_column(heading, justify="right")
    table.add_column("64-bit instructions")
    wide = forms[0]
    for f in forms:
        table.add_row(
            f.name,
            f"{f.instructions:.1f}",
            f"{f.cycles:.1f}",
            f"{f.loaded_bytes:.1f}",
            f"{wide.cycles / f.cycles:.1f} x",
            f"{wide.loaded_bytes / f.loaded_bytes:.1f} x",
            " ".join(f.wide) or "none",
        )
    return table


def _averages(networks: Sequence[Network]) -> Table:
    table = Table(title="requantisation in layers with weights, on average")
    table.add_column("network", no_wrap=True)
    for heading in ("outputs", "instructions per output", "limit"):
        table.add_column(heading, justify="right")
    for n in networks:
        table.add_row(n.name, f"{n.outputs:,}", f"{n.average:.2f}", "")
    outputs = sum(n.outputs for n in networks)
    table.add_row("all", f"{outputs:,}", f"{mean(networks):.2f}", f"{MOST_INSTRUCTIONS:.0f}")
    return table


if __name__ == "__main__":
    entry(main)
