"""Printer of parts, schedules and frontiers.

Text of a frontier (Pareto front of schedules): its schedules, then their plans and costs.

    frontier of lenet5
    memory MemoryAssignment(default="sram", constants="flash")
    schedule 2020 bytes 1300369 cycles = p0, p1, p2
    ..
    plan p0: conv1, pool1 stripe 2 scratch 352 cost c0, c1
    plan p1: dense1 cost c2
    ..
    cost c0 = Cost(cycles=651244, calls=14, macs=117600, read_bytes=(("flash", 2436), ..), ..)

A plan lists its parts in execution order.  Clauses that may follow the parts:

    stripe N                              maximum number of rows per call; default: all rows
    nearest                               `Plan.nearest_first` is True (default: False); it defines
                                          the order in which missing rows of inputs are computed
    requests                              `Plan.whole_requests` is True (default: False)
    scratch N                             scratch memory in bytes
    columns N                             the parts run in bands of N columns; stripe and scratch
                                          apply inside each band, and there is only one cost
    chain a, b columns N kept             the parts a and b run as one: each call recomputes the
                                          rows of a that it needs, in bands of N columns; with
                                          `kept`, each band keeps the columns that the next one
                                          needs; there is one clause and one cost for each chain
    tiles                                 an accelerator runs the parts as one, tile by tile; there
                                          is only one cost
    prefetch conv2 "weights" from flash to sram 64 bytes early
                                          prefetch of the constant table "weights" of the part
                                          conv2 by its accelerator; it starts in the previous plan
                                          if `early` is given, else in this one
    cost c0, c1  waiting c3               costs of each part, and of stalls

In the text of a single schedule (`penstock show --stop-after place`), lines such as

    stripes p0 conv1 rolling = (StripeConfig(shape=(1, 2, 24, 6), extent=(1, 24, 24, 6), ..),)

state the stripes in which a plan computes a tensor, and how much of it is kept (`TensorConfig`).
A plan with neither `stripe` nor `columns` has no such lines.  The stripes follow from the plan;
parsing checks them.

A schedule whose optimality is not proved states its `Gaps` before the plans:

    schedule 2104 bytes 1296261 cycles order_gap 0.02 partition_gap 0.25 = p3, p4

The lines `memory`, `keep_inputs` and `updating` (costs of updates of states) apply to all
schedules that follow.  A line `alternative N` precedes the schedules of the N-th
alternative of the parts (`Parts.alternatives`), with plans and costs of their own.

Parsing requires the parts of the stage `assign`, since the text only names them.  Plans with
bands or chains also require a source of bands.

Text of parts: the graph, then one line per part with its engine and kernels.

    graph lenet5
    ..
    output scores

    accelerators npu
    stream input
    part conv1: conv2d_dsp on cortex-m4 scratch 352 fallback conv2d_s8
    part dense1: npu_dense on npu prefetch 4096
    cpu_fallback pool1: 1234 cycles, "no pattern of npu matches this node"

    stream NAME     a network input whose rows the application supplies during the run
    scratch N       scratch memory of the preferred kernel, in bytes
    fallback NAME   the kernel with the least scratch memory
    prefetch N, M   for each kernel that reads constants from a prefetched copy: the size of the
                    copy in bytes
    cpu_fallback NAME: CYCLES cycles, REASON
                    a node that no accelerator claims; if a pass has rewritten the node in the
                    graph, a comma and the original node follow

Node and target determine the kernels, so the text contains only their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.ir.text.attributes import ConstantTable, attribute, data_lines
from penstock.ir.text.printer import Labels, graph_lines, print_node
from penstock.quoting import name_or_string, quoted
from penstock.scheduling.bands.band_schedule import assigned_plans, plan_configs
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan, Prefetch, TensorConfig
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def print_frontier(frontier: Frontier) -> str:
    """Return a frontier as text; only the word "frontier" if it has no schedules."""
    if not frontier.schedules:
        return "frontier\n"
    name = name_or_string(frontier.schedules[0].assigned_parts.graph.name)
    groups: dict[int, list[Schedule]] = {}
    for schedule in frontier.schedules:
        groups.setdefault(schedule.assigned_parts.alternative, []).append(schedule)
    texts = (
        (f"alternative {number}\n" if number else "") + print_schedules(schedules)
        for number, schedules in sorted(groups.items())
    )
    return f"frontier of {name}\n{''.join(texts)}"


def print_parts(parts: Parts, *, with_data: bool = False) -> str:
    """Return parts as text.

    with_data: append the contents of the constants that the text refers to by digest (hash).
    """
    table, labels = ConstantTable(), Labels.of(parts.graph)
    lines = (*graph_lines(parts.graph, labels, table), "", *_part_lines(parts, labels, table))
    text = "".join(f"{line}\n" for line in lines)
    return text + data_lines(table.found) if with_data else text


def _part_lines(parts: Parts, labels: Labels, table: ConstantTable) -> Iterator[str]:
    if parts.accelerators:
        yield f"accelerators {', '.join(map(name_or_string, parts.accelerators))}"
    for part in parts.parts:
        if part.streamed_input is not None:
            yield f"stream {labels(part.name)}"
        else:
            yield f"part {labels(part.name)}: {_kernels(part)}"
    nodes = {node.name: node for node in parts.graph.nodes}
    for fallback in parts.cpu_fallbacks:
        line = f"cpu_fallback {labels(fallback.node.name)}: {fallback.cycles} cycles"
        line = f"{line}, {quoted(fallback.reason)}"
        rewritten = nodes.get(fallback.node.name) != fallback.node
        yield f"{line}, {print_node(fallback.node, labels, table)}" if rewritten else line


def _kernels(part: Part) -> str:
    """The engine and the kernels of a part."""
    text = f"{name_or_string(part.kernel.name)} on {name_or_string(part.engine)}"
    if part.kernel.scratch_bytes:
        text += f" scratch {part.kernel.scratch_bytes}"
    if part.fallback is not None:
        text += f" fallback {name_or_string(part.fallback.name)}"
    copies = [str(k.prefetch.size_bytes) for k in part.prefetching if k.prefetch is not None]
    return f"{text} prefetch {', '.join(copies)}" if copies else text


def print_schedules(schedules: Iterable[Schedule], *, with_stripes: bool = False) -> str:
    """Return schedules as text: lines for the schedules, then for all plans, then for all costs.

    Schedules refer to plans, and plans to costs, by names such as "p0" and "c0".
    with_stripes: also print the stripes of the tensors of each plan.

    All schedules must be of the same graph, split into the same parts by the stage `assign`.
    """
    return "".join(f"{line}\n" for line in _Printer(with_stripes).lines(tuple(schedules)))


@dataclass
class _Printer:
    """Prints schedules, then the plans and costs to which they refer by name.

    with_stripes: whether to print the stripes of the tensors of each plan.
    costs: the name of each cost, such as "c0".
    plans: the name of each plan, such as "p0".
    table: constants that occur in the text.
    """

    with_stripes: bool
    costs: dict[Cost, str] = field(default_factory=dict[Cost, str])
    plans: dict[Plan, str] = field(default_factory=dict[Plan, str])
    table: ConstantTable = field(default_factory=ConstantTable)

    def lines(self, schedules: tuple[Schedule, ...]) -> Iterator[str]:
        if not schedules:
            return
        parts = schedules[0].assigned_parts
        labels = Labels.of(parts.graph)
        plans_of = tuple(map(assigned_plans, schedules))
        for plan in (plan for plans in plans_of for plan in plans):
            self.plans.setdefault(plan, f"p{len(self.plans)}")
        state: tuple[str, ...] = ()
        for schedule, used in zip(schedules, plans_of, strict=True):
            found = tuple(self._state(schedule))
            yield from (line for line in found if line not in state)
            state = found
            plans = ", ".join(self.plans[plan] for plan in used)
            head = " ".join(("schedule", *_figures(schedule)))
            yield f"{head} = {plans}".rstrip()
        configs = _stripes(schedules, plans_of) if self.with_stripes else {}
        for plan, name in self.plans.items():
            names = ", ".join(labels(parts.parts[k].name) for k in plan.parts)
            yield " ".join((f"plan {name}: {names}", *self._clauses(plan, parts, labels)))
            for found in configs.get(plan, ()):
                stripes = attribute(found.stripes, self.table)
                yield f"stripes {name} {labels(found.tensor)} {found.mode.value} = {stripes}"
        for cost, name in self.costs.items():
            yield f"cost {name} = {attribute(cost, self.table)}"

    def _state(self, schedule: Schedule) -> Iterator[str]:
        """Yield the lines `memory`, `keep_inputs` and `updating` for a schedule.

        In the text, these lines apply to all schedules that follow.
        """
        yield f"memory {attribute(schedule.memory, self.table)}"
        yield f"keep_inputs {attribute(schedule.keep_inputs, self.table)}"
        if schedule.updating:
            yield f"updating {attribute(schedule.updating, self.table)}"

    def _clauses(self, plan: Plan, parts: Parts, labels: Labels) -> Iterator[str]:
        if plan.stripe is not None:
            yield f"stripe {plan.stripe}"
        if plan.nearest_first:
            yield "nearest"
        if plan.whole_requests:
            yield "requests"
        if plan.scratch_block_bytes:
            yield f"scratch {plan.scratch_block_bytes}"
        yield from _bands(plan, parts, labels)
        for prefetch in plan.prefetches:
            part = labels(parts.parts[prefetch.part].name)
            yield f"prefetch {part} {quoted(prefetch.copy.table)} {_transfer(prefetch)}"
        if plan.costs:
            yield f"cost {', '.join(map(self._cost, plan.costs))}"
        if plan.waiting != NOTHING:
            yield f"waiting {self._cost(plan.waiting)}"

    def _cost(self, cost: Cost) -> str:
        return self.costs.setdefault(cost, f"c{len(self.costs)}")


def _figures(schedule: Schedule) -> Iterator[str]:
    """Yield peak and cycles of a schedule as text, then the optimality gaps that are not 0.

    Example: "2104 bytes 1296261 cycles", "order_gap 0.02".
    """
    yield f"{schedule.peak_bytes} bytes {schedule.cost.cycles} cycles"
    if schedule.gaps.order:
        yield f"order_gap {schedule.gaps.order!r}"
    if schedule.gaps.partition:
        yield f"partition_gap {schedule.gaps.partition!r}"


def _bands(plan: Plan, parts: Parts, labels: Labels) -> Iterator[str]:
    if plan.in_tiles:
        yield "tiles"
    if plan.columns is not None:
        yield f"columns {plan.columns}"
    for chain in plan.chains:
        inside = ", ".join(labels(parts.parts[k].name) for k in chain.parts)
        kept = " kept" if chain.keeps_halos else ""
        yield f"chain {inside} columns {chain.columns}{kept}"


def _stripes(
    schedules: Sequence[Schedule], plans_of: Sequence[Sequence[Plan]]
) -> Mapping[Plan, tuple[TensorConfig, ...]]:
    """Return, for each plan, the stripes of each tensor that it computes.

    A plan has no entry if it runs neither in stripes nor in bands, but in calls that compute whole
    tensors.
    plans_of: the plans of each schedule.
    """
    found: dict[Plan, tuple[TensorConfig, ...]] = {}
    for schedule, plans in zip(schedules, plans_of, strict=True):
        expanded = ExpandedSchedule(schedule)
        for plan, cascade in zip(plans, expanded.cascades, strict=True):
            if plan not in found and (plan.stripe, plan.columns) != (None, None):
                found[plan] = tuple(plan_configs(expanded, cascade))
    return found


def _transfer(prefetch: Prefetch) -> str:
    """Return source, target, size and start of a prefetch, as "from flash to sram 64 bytes early".

    The last word is left out unless the copy starts in the previous cascade.
    """
    memories = f"from {name_or_string(prefetch.source)} to {name_or_string(prefetch.target)}"
    return f"{memories} {prefetch.size_bytes} bytes{' early' if prefetch.early else ''}"
