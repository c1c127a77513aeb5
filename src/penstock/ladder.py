"""The verification ladder: reference, NumPy machine, C on the host, C on a simulated core.

The reference evaluates the model's graph operator by operator.  It is compared with ground truth,
on every tensor that the ground truth contains.  Each other rung runs the compiled program and is
compared with the reference, on every tensor that survives the passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from penstock.backends.accelerator import Accelerator
from penstock.brief import Brief
from penstock.errors import CapacityError, InternalError
from penstock.execution import Tensors, run_on_core, run_on_host
from penstock.ground_truth import against_goldens, as_recorded, unknown
from penstock.hops import Hops
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, Region
from penstock.pipeline.compilation import Compilation, stack_error
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint, located_at
from penstock.program.program import Program
from penstock.program.steps import calls, submitted_steps
from penstock.quoting import quoted
from penstock.reports.making import stated_cycles
from penstock.reports.report import RealDifference
from penstock.scheduling.bands.band_schedule import tensor_configs
from penstock.scheduling.model.cost import Cost
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.simulators.compare import NOT_RUN, Comparison, Judgement, compare_sets, total
from penstock.simulators.goldens import Goldens
from penstock.simulators.graph import (
    TensorTrace,
    evaluate_node,
    gathered,
    initial_states,
    next_states,
    run_graph,
    run_sequences,
)
from penstock.simulators.machine import Counts, Machine
from penstock.simulators.tflite_deviations import Deviating
from penstock.workers import mapped

# Compare the operators that computed the tensors of all sets with a reference, node by node.
Judge = Callable[[Sequence[Mapping[str, Array]]], Judgement]
InputSets = Sequence[Mapping[str, Array]]
C_STEPS = frozenset(("host", "core"))  # Rungs that run generated C.


@dataclass(frozen=True, slots=True, repr=False)
class Rung(Brief):
    """The result of one rung.

    `comparison` is None if the rung was not run, and `note` states why.  `measured` is the distance
    from the reference, on rungs where a distance is no mismatch; `judgement` states it node by
    node.  `error`: the limit exceeded."""

    step: str
    comparison: Comparison | None
    note: str = ""
    measured: RealDifference | None = None
    error: CapacityError | None = None
    judgement: Judgement | None = None

    @property
    def mismatches(self) -> int | None:
        """The number of different elements; None if the rung was not run."""
        return None if self.comparison is None else self.comparison.mismatches

    @property
    def compared(self) -> Comparison:
        """The comparison.  Raises InternalError if the rung was not run."""
        if self.comparison is None:
            raise InternalError("ladder-002", f"rung {self.step} was not run", why=self.note)
        return self.comparison


@dataclass(frozen=True, slots=True)
class Truth:
    """What the reference is compared with.

    `judge` compares node by node and end to end, in place of `goldens`.  `deviating`: nodes on
    which the runtime of the goldens deviates as documented; `are_recorded`: the goldens are those
    of an archive, in which it did.  `hops`: an incremental network is compared with the network
    with the window; ground truth is that of the latter, at the end of every sequence."""

    goldens: Goldens | None = None
    judge: Judge | None = None
    deviating: Sequence[Deviating] = ()
    are_recorded: bool = False
    hops: Hops | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """The C compiler for the program of a simulated core, and what runs the points."""

    compiler: str = "zig"
    executor: Executor | None = None


def climb(
    compilation: Compilation,
    truth: Truth,
    sets: InputSets,
    on_rung: Callable[[str], None] = lambda name: None,
    *,
    steps: int = 1,
    every_point: bool = False,
    tools: Tools = Tools(),
) -> Iterator[Rung]:
    """Yield the rungs, lowest first, each as soon as it is compared.

    `sets` holds the inputs of each run by name; before every `steps` runs, states are reset.
    `every_point` adds a rung that runs every point of the frontier on the machine."""
    hops = truth.hops
    on_rung("reference")
    sets = tuple(with_interface(compilation, inputs) for inputs in sets)
    reference = tuple(run_sequences(compilation.model, sets, steps))
    model, results, runs, length = compilation.model, reference, sets, steps
    if hops is not None:
        runs, length = tuple(hops.windows(sets, steps))[steps - 1 :: steps], 1
        model, results = hops.window, tuple(run_graph(hops.window, one) for one in runs)
    if truth.judge is not None:
        yield from _judged_rungs(truth.judge(results))
    elif truth.goldens is not None:
        if truth.deviating:
            yield _deviations_rung(truth.deviating, results)
        recorded = partial(as_recorded, model, runs, length, truth.goldens, truth.deviating)
        is_altered = truth.deviating and truth.are_recorded
        against = partial(
            against_goldens,
            model,
            goldens=truth.goldens,
            kept={one.node.y.name for one in truth.deviating},
        )
        yield _reference_rung(against, results, recorded if is_altered else None)
    if hops is not None:
        on_rung("hops")
        yield _hops_rung(hops.compared(sets, steps, reference), len(sets))
    survivors = surviving(compilation)
    on_rung("machine")
    with located_at(compilation.point, compilation.request):
        found, cycles = run_machine(compilation, sets, steps)
    note = stated_cycles(compilation.schedule, cycles)
    yield Rung("machine", compare_sets(survivors, found, reference), note)
    if every_point:
        yield _points_rung(compilation, sets[0], reference[0], on_rung, tools.executor)
    has_core = compilation.request.target.core is not None
    if missing := without_c(compilation):
        note = f"not run: {', '.join(missing)} has no model of its driver in C"
        yield from (Rung(step, None, note) for step in ("host", "core")[: 1 + has_core])
        return
    on_rung("host")
    hidden = in_submissions(compilation)
    visible = tuple(name for name in survivors if name not in hidden)
    known = [{name: one[name] for name in hidden & one.keys()} for one in reference]
    host = run_on_host(compilation, sets, steps)
    traces = [{**some, **one} for some, one in zip(known, host.tensors, strict=True)]
    found = _all_completed(compilation, traces, sets, steps)
    note = f"sanitizers: {', '.join(host.sanitizers)}"
    yield Rung("host", compare_sets(visible, found, reference), note)
    if has_core:
        on_rung("core")
        runs = run_on_core(compilation, sets, tools.compiler, steps)
        traces = [{**some, **run.tensors} for some, run in zip(known, runs, strict=True)]
        found = _all_completed(compilation, traces, sets, steps)
        error = stack_error(compilation, runs[0].stack_bytes)
        note = f"stack {runs[0].stack_bytes} bytes" if error is None else error.what
        yield Rung("core", compare_sets(visible, found, reference), note, error=error)


def _hops_rung(found: Comparison, hops: int) -> Rung:
    verdict = "unequal" if found.mismatches else "equal"
    return Rung("hops", found, f"{hops} hops, {verdict} to the network with the window")


def without_c(compilation: Compilation) -> tuple[str, ...]:
    """Accelerators that run a part and whose driver has no stub in C."""
    used = {part.engine for part in compilation.parts.parts}
    every = (a for a in compilation.request.accelerators if a.name in used)
    return tuple(a.name for a in every if not has_c(a, compilation.program))


def has_c(accelerator: Accelerator, program: Program | None = None) -> bool:
    """Whether the driver of an accelerator has a model in C.

    program: the program that is emitted; None: it is not known yet, and a driver whose sources
        depend on it is assumed to have a model."""
    sources = accelerator.codegen.sources
    if callable(sources):
        if program is None:
            return True
        sources = sources(program)
    return any(name.endswith(".c") for name, _ in sources)


def run_machine(
    compilation: Compilation, sets: InputSets, steps: int = 1
) -> tuple[tuple[Tensors, ...], Mapping[str, float]]:
    """Run every set on the NumPy machine; return all tensors of each, and by accelerator the cycles
    that its driver functions state for the first run.

    `steps`: before every `steps` sets, the run begins with a new machine, and so with new
    states."""
    found: list[Tensors] = []
    cycles: Mapping[str, float] = {}
    tensors: Tensors = {}
    shapes = _shapes(compilation)
    machine = None
    for k, inputs in enumerate(sets):
        if machine is None or k % steps == 0:
            machine = Machine(compilation.program, TensorTrace(tensors, shapes))
        outputs = machine.run(inputs)
        found.append({**gathered(tensors), **outputs})
        tensors.clear()
        cycles = cycles if k else machine.driver_cycles
    return _all_completed(compilation, found, sets, steps), cycles


def in_machine(
    compilation: Compilation, program: Program, inputs: Mapping[str, Array]
) -> tuple[Tensors, Counts]:
    """Run the program of any point on the machine; return all tensors and the counts."""
    tensors: Tensors = {}
    machine = Machine(program, TensorTrace(tensors, _shapes(compilation)))
    outputs = machine.run(inputs)
    known = {**initial_states(compilation.graph), **inputs}
    return completed(compilation, {**gathered(tensors), **outputs}, known), machine.counts


def _shapes(compilation: Compilation) -> Mapping[str, tuple[int, ...]]:
    """The shapes of all tensors that the program computes, by name."""
    graphs = (compilation.schedule.parts.graph, compilation.graph)
    shapes = {v.name: v.type.shape for graph in graphs for v in graph.variables()}
    states = (state.before for state in compilation.graph.states)
    return shapes | {update_name(compilation.parts, s): s.type.shape for s in states}


def run_point(
    compilation: Compilation,
    inputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    point: PlacedPoint,
) -> Comparison:
    """Run a point of the frontier on the machine and compare it with the reference.

    Raises InternalError if the machine's counts of work or bytes differ from the point's cost, or
    its stripes from those of the schedule."""
    compilation, schedule = replace(compilation, point=point), point.schedule
    with located_at(compilation.point, compilation.request):
        program = lower_point(point, compilation.request.accelerators)
        compilation = replace(compilation, program=program)
        tensors, counts = in_machine(compilation, program, inputs)
        difference = _counted_otherwise(schedule.cost, counts) or _other_stripes(schedule, counts)
        if difference is not None:
            raise InternalError("ladder-001", f"the machine counts {difference}")
    survivors = surviving(compilation)
    return compare_sets(survivors, (tensors,), (reference,))


def _counted_otherwise(cost: Cost, counts: Counts) -> str | None:
    """The first figure of a cost that differs from the count, as a phrase; None if all agree."""
    pairs = (
        ("multiply-accumulates", cost.macs, counts.macs),
        ("multiply-accumulates not executed", cost.constant_macs, counts.constant_macs),
        ("bytes read", dict(cost.read_bytes), counts.read_bytes),
        ("bytes written", dict(cost.written_bytes), counts.written_bytes),
    )
    for name, estimated, counted in pairs:
        if estimated != counted:
            return f"{counted} {name}, the estimate is {estimated}"
    return None


def _other_stripes(schedule: Schedule, counts: Counts) -> str | None:
    """The first tensor whose stripes differ from those of the schedule, as a phrase; None if all
    agree."""
    configs = tensor_configs(ExpandedSchedule(schedule))
    expected = {config.tensor: Counter(config.regions()) for config in configs}
    for tensor in sorted(expected.keys() | counts.stripes.keys()):
        planned, counted = expected.get(tensor, Counter()), counts.stripes.get(tensor, Counter())
        for region in (*planned, *counted):
            if planned[region] != counted[region]:
                where = f"the stripe {list(region.intervals)} of {quoted(tensor)}"
                return f"{where} {counted[region]} times, the schedule {planned[region]} times"
    return None


def _points_rung(
    compilation: Compilation,
    inputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    on_rung: Callable[[str], None],
    executor: Executor | None,
) -> Rung:
    total, wrong = Comparison(), list[str]()
    points = compilation.points
    count = len(points)
    results = mapped(partial(run_point, compilation, inputs, reference), points, executor)
    for number, point in enumerate(points, 1):
        on_rung(f"point {number} of {count}")
        found = next(results)
        if found.mismatches:
            wrong.append(f"{point.height_bytes} bytes")
        total += found
    return Rung("points", total, f"{count} points" + (f", wrong: {', '.join(wrong)}" * bool(wrong)))


def _all_completed(
    compilation: Compilation, every: Sequence[Tensors], sets: InputSets, steps: int
) -> tuple[Tensors, ...]:
    found: list[Tensors] = []
    graph = compilation.parts.graph
    states = initial_states(graph)
    names = {name: update_name(compilation.parts, v) for name, v in _states(compilation).items()}
    for k, (tensors, inputs) in enumerate(zip(every, sets, strict=True)):
        if k % steps == 0:
            states = initial_states(graph)
        found.append(completed(compilation, tensors, {**inputs, **states}))
        states = next_states(graph, found[-1])
        states |= {name: tensors[updated] for name, updated in names.items()}
    return tuple(found)


def _states(compilation: Compilation) -> Mapping[str, Value]:
    return {state.before.name: state.before for state in compilation.graph.states}


def completed(
    compilation: Compilation, tensors: Mapping[str, Array], inputs: Mapping[str, Array]
) -> Tensors:
    """The tensors with the inputs and states, with aliases in their own shapes, and with the
    windows of queues: kept rows, then new ones."""
    found = {**inputs, **tensors}
    graph, storages = compilation.parts.graph, compilation.parts.owners
    views = {value.name for queue in graph.queues for value in queue.views}
    for node in graph.nodes:
        if node.name in views:
            found[node.name] = evaluate_node(node, found)
        elif node.name not in found and storages[node.name] in found:
            found[node.name] = found[storages[node.name]].reshape(node.output.type.shape)
    return found


def surviving(compilation: Compilation) -> tuple[str, ...]:
    """Tensors of the model that the compiled graph contains and the program does not hide."""
    own = {v.name for v in compilation.model.variables()} - in_regions(compilation)
    return tuple(v.name for v in compilation.graph.variables() if v.name in own)


def in_regions(compilation: Compilation) -> frozenset[str]:
    """Tensors that exist only while a region call runs, and aliases of them.

    They are compared by what is computed from them."""
    owners = compilation.parts.owners
    hidden = {
        member.output.tensor for call in calls(compilation.program) for member in call.members[:-1]
    }
    return frozenset(name for name, owner in owners.items() if {name, owner} & hidden)


def in_submissions(compilation: Compilation) -> frozenset[str]:
    """Tensors that an accelerator computes while it executes a stream, and aliases of them.

    The machine executes streams call by call.  Generated C does not stop in between, so they are
    compared by what is computed from them, which outputs of the network are."""
    owners = compilation.parts.owners
    program = compilation.program
    hidden = {step.output.tensor for step in submitted_steps(program)}
    hidden -= {view.tensor for view in program.outputs}
    return frozenset(name for name, owner in owners.items() if {name, owner} & hidden)


def added(compilation: Compilation) -> tuple[str, ...]:
    """Tensors that passes added and that are no aliases of the model's tensors.

    There is nothing to compare them with; the tensors computed from them are compared."""
    owners = compilation.parts.owners
    known = {name for v in surviving(compilation) for name in (v, owners[v])}
    known |= in_regions(compilation)
    return tuple(v.name for v in compilation.graph.variables() if v.name not in known)


def vanished(compilation: Compilation) -> tuple[str, ...]:
    """Tensors of the model that the compiled graph does not compute, except `converted` ones and,
    in an incremental network, the new elements of states."""
    kept = {value.name for value in compilation.graph.variables()} | {*converted(compilation)}
    if compilation.request.reading.incremental is not None:
        kept |= {state.after.name for state in compilation.model.states}
    return tuple(v.name for v in compilation.model.variables() if v.name not in kept)


def converted(compilation: Compilation) -> tuple[str, ...]:
    """Inputs and outputs of the model that the compiled network replaces by quantised tensors; the
    caller converts between the two."""
    model, kept = compilation.model, {value.name for value in compilation.graph.variables()}
    ends = {value.name: value for value in (*model.inputs, *model.outputs)}
    return tuple(name for name, v in ends.items() if v.data is None and name not in kept)


def with_interface(compilation: Compilation, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The inputs of the model with those of the compiled network, which differ from them where
    conversions have moved out of it (`passes/quantised_interface.py`).

    The elements of such an input may also be given as the compiled network takes them."""
    producers = compilation.model.producers()
    found = dict(inputs)
    for value in compilation.graph.inputs:
        if value.name not in found:
            node = producers[value.name]
            operands = tuple(found[operand.name] for operand in node.inputs)
            if operands[0].dtype.name == value.type.dtype.value:
                found[value.name] = operands[0]
                continue
            whole = Region.whole(value.type.shape)
            found[value.name] = node.op.evaluate(node.site, operands, whole)
    return found


