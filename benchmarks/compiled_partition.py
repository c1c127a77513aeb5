"""CompiledPartition: cycles and traffic of compiled networks on NVDLA, by grouping strategy.

    python -m benchmarks.compiled_partition [FOLDER] [--network NAME] [--config NAME] [--host]
        [--record FILE [--again]]

Each network is compiled for NVDLA `large` with every strategy of `--partition`, in
groups of whole layers (`fused_tiles` compares these with groups in tiles). The table has the cycles
of NVDLA and the bytes through the port of main memory, weights and tables among them, as the
schedule states them. Networks of up to MOST_NODES nodes also run on the functional model, which
must count the same cycles and bytes and compute the elements of the network; larger ones do so as
compiled by `best`, and then with `--host` also in C on this machine, with sanitizers. Others have a
dash. Of each network, a bound follows, which no grouping of whole layers can beat: the sum of the
busy cycles of the computing units, or the transfer of weights and tables, whichever is more.

A second table has the cycles that `best` saves compared with each of the other strategies, beside
the figures of the paper (Zheng et al., IEEE TCAD 39(11), 2020), whose networks and sizes of buffers
are not published.

FOLDER holds models of others; without it, networks of the zoo are compiled. With `--record`, rows
are kept in FILE: those of this run are added, all are printed. Exits with 1 if a run disagrees, or
if `best` takes more cycles than another strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import is_onnx, short_name
from benchmarks.grouped_networks import CONFIGURATIONS, Job, selection
from penstock import api
from penstock.execution import run_on_host
from penstock.ir.breakdown import Breakdown
from penstock.ir.tensor import Array
from penstock.pipeline.choosing import choose
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placing import place
from penstock.pipeline.search import schedule
from penstock.reports.steps import resource_use
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock_nvdla.configurations import configuration
from penstock_nvdla.layer import NvdlaMemory
from penstock_nvdla.sequencer import Sequencer

STRATEGIES = ("layer", "greedy", "paper", "best")
ENGINE = "nvdla"
MOST_NODES = 100
"""Of the networks that run on the functional model with every strategy."""
PAPER = {"layer": "-", "greedy": "up to 87 %", "paper": "-"}
"""The paper's figures: faster inference than earlier partitions."""
COMPUTING = ("multipliers", "post-processing")
"""The resources that compute."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A network that is compiled with a strategy.

    cycles, main_bytes: stated ones of the accelerator.
    faults: how the functional model disagrees; None if it did not run.
    host_faults: how C code on this machine disagrees; None if it did not run.
    """

    strategy: str
    cycles: int
    main_bytes: int
    faults: tuple[str, ...] | None
    host_faults: tuple[str, ...] | None = None

    @property
    def every_fault(self) -> tuple[str, ...]:
        """Of all runs."""
        return (*(self.faults or ()), *(self.host_faults or ()))


