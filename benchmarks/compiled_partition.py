"""CompiledPartition: cycles and traffic of compiled networks on NVDLA, by grouping strategy.

    python -m benchmarks.compiled_partition [FOLDER] [--network NAME] [--config NAME] [--large]

Each network is compiled for NVDLA `small` and `large` with every strategy of `--partition`, in
groups of whole layers (`fused_tiles` compares these with groups in tiles). The table has the cycles
of NVDLA and the bytes through the port of main memory, weights and tables among them, as the
schedule states them. Networks of up to MOST_NODES nodes and MOST_MACS
multiply-accumulates also run on the functional model, which must count the same cycles and bytes
and compute the elements of the network; others have a dash. Of each network, a bound follows,
which no grouping of whole layers can beat: the sum of the busy cycles of the computing units, or
the transfer of weights and tables, whichever is more. FOLDER holds models of others; without it,
networks of the zoo are compiled. Exits with 1 if the model disagrees, or if `best` takes more
cycles than another strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import is_onnx, short_name
from benchmarks.grouped_networks import selected
from penstock import api
from penstock.accelerators.nvdla.configurations import configuration
from penstock.accelerators.nvdla.layer import NvdlaMemory
from penstock.accelerators.nvdla.sequencer import Sequencer
from penstock.ir.breakdown import Breakdown
from penstock.pipeline.choosing import choose
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placing import place
from penstock.pipeline.search import schedule
from penstock.reports.resource_use import resource_use
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

STRATEGIES = ("layer", "greedy", "bounded", "paper", "best")
ENGINE = "nvdla"
MOST_NODES, MOST_MACS = 100, 2 * 10**9
"""Of the networks that run on the functional model."""
COMPUTING = ("multipliers", "post-processing", "windows")
"""The resources that compute."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A network that is compiled with a strategy.

    cycles, main_bytes: stated ones of the accelerator.
    faults: how the functional model disagrees; None if it did not run.
    """

    strategy: str
    cycles: int
    main_bytes: int
    faults: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Compared:
    """A network on a configuration, with every strategy.

    left: number of nodes that the processor runs.
    processor_cycles: estimated cycles of these.
    computing_cycles, transfer_cycles: the two bounds.
    """

    name: str
    nodes: int
    left: int
    processor_cycles: int
    computing_cycles: int
    transfer_cycles: int
    strategies: tuple[Measured, ...]

    @property
    def bound(self) -> int:
        """Cycles below which no grouping can be."""
        return max(self.computing_cycles, self.transfer_cycles)

    @property
    def failed(self) -> bool:
        """Whether the functional model disagrees, or `best` is worse than another strategy."""
        found = {one.strategy: one.cycles for one in self.strategies}
        return found["best"] > min(found.values()) or any(one.faults for one in self.strategies)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 where the functional model disagrees or `best` is worse than another."""
    networks = selected("benchmarks.compiled_partition", __doc__ or "", arguments)
    found = [compared(model, config) for model, config in networks]
    console().print(table(found))
    for one in found:
        for measured in one.strategies:
            for fault in measured.faults or ():
                print(f"{one.name}, {measured.strategy}: {fault}")
    return 1 if not found or any(one.failed for one in found) else 0


def compared(model: str, config: str) -> Compared:
    """A network with every strategy. Raises PenstockError."""
    every = compilations(model, config)
    name, first = next(every)
    nodes = len(first.model.nodes)
    runs = nodes <= MOST_NODES and first.schedule.cost.macs <= MOST_MACS
    chip = configuration(config)
    found = [measured(name, first, config, runs=runs)]
    found += (measured(name, one, config, runs=runs) for name, one in every)
    needs = breakdowns(first.schedule)
    computing = (max(need.by_resource.get(n, 0) for n in COMPUTING) for need in needs)
    fixed = sum(
        use.traffic["weights"] + use.traffic["table"]
        for use in resource_use(first.schedule).values()
    )
    return Compared(
        f"{short_name(model)}, {config}",
        nodes,
        len(first.parts.cpu_fallbacks),
        first.schedule.cost.cycles - engine_cycles(first.schedule),
        round(sum(computing)),
        fixed // chip.memory.bytes_per_cycle,
        tuple(found),
    )


