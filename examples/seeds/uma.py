"""Seed: TVM RFC 0060, UMA. Runs the listing of the RFC on a network, bit-exactly."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import penstock.uma
from examples.seeds.page import Absence, absences, figure, heading
from examples.uma import instances, patterns, phases, regions, schedules
from penstock import api
from penstock.backends.discovery import names
from penstock.errors import BackendError
from penstock.hardware.load import target_text
from penstock.ir.graph import Graph
from penstock.uma import PassPhase, UMABackend
from penstock_ultra_trail import (
    BufferScopeAnnotator,
    CodegenGenerateExternCalls,
    ConfigGenerator,
    conv1d_relu_pattern,
    custom_conv1d_strategy,
    gen_includes,
    gen_sources,
)

MODEL = "zoo:tc_resnet8"
"""Keyword spotting by temporal convolutions, the operator of UltraTrail."""

RFC_CALLS = frozenset(
    f"_register_{what}"
    for what in (
        "target_attr", "relay_pass", "pattern", "operator_strategy", "tir_pass", "codegen"
    )
)  # fmt: skip
"""Source: RFC 0060, "UMABackend References"."""

INTRODUCTION = f"""\
RFC 0060 proposes one Python class per accelerator, in TVM. Its example is UltraTrail ("Adding a New
Custom Accelerator"); the class below is that listing, character by character. The functions that
the RFC only names come from penstock_ultra_trail. The model is {MODEL}."""


# fmt: off
class UltraTrailBackend(UMABackend):
    def __init__(self):
        super(UltraTrailBackend, self).__init__()  # noqa: UP008

        # Target configuration
        self._register_target_attr("dimension", default=8)

        # Relay to Relay function registration
        self._register_pattern("conv1d_relu", conv1d_relu_pattern())

        self._register_relay_pass(PassPhase.POST_PARTITIONING, ConfigGenerator())
        self._register_relay_pass(PassPhase.POST_PARTITIONING, BufferScopeAnnotator())

        # Relay to TIR function registration
        self._register_operator_strategy("nn.conv1d", custom_conv1d_strategy)

        self._register_tir_pass(PassPhase.TIR_PHASE_0, CodegenGenerateExternCalls())

        # TIR to runtime function registration
        self._register_codegen(format="c", includes=gen_includes, replace_call_extern=None)

    @property
    def target_name(self):
        return "ultra_trail"
# fmt: on


class UltraTrail(UltraTrailBackend):
    """Adds what UMA has no call for: local memories, and C stubs that replace the hardware."""

    def __init__(self) -> None:
        super().__init__()
        for name, size in {"fmem0": 4096, "fmem1": 4096, "fmem2": 4096, "wmem": 32768}.items():
            self._register_memory(name, size)
        self._register_codegen(includes=gen_includes, sources=gen_sources)


def no_relay() -> bool:
    """Whether the interface lacks the Relay and TensorIR names that UMA's passes use."""
    return not any(hasattr(penstock.uma, name) for name in ("relay", "tir", "Schedule"))


def one_format() -> bool:
    """Whether code generation rejects every text format except C."""
    try:
        UltraTrail()._register_codegen(fmt="llvm")
    except BackendError:
        return True
    return False


ABSENT = (
    Absence("Relay and TensorIR: passes operate on penstock's graphs and programs, so TVM's passes "
            "do not run.", no_relay),
    Absence("Formats of generated code other than C and byte streams (UMA: only C).", one_format),
)  # fmt: skip


def driver_calls(backend: UMABackend, graph: Graph, *calls: str) -> list[int]:
    """How often the generated C makes each driver call, after it was verified on the host."""
    backend.register()
    done = api.verify(graph, "host", accelerators=(backend.target_name,))
    assert done.passed
    code = done.compiled.bundle()[f"{graph.name}.c"].decode()
    return [code.count(f"    {backend.target_name}_{call}") for call in calls]


def show_features() -> None:
    """Print what the accelerators of examples/uma do; docs/tutorials/uma.md explains them."""
    print("\nGraphs built in Python, partitioned and compiled; exact on the machine and in C:")
    partitioned = patterns.Pooler().partition(patterns.network())
    made = driver_calls(patterns.Pooler(), partitioned, "run(")
    print(f"  {made[0]} command for a diamond of three nodes, matched with its dominator")
    made = driver_calls(patterns.Pooler(), patterns.limits(), "limit(")
    print(f"  {made[0]} commands for layers whose constants match a number, array or predicate")
    for kind, (graph, name, node) in patterns.near_misses().items():
        lines = api.explain_pattern(api.request(graph, "host", accelerators=("pooler",)), node)
        (line,) = (one for one in lines if one.startswith(f'  pattern "{name}"'))
        print(f"  near miss, {kind}: {line.rpartition(': ')[2]}")
    for order in ("rows", "channels"):
        tiled = api.verify(schedules.network(), "host", accelerators=(f"tiled:order={order}",))
        assert tiled.passed
        loads = tiled.compiled.bundle()["pointwise.c"].count(b"tiled_load(0")
        print(f"  schedule {order}: {loads} loads of the input")
    for merge in (True, False):
        (count,) = driver_calls(regions.Pools(merge=merge), regions.network(), "submit(")
        print(f"  submissions of three layers, merge_compiler_regions={merge}: {count}")
    for phase, program_pass in phases.PASSES.items():
        seen = driver_calls(phases.Rows({phase: program_pass}), phases.network(), "begin(", "end(")
        print(f"  {phase.name}: {program_pass.__name__}, {seen[0]} set-ups, {seen[1]} waits")
    phases.Rows({PassPhase.PROGRAM_PHASE_1: phases.whole}).register()
    try:
        api.compile(phases.network(), "host", accelerators=("rows",))
    except BackendError as error:
        print(f"  refused: {error.what}")
    show_several()


def show_several() -> None:
    """Print how several accelerators, and several instances of one, share layers."""
    instances.Twins().register()
    with TemporaryDirectory() as folder:
        board = Path(folder) / "board.toml"
        board.write_text(target_text("host") + instances.TARGET, "utf-8")
        twins = api.verify(regions.network(), str(board), accelerators=("twins",))
    assert twins.passed
    code = twins.compiled.bundle()["chain.c"].decode()
    units = ", ".join(re.findall(r"    twins_select\((\d)\)", code))
    print(f"  instances that run three layers: {units}")
    both = api.verify("zoo:lenet5", "host", accelerators=("vanilla", "smv"))
    assert both.passed
    engines = Counter(part.engine for part in both.compiled.compilation.parts.parts)
    print(f"  layers of LeNet-5: {', '.join(f'{n} on {name}' for name, n in engines.items())}")


def main() -> None:
    print(INTRODUCTION)
    built_in = names()
    UltraTrail().register()  # replaces the installed backend in this process
    verified = api.verify(MODEL, "host", accelerators=("ultra_trail",))
    done = verified.compiled.compilation
    print("\nThe engine of each part, and the CPU fallbacks with their reasons:")
    for part in done.parts.parts:
        print(f"  {part.engine:12} {part.name}")
    for left in done.parts.cpu_fallbacks:
        print(f"  {left.node.name}: {left.reason}")
    print("\nEvery tensor against the operators' arithmetic; `host` runs the C bundle:")
    for rung in verified.rungs:
        found = rung.compared
        print(f"  {rung.step:8} {found.elements:,} elements, {found.mismatches} mismatches")
    schedules.Tiled().register()
    show_features()
    alone, beside = (
        api.compile(MODEL, "cortex-m4", accelerators=some).compilation.schedule.cost.cycles
        for some in ((), ("ultra_trail",))
    )
    calls = [name for name in dir(UMABackend) if name.startswith("_register_")]
    heading("figures")
    figure("registration calls of the RFC that a backend has", len(RFC_CALLS),
           len(RFC_CALLS.intersection(calls)))  # fmt: skip
    figure("registration calls in total", len(RFC_CALLS), len(calls))
    figure("accelerators in this repository (UMA announced 3)", 1, len(built_in))
    figure("quantised elements compared by a test (UMA: none)", None,
           verified.rungs[-1].compared.elements)  # fmt: skip
    figure("estimated speed-up by the accelerator", None, alone / beside, digits=2)
    print(f"  beyond the RFC: {', '.join(sorted({*calls} - RFC_CALLS))}")
    absences(ABSENT)


if __name__ == "__main__":
    main()