@dataclass(frozen=True, slots=True)
class Reference:
    """Inputs of a network, and its tensors according to the operators' arithmetic."""

    inputs: Mapping[str, Array]
    tensors: Mapping[str, Array]


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
        faults = any(one.every_fault for one in self.strategies)
        return found["best"] > min(found.values()) or faults

    def saved(self, strategy: str) -> float:
        """The share of the cycles of a strategy that `best` saves."""
        found = {one.strategy: one.cycles for one in self.strategies}
        return 1 - found["best"] / found[strategy]


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 where the functional model disagrees or `best` is worse than another."""
    wanted = selection("benchmarks.compiled_partition", __doc__ or "", arguments)
    jobs = (
        Job(model, config, "", partial(compared, model, config, host=wanted.host))
        for model in wanted.models
        for config in CONFIGURATIONS
    )
    found = wanted.rows(jobs, parse)
    console().print(table(found))
    console().print(gains(found))
    for one in found:
        for measured in one.strategies:
            for fault in measured.every_fault:
                print(f"{one.name}, {measured.strategy}: {fault}")
    return 1 if not found or any(one.failed for one in found) else 0


def parse(row: Any) -> Compared:
    """A network of a record."""
    return replace(Compared(**row), strategies=tuple(map(parse_measured, row["strategies"])))


def parse_measured(row: Any) -> Measured:
    """A compiled network of a record."""
    found = Measured(**row)
    for name in ("faults", "host_faults"):
        if row[name] is not None:
            found = replace(found, **{name: tuple(row[name])})
    return found


def compared(model: str, config: str, *, host: bool = False) -> Compared:
    """A network with every strategy; `host`: C code of large ones runs. Raises PenstockError."""
    every = compilations(model, config)
    name, first = next(every)
    chip = configuration(config)
    small, expected = len(first.model.nodes) <= MOST_NODES, reference(first)
    found = [measured(name, first, expected if small else None)]
    for name, one in every:
        runs = small or name == "best"
        host_runs = host and runs and not small
        found.append(measured(name, one, expected if runs else None, host=host_runs))
    needs = breakdowns(first.schedule)
    computing = (max(need.by_resource.get(n, 0) for n in COMPUTING) for need in needs)
    fixed = sum(
        use.traffic["weights"] + use.traffic["table"]
        for use in resource_use(first.schedule).values()
    )
    return Compared(
        f"{short_name(model)}, {config}",
        len(first.model.nodes),
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
        options = Options(partition=name, tiles=False)
        done = recompiled(done, options) if done else compiled(model, config, options)
        yield name, done


def compiled(model: str, config: str, options: Options) -> Compilation:
    """A network compiled for fewest cycles.  Raises PenstockError.

    config: of NVDLA, and further attributes.
    """
    request = api.request(
        model,
        "host",
        accelerators=(f"{ENGINE}:config={config}",),
        options=options,
        optimize="speed",
        assume_int8=is_onnx(model),
    )
    return compile_request(request)


def recompiled(done: Compilation, options: Options) -> Compilation:
    """A compiled network that is scheduled with other options for groups. Raises PenstockError."""
    request = replace(done.request, options=options)
    found = schedule(done.parts, request.target, request.options, request.accelerators)
    points = place(found, request.target, request.options)
    changed = replace(done, request=request, frontier=found, points=points)
    return with_point(changed, choose(points, request))


def reference(done: Compilation) -> Reference:
    """What a compiled network must compute of drawn inputs."""
    (inputs,) = api.drawn_sets(done, 1)
    return Reference(inputs, run_graph(done.model, inputs))


def measured(
    name: str, done: Compilation, expected: Reference | None, *, host: bool = False
) -> Measured:
    """The stated cycles and bytes of a compiled network.

    expected: what runs are compared with; None if the network does not run.
    host: whether it also runs in C on this machine.
    """
    cycles, moved = engine_cycles(done.schedule), main_bytes(done.schedule)
    if expected is None:
        return Measured(name, cycles, moved, None)
    faults = tuple(disagreements(done, cycles, moved, expected))
    return Measured(
        name, cycles, moved, faults, tuple(host_faults(done, expected)) if host else None
    )


def breakdowns(schedule: Schedule) -> Sequence[Breakdown]:
    """What each layer on the accelerator needs."""
    every = (use.breakdown for use in resource_use(schedule).values())
    return [one for one in every if one is not None]


def main_bytes(schedule: Schedule) -> int:
    """Stated bytes of main memory that the accelerator moves."""
    every = (one for plan in schedule.plans for one in plan.breakdowns)
    return round(sum(one.memory_bytes for one in every if one is not None))


def engine_cycles(schedule: Schedule) -> int:
    """Stated cycles of the accelerator."""
    parts = schedule.parts.parts
    return sum(
        cost.cycles
        for plan in schedule.plans
        for k, cost in zip(plan.parts, plan.costs, strict=True)
        if parts[k].engine == ENGINE
    )


def disagreements(
    done: Compilation, cycles: int, main_bytes: int, expected: Reference | None = None
) -> Iterator[str]:
    """How a run on the functional model differs from what is stated, and from the graph."""
    expected = expected or reference(done)
    machine = Machine(done.program)
    outputs = machine.run(expected.inputs)
    device = machine.device(ENGINE)
    assert isinstance(device, Sequencer)
    yield from differences("cycles", device.cycles, cycles)
    yield from differences("bytes", device.port_bytes[NvdlaMemory.MAIN], main_bytes)
    yield from differing(outputs, expected)


def host_faults(done: Compilation, expected: Reference) -> Iterator[str]:
    """How a run of the C code on this machine, with sanitizers, differs from the graph."""
    (tensors,) = run_on_host(done, (expected.inputs,)).tensors
    outputs = {view.tensor: tensors[view.tensor] for view in done.program.outputs}
    yield from differing(outputs, expected)


def differing(outputs: Mapping[str, Array], expected: Reference) -> Iterator[str]:
    """How many elements of outputs are not those of the graph, in words."""
    for tensor, elements in outputs.items():
        wrong = int((elements != expected.tensors[tensor]).sum())
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
                    "above bound", "main bytes", "saved", "functional model", "C"):  # fmt: skip
        made.add_column(heading, justify="right")
    for one in found:
        layer, *_ = one.strategies
        facts = (shown(one.nodes), shown(one.left), shown(one.processor_cycles))
        for k, measured in enumerate(one.strategies):
            made.add_row(
                one.name,
                *(facts if not k else ("",) * len(facts)),
                measured.strategy,
                shown(measured.cycles),
                f"{1 - measured.cycles / layer.cycles:.1%}",
                f"{measured.cycles / one.bound - 1:.1%}",
                shown(measured.main_bytes),
                f"{1 - measured.main_bytes / layer.main_bytes:.1%}",
                verdict(measured.faults),
                verdict(measured.host_faults),
            )
        limits = f"computing {one.computing_cycles:,}, weights {one.transfer_cycles:,}"
        gain = f"{1 - one.bound / layer.cycles:.1%}"
        cells = (one.name, "", "", "", "bound", shown(one.bound), gain, "", limits, "", "", "")
        made.add_row(*cells, end_section=True)
    return made


def verdict(faults: Sequence[str] | None) -> str:
    """The result of a run, for a table."""
    return "-" if faults is None else "differs" if faults else "equal"


def gains(found: Sequence[Compared]) -> Table:
    """The cycles that `best` saves, and the paper's figures."""
    others = [name for name in STRATEGIES if name != "best"]
    made = Table(title="cycles that best saves, relative to the other strategies")
    made.add_column("network")
    for heading in (*others, "above bound"):
        made.add_column(heading, justify="right")
    for one in found:
        (best,) = (each for each in one.strategies if each.strategy == "best")
        saved = (f"{one.saved(name):.1%}" for name in others)
        made.add_row(one.name, *saved, f"{best.cycles / one.bound - 1:.1%}")
    if found:
        saved = (f"{max(one.saved(name) for one in found):.1%}" for name in others)
        made.add_section()
        made.add_row("most", *saved)
    made.add_row("the paper", *(PAPER[name] for name in others))
    return made


if __name__ == "__main__":
    entry(main)