def compilations(model: str, config: str) -> Iterator[tuple[str, Compilation]]:
    """A network compiled with every strategy, by name. Raises PenstockError."""
    done: Compilation | None = None
    for name in STRATEGIES:
        if done is None:
            request = api.request(
                model,
                "host",
                accelerators=(f"{ENGINE}:config={config}",),
                options=Options(partition=name, tiles=False),
                optimize="speed",
                assume_int8=is_onnx(model),
            )
            done = compile_request(request)
            yield name, done
            continue
        request = replace(done.request, options=replace(done.request.options, partition=name))
        found = schedule(done.parts, request.target, request.options, request.accelerators)
        points = place(found, request.target, request.options)
        changed = replace(done, request=request, frontier=found, points=points)
        yield name, with_point(changed, choose(points, request))


def measured(name: str, done: Compilation, config: str, *, runs: bool) -> Measured:
    """The stated cycles and bytes of a compiled network; `runs`: compared with those counted."""
    chip = configuration(config)
    needs = breakdowns(done.schedule)
    moved = sum(need.by_resource.get("memory", 0) for need in needs) * chip.memory.bytes_per_cycle
    cycles = engine_cycles(done.schedule)
    faults = tuple(disagreements(done, cycles, round(moved))) if runs else None
    return Measured(name, cycles, round(moved), faults)


def breakdowns(schedule: Schedule) -> Sequence[Breakdown]:
    """What each layer on the accelerator needs."""
    every = (use.breakdown for use in resource_use(schedule).values())
    return [one for one in every if one is not None]


def engine_cycles(schedule: Schedule) -> int:
    """Stated cycles of the accelerator."""
    parts = schedule.parts.parts
    return sum(
        cost.cycles
        for plan in schedule.plans
        for k, cost in zip(plan.parts, plan.costs, strict=True)
        if parts[k].engine == ENGINE
    )


def disagreements(done: Compilation, cycles: int, main_bytes: int) -> Iterator[str]:
    """How a run on the functional model differs from what is stated, and from the graph."""
    (inputs,) = api.drawn_sets(done, 1)
    machine = Machine(done.program)
    outputs = machine.run(inputs)
    device = machine.device(ENGINE)
    assert isinstance(device, Sequencer)
    yield from differences("cycles", device.cycles, cycles)
    yield from differences("bytes", device.port_bytes[NvdlaMemory.MAIN], main_bytes)
    expected = run_graph(done.model, inputs)
    for tensor, elements in outputs.items():
        wrong = int((elements != expected[tensor]).sum())
        yield from differences(f'differing elements of "{tensor}"', wrong, 0)


def differences(what: str, found: int, expected: int) -> Iterator[str]:
    """What differs, in words."""
    if found != expected:
        yield f"{found:,} {what}, {expected:,} expected"


def table(found: Sequence[Compared]) -> Table:
    """The table of all networks."""
    made = Table(title="compiled networks on NVDLA: modelled cycles and bytes of main memory")
    made.add_column("network")
    for heading in ("nodes", "on CPU", "CPU cycles", "strategy", "NVDLA cycles", "gain",
                    "above bound", "main bytes", "saved", "functional model"):  # fmt: skip
        made.add_column(heading, justify="right")
    for one in found:
        layer, *_ = one.strategies
        facts = (shown(one.nodes), shown(one.left), shown(one.processor_cycles))
        for k, measured in enumerate(one.strategies):
            checked = "-" if measured.faults is None else "differs" if measured.faults else "equal"
            made.add_row(
                one.name,
                *(facts if not k else ("",) * len(facts)),
                measured.strategy,
                shown(measured.cycles),
                f"{1 - measured.cycles / layer.cycles:.1%}",
                f"{measured.cycles / one.bound - 1:.1%}",
                shown(measured.main_bytes),
                f"{1 - measured.main_bytes / layer.main_bytes:.1%}",
                checked,
            )
        limits = f"computing {one.computing_cycles:,}, weights {one.transfer_cycles:,}"
        gain = f"{1 - one.bound / layer.cycles:.1%}"
        cells = (one.name, "", "", "", "bound", shown(one.bound), gain, "", limits, "", "")
        made.add_row(*cells, end_section=True)
    return made


if __name__ == "__main__":
    entry(main)