def _deviations_rung(
    deviating: Sequence[Deviating], results: Sequence[Mapping[str, Array]]
) -> Rung:
    """The rung of the nodes on which the reference deviates: the documented arithmetic judges."""
    sets = [[one.judge(tensors, k) for one in deviating] for k, tensors in enumerate(results)]
    judged = Judgement("the documented arithmetic", total(sets), NOT_RUN)
    names = ", ".join(dict.fromkeys(one.node.name for one in deviating))
    note = f"{names}: not judged by TensorFlow Lite Micro, but as docs/deviations.md states"
    near = RealDifference(judged.differing, judged.steps)
    return Rung("deviations", judged.comparison, note, near, judgement=judged)


def _reference_rung(
    against: Callable[[Sequence[Mapping[str, Array]]], Comparison],
    results: Sequence[Mapping[str, Array]],
    recorded: Callable[[], Sequence[Mapping[str, Array]]] | None,
) -> Rung:
    found = against(results)
    if not found.mismatches or recorded is None:
        return Rung("reference", found)
    others = recorded()
    alike = against(others)
    if alike.mismatches > found.mismatches:
        return Rung("reference", found)
    note = "nodes that deviate as documented compute what the runtime of the goldens does"
    tensors, runs = unknown(others)
    if tensors:
        note += f"; {tensors} tensors of {runs} sets are not compared: they depend on undefined "
        note += "elements that are not among the goldens; --reference tflite compares them"
    return Rung("reference", alike, note)


def _judged_rungs(judged: Judgement) -> Iterator[Rung]:
    # A distance end to end is no mismatch if all operators are within their steps, which explain
    # it: each may be off by a step, and later ones amplify it.
    near = RealDifference(judged.differing, judged.steps)
    yield Rung("operators", judged.comparison, str(judged), near, judgement=judged)
    ends = judged.end_to_end
    altered = ends.unexplained
    wrong = 0 if altered is None else altered.elements
    yield Rung(
        "end to end",
        Comparison(ends.outputs, ends.elements, wrong, altered),
        f"measured: {ends}",
        RealDifference(ends.differing, ends.steps),
    )
