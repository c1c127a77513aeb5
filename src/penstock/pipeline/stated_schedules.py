"""Schedules that users state: checks the cascades, and makes a schedule with costs of them; and
what a schedule does, as a user states it.

A cascade is a plan of the scheduler if its stripes are images, rows of one, or columns of these
where tensors between the parts are recomputed.  All others are rewritten as graphs in which each
stripe of a part along channels and columns is a node (`passes/stripes.py`); loops over images and
rows remain plans, if the order of the loops allows it (decision 39).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import chain, product

from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_accelerator_kernels
from penstock.errors import UnsupportedError, UsageError, denoting, did_you_mean, listed
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import COLUMNS, IMAGE_RANK, Region, row_axis, row_count
from penstock.passes.cleaning import share_constants
from penstock.passes.stripes import IndivisibleError, in_stripes
from penstock.pipeline.search import band_source, cost_model_and_memories
from penstock.reports.formats import full_name
from penstock.reports.steps import logical_shape, producers
from penstock.scheduling.bands.band_schedule import assigned_plans, can_run_in_bands, with_bands
from penstock.scheduling.model.access import works_by_rows
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import BufferMode, Chain, Plan, Prefetch, PrefetchStart
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.model.stated import Cascade, StatedChain, StatedPrefetch, StatedSchedule
from penstock.scheduling.model.stripe import ComputedBox, StripeConfig
from penstock.scheduling.simulate.cost_accounting import CostAccounting, with_cold_starts
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, live_bytes

MOST_STRIPES = 4096
"""Maximum number of stripes of a cascade that is rewritten, with a node for each stripe."""
AXES = ("batch", "rows", "columns", "channels")

_Planned = tuple[Plan, Sequence[Bands]]
Reassign = Callable[[Graph], Parts]
"""Returns the parts of a graph, with the engines and kernels of a target."""


def stated_schedule(
    parts: Parts,
    stated: StatedSchedule,
    target: Target,
    reassign: Reassign,
    accelerators: tuple[Accelerator, ...] = (),
    *,
    keep_inputs: bool = False,
) -> Schedule:
    """Return the schedule that runs the parts of a network as stated, with its costs.

    Raises UsageError for names and numbers that do not exist, and UnsupportedError for stripes that
    the parts, or the memories of the target, do not allow.
    """
    own, error = _alternative(parts, stated), None
    # other choices of accelerators, such as layouts, may express stripes that the first does not
    choices = own.alternatives if own.accelerators else ()
    for unroll, one in product((False, True) if choices else (True,), (own, *choices)):
        cascades = [_with_part_names(one, cascade) for cascade in stated.cascades]
        maker = _Maker(one, reassign, target, accelerators, unroll)
        try:
            parts, plans, boxes = maker.plans([*_every(one, cascades)])
            break
        except (UsageError, UnsupportedError) as raised:
            error = raised if one is own else error
    else:
        assert error is not None
        raise error
    inside = {
        parts.parts[k].name for _, some in plans for bands in some for k in bands.members[:-1]
    }
    memory = _assignment(parts, cascades, boxes, inside, cost_model_and_memories(target)[1])
    schedule = costed_schedule(parts, plans, memory, target, accelerators, keep_inputs=keep_inputs)
    return replace(schedule, boxes=boxes, stated=stated) if boxes else schedule


def as_stated(schedule: Cascade | Schedule | Sequence[Cascade]) -> StatedSchedule:
    """Return what a user states, or what a schedule does, by names.

    Raises UnsupportedError if an accelerator runs some of its parts tile by tile."""
    if isinstance(schedule, Cascade):
        return StatedSchedule((schedule,))
    if not isinstance(schedule, Schedule):
        return StatedSchedule(tuple(schedule))
    if schedule.stated is not None:
        return schedule.stated
    parts = schedule.assigned_parts
    regions = dict(schedule.memory.exceptions)

    def cascade(plan: Plan) -> Cascade:
        names = tuple(parts.parts[k].name for k in plan.parts)
        if plan.in_tiles:
            raise UnsupportedError(
                "cascader-012",
                f'an accelerator runs "{names[-1]}" and {len(names) - 1} parts before it tile '
                "by tile",
                where="the schedule",
                why="the tiles are those that the accelerator chooses, and no cascade",
                help="use a schedule of the search for cascades (--partition cascades)",
            )
        owned = {name: regions[parts.owners[name]] for name in names
                 if parts.owners[name] in regions}  # fmt: skip
        return Cascade(
            names,
            rows=plan.stripe,
            memory=owned,
            scratch_bytes=plan.scratch_bytes,
            nearest_first=plan.nearest_first,
            whole_requests=plan.whole_requests,
            columns=plan.columns,
            chains=tuple(
                StatedChain(
                    tuple(parts.parts[k].name for k in chain.parts),
                    chain.columns,
                    chain.keeps_halos,
                )
                for chain in plan.chains
            ),
            prefetches=tuple(
                StatedPrefetch(
                    parts.parts[one.part].name, one.copy.table, one.size_bytes, one.early
                )
                for one in plan.prefetches
            ),
        )

    return StatedSchedule(tuple(map(cascade, assigned_plans(schedule))), parts.alternative)


def costed_schedule(
    parts: Parts,
    plans: Sequence[_Planned],
    memory: MemoryAssignment,
    target: Target,
    accelerators: tuple[Accelerator, ...] = (),
    *,
    keep_inputs: bool = False,
) -> Schedule:
    """Return the schedule of some plans, each with its bands, in execution order."""
    model, memories = cost_model_and_memories(target)
    composed, run, bands = with_bands(parts, plans)
    accounting = CostAccounting(composed, model, memories)
    bare = Schedule(
        composed,
        run,
        memory,
        keep_inputs,
        peak_bytes=0,
        gaps=Gaps(0.0, 0.0),
        updating=accounting.update_costs(memory),
        bands=bands,
        assigned=parts if bands else None,
    )
    bare = band_source(target, accelerators).costed(bare)
    expanded = ExpandedSchedule(bare)
    cascades = expanded.cascades
    costed = tuple(accounting.costed(bare, cascade) for cascade in cascades)
    if not bands:
        costed = with_cold_starts(model, bare, cascades, costed)
        costed = accounting.with_prefetch_costs(cascades, costed)
    peak = int(live_bytes(expanded).max())
    bound = max(1, composed.rows.outputs_bytes)
    gap = max(0.0, peak / bound - 1.0)
    return replace(bare, plans=costed, peak_bytes=peak, gaps=Gaps(gap, gap))


@frozen
class _Maker:
    """Makes the plans of cascades, and nodes for stripes that no plan expresses.

    unroll: whether stripes may be nodes.
    """

    parts: Parts
    reassign: Reassign
    target: Target
    accelerators: tuple[Accelerator, ...]
    unroll: bool

    def plans(
        self, cascades: Sequence[Cascade]
    ) -> tuple[Parts, list[_Planned], tuple[ComputedBox, ...]]:
        """Return the parts, the plans of all cascades, each with its bands, and what nodes compute.

        Raises UsageError, UnsupportedError."""
        nodes = set[int]()  # cascades in which each stripe is a node
        while True:
            graph, boxes, units = self.parts.graph, list[ComputedBox](), list[Cascade]()
            owners = list[int]()
            for k, one in enumerate(cascades):
                graph, groups, found = self._units(graph, one, k in nodes)
                boxes += groups
                units += found
                owners += [k] * len(found)
            parts = self._reassigned(graph) if boxes else self.parts
            plans, failed, previous = list[_Planned](), set[int](), None
            for k, unit in zip(owners, units, strict=True):
                try:
                    plans.append(self._plan(parts, unit, previous, cascades[k]))
                except UnsupportedError:
                    if unit is cascades[k] or k in nodes or not self.unroll:
                        raise
                    failed.add(k)
                previous = parts.parts[_numbers(parts, unit)[0]]
            if not failed:
                return parts, plans, tuple(boxes)
            nodes |= failed

    def _reassigned(self, graph: Graph) -> Parts:
        names, fallbacks = self.parts.accelerators, self.parts.cpu_fallbacks
        found = self.reassign(share_constants(graph))
        return replace(found, accelerators=names, cpu_fallbacks=fallbacks)

    def _units(
        self, graph: Graph, one: Cascade, are_nodes: bool
    ) -> tuple[Graph, list[ComputedBox], list[Cascade]]:
        """Return a graph with the stripes of a cascade that are nodes, what these compute, and the
        cascades of which plans are made, which state rows, columns and chains."""
        stripes = _stripes(self.parts, one)
        if stripes is None:
            return graph, [], [one]
        loops = _loops(one, stripes, are_nodes)
        if loops.count(stripes) == 1:
            return graph, [], [_unit(one, stripes, [*_whole_boxes(self.parts, one)], loops.planned)]
        members = [self.parts.parts[k] for k in _numbers(self.parts, one)]
        if not self.unroll:
            raise _indivisible(one, one.parts[-1], "the stripes are no plan of whole layers")
        _check_can_be_rewritten(self.parts, one, members, loops.count(stripes))
        recomputed = {n for n, mode in one.modes.items() if mode is BufferMode.RECOMPUTE}
        nodes = [part.nodes[0] for part in members]
        try:
            striped = in_stripes(graph, nodes, loops.groups(stripes), recomputed)
        except IndivisibleError as error:
            raise _indivisible(one, error.node.name, error.reason, error.axis) from error
        made = (self._with_kernels(one, node) for node in striped.graph.nodes)
        *groups, joins = striped.groups
        units = [_unit(one, stripes, group, loops.planned) for group in groups if loops.planned]
        alone = chain(joins) if loops.planned else chain(*striped.groups)
        units += [_unit(one, stripes, [box], ()) for box in alone]
        return striped.graph.with_nodes(tuple(made)), [*chain(*striped.groups)], units

    def _with_kernels(self, one: Cascade, node: Node) -> Node:
        """Return a node with the kernels of its accelerator for a stripe."""
        if not isinstance(node.op, Composite) or node.op.chosen is not None:
            return node
        found = with_accelerator_kernels(node, self.accelerators)
        if found is None:
            why = f"{node.op.engine} has no kernel for a stripe of it"
            raise _indivisible(one, node.name, why)
        return found

    def _plan(self, parts: Parts, one: Cascade, previous: Part | None, stated: Cascade) -> _Planned:
        """Return the plan of a cascade that states no stripes, with its bands.

        previous: the part of the first call of the previous cascade.
        stated: what the user states.

        Raises UnsupportedError.
        """
        _, memories = cost_model_and_memories(self.target)
        numbers = _numbers(parts, one)
        index = dict(zip(one.parts, numbers, strict=True))
        in_chains = {name for each in one.chains for name in each.parts}
        if one is not stated and one.rows is not None and one.columns is None:
            for name in one.parts:
                part = parts.parts[index[name]]
                rows = row_count(part.output.shape)
                if name not in in_chains and rows > 1 and not works_by_rows(part):
                    raise _indivisible(one, name, "its kernel computes all rows in one call")
        double = (StatedPrefetch(n) for n, mode in one.modes.items() if mode is BufferMode.DOUBLE)
        prefetches = tuple(
            _prefetch(parts, one, each, memories.default_assignment, previous)
            for each in (*one.prefetches, *double)
        )
        copies = {each.part: each.copy for each in prefetches}
        scratch = one.scratch_bytes
        if scratch is None:
            members = ((k, parts.parts[k]) for k in numbers)
            kernels = (p.kernel_for(copies[k]) if k in copies else p.kernel for k, p in members)
            scratch = max(kernel.scratch_bytes for kernel in kernels)
        plan = Plan(
            numbers,
            one.rows,
            one.nearest_first,
            prefetches=prefetches,
            scratch_bytes=scratch,
            columns=one.columns,
            chains=tuple(
                Chain(tuple(index[name] for name in c.parts), c.columns, c.keeps_halos)
                for c in one.chains
            ),
            whole_requests=one.whole_requests,
        )
        if not plan.in_bands:
            return plan, ()
        every = plan.chains or (Chain(numbers, plan.columns or 0),)
        able = all(
            can_run_in_bands(parts, c.parts, c.columns, plan.stripe)
            and copies.keys().isdisjoint(c.parts)
            for c in every
        )
        bands = band_source(self.target, self.accelerators).bands(parts, plan) if able else None
        if bands is None:
            columns = {each.columns for each in every}
            raise UnsupportedError(
                "cascader-001",
                f'"{one.parts[-1]}" cannot run in bands of {listed([*map(str, columns)])} columns',
                where=_where(one),
                why="each part must compute some columns of an (N, H, W, C) tensor by itself, only "
                "later parts may read them, a band has at most the columns of the output, and no "
                "constants are copied early for it",
                help="cascade fewer parts, use fewer columns, or leave out `columns`",
            )
        return plan, bands


@frozen
class _Loops:
    """Which loops of a cascade are unrolled to nodes, the outermost first.

    outer: those around the loops of plans; each of their iterations is a group of stripes.
    planned: the loops that remain in the plan of a group.
    inner: those inside them; the stripes of a group run in turn for each stripe of the plan.
    """

    outer: tuple[int, ...]
    planned: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()

    def count(self, stripes: StripeConfig) -> int:
        """Return the number of stripes that are nodes."""
        return math.prod(stripes.stripes[axis] for axis in (*self.outer, *self.inner))

    def groups(self, stripes: StripeConfig) -> list[list[Region]]:
        """Return the boxes that are nodes, those that the same plan computes in a list."""
        counts = enumerate(stripes.stripes)
        first = tuple(1 if axis in self.planned else count for axis, count in counts)
        every = list(replace(stripes, stripes=first).regions())
        for axis in self.planned:
            every = [box.replace(axis, (0, stripes.extent[axis])) for box in every]
        size = math.prod(stripes.stripes[axis] for axis in self.inner)
        return [every[k : k + size] for k in range(0, len(every), size)]


def _loops(one: Cascade, stripes: StripeConfig, are_nodes: bool) -> _Loops:
    """Return the loops that may be those of plans: over images and rows, around those over columns
    that are innermost, or inside those over columns if all tensors are recomputed.

    are_nodes: whether there are none."""
    nest, axis = _nest(stripes), row_axis(len(stripes.shape))
    rows, is_image = tuple(a for a in nest if a <= axis), len(stripes.shape) == IMAGE_RANK
    modes = {one.modes.get(name, BufferMode.ROLLING) for name in one.parts[:-1]}
    first = nest.index(rows[0]) if rows else len(nest)
    inner = nest[first + len(rows) :]
    # each stripe has rows of one image, and they are computed as they lie in memory
    in_order = rows == tuple(sorted(nest[first : first + len(rows)]))
    if are_nodes or not in_order or (rows and math.prod(stripes.shape[:axis]) > 1):
        return _Loops(nest)
    if is_image and nest == (COLUMNS, *rows) and modes <= {BufferMode.RECOMPUTE}:
        return _Loops((), nest)
    if not is_image and (nest != rows or (axis in rows and BufferMode.RECOMPUTE in modes)):
        return _Loops(nest)
    if rows and modes == {BufferMode.RECOMPUTE} and inner[-1:] == (COLUMNS,):
        return _Loops(nest[:first], (*rows, COLUMNS), inner[:-1])
    if modes == {BufferMode.RECOMPUTE} and COLUMNS in nest:
        return _Loops(nest)  # each of its stripes needs fewer columns than a plan holds
    return _Loops(nest[:first], rows, inner)


def _whole_boxes(parts: Parts, one: Cascade) -> Iterator[ComputedBox]:
    for k in _numbers(parts, one):
        shape = parts.parts[k].output.shape
        yield ComputedBox(parts.parts[k].name, Region.whole(shape), parts.parts[k].name)


def _unit(
    one: Cascade, stripes: StripeConfig, boxes: Sequence[ComputedBox], planned: tuple[int, ...]
) -> Cascade:
    """Return the cascade of the nodes that compute some boxes of a cascade's tensors, in terms of
    rows, columns and chains.

    planned: the loops of its plan, the outermost first."""
    modes = {box.node: one.modes.get(box.tensor, BufferMode.ROLLING) for box in boxes}
    computed = [box for box in boxes if not box.is_copy]
    axis = row_axis(len(stripes.shape))
    unit = replace(
        one,
        parts=tuple(modes),
        stripe=None,
        loops=None,
        modes={b.node: mode for b in computed if (mode := modes[b.node]) is BufferMode.DOUBLE},
        prefetches=tuple(
            replace(each, part=box.node)
            for each in one.prefetches
            for box in computed
            if box.tensor == each.part
        ),
        rows=stripes.shape[axis] if any(a <= axis for a in planned) else None,
        columns=stripes.shape[COLUMNS] if planned[:1] == (COLUMNS,) else None,
    )
    recomputes = axis in planned and BufferMode.RECOMPUTE in modes.values()
    if unit.columns is not None or not (recomputes or COLUMNS in planned):
        return unit
    read = [box.node for box in boxes if box.is_copy and box.tensor not in one.parts]
    inside = [box for box in boxes if box.node not in read]
    chains, waiting = list[StatedChain](), list[str]()
    for box in inside:
        waiting.append(box.node)
        if modes[box.node] is BufferMode.RECOMPUTE:
            continue
        if len(waiting) > 1:
            columns = stripes.shape[COLUMNS] if COLUMNS in planned else box.region.shape[-2:][0]
            chains.append(StatedChain(tuple(waiting), columns))
        waiting = []
    names = (*read, *(box.node for box in inside))
    return replace(unit, parts=names, chains=tuple(chains))


# Names.


def _alternative(parts: Parts, stated: StatedSchedule) -> Parts:
    """Return the parts that a schedule names."""
    if not stated.alternative:
        return parts
    names = {name for one in stated.cascades for name in one.parts}
    for other in parts.alternatives:
        if names == {part.name for part in other.parts}:
            return other
    raise UsageError(
        "cascader-003",
        f"the schedule runs the equivalent graph {stated.alternative}, which does not exist here",
        where="the schedule",
        why="equivalent graphs depend on the target and on the options of the search",
        help="state the cascades of the network's own parts",
    )


def _with_part_names(parts: Parts, one: Cascade) -> Cascade:
    """Return a cascade with full names (`full_name`), in which a layer that an accelerator claims
    has the name of its part, and of the part that converts its result, if it has the layer's
    name."""
    first: dict[str, str] = {}
    for part in parts.parts:
        op = part.nodes[-1].op if part.nodes else None
        inner = [node.name for node in op.nodes] if isinstance(op, Composite) else []
        for name in (*inner, part.name):
            first.setdefault(name, part.name)
    own = {part.name for part in parts.parts}

    def names(given: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for layer in (full_name(name, first) or name for name in given):
            every = [n for n in dict.fromkeys((first.get(layer, layer), layer)) if n in own]
            found += (n for n in every or [layer] if n == layer or n not in found)
        return tuple(found)

    return replace(
        one,
        parts=names(one.parts),
        modes={name: mode for given, mode in one.modes.items() for name in names([given])},
        memory={name: region for given, region in one.memory.items() for name in names([given])},
        prefetches=tuple(replace(each, part=names([each.part])[0]) for each in one.prefetches),
        chains=tuple(replace(c, parts=names(c.parts)) for c in one.chains),
    )


def _numbers(parts: Parts, one: Cascade) -> tuple[int, ...]:
    number = {part.name: k for k, part in enumerate(parts.parts)}
    return tuple(number[name] for name in one.parts)


def _every(parts: Parts, cascades: Sequence[Cascade]) -> Iterator[Cascade]:
    """Yield all cascades in execution order, those of parts that none names included."""
    made = {name: one for one in cascades for name in _checked(parts, one).parts}
    if sum(len(one.parts) for one in cascades) > len(made):
        every = [name for one in cascades for name in one.parts]
        twice = next(name for name in every if every.count(name) > 1)
        raise UsageError(
            "cascader-004",
            f'the part "{twice}" is named twice',
            where="the schedule",
            why="each part runs once",
            help="name it once, in one of the cascades",
        )
    for one in cascades:
        for k, name in enumerate(one.parts):
            later = {*_makers(parts, name)} & {*one.parts[k:]}
            if later:
                raise _wrong_order(replace(one, parts=one.parts[: k + 1]), later)
    units = [*cascades, *(Cascade((p.name,)) for p in parts.parts if p.name not in made)]
    first = {one.parts: min(_numbers(parts, one)) for one in units}
    before = {one.parts: set(_read_parts(parts, one)) for one in units}
    waiting, done = list(units), set[str]()
    stated = [one for one in units if one.parts[0] in made]
    while waiting:
        ready = [one for one in waiting if before[one.parts] <= done]
        # stated cascades keep their order
        next_stated = next((one for one in stated if one in waiting), None)
        ready = [one for one in ready if one.parts[0] not in made or one is next_stated]
        if not ready:
            assert next_stated is not None
            raise _wrong_order(next_stated, before[next_stated.parts] - done)
        found = min(ready, key=lambda one: first[one.parts])
        waiting.remove(found)
        done |= set(found.parts)
        yield found


def _wrong_order(one: Cascade, missing: Set[str]) -> UsageError:
    """Return the error for a cascade that reads parts that have not run."""
    first = min(missing)
    return UsageError(
        "cascader-005",
        f'the cascade of "{one.parts[-1]}" runs before "{first}", which it reads',
        where="the schedule",
        why="cascades run one after the other, and each part after those whose outputs it reads; "
        "what is between two parts of a cascade is part of it",
        help=f'add "{first}" to the cascade, or state it in an earlier one, in an order of '
        "execution",
    )


def _read_parts(parts: Parts, one: Cascade) -> Iterator[str]:
    """Yield the names of the parts outside of a cascade whose outputs it reads."""
    for name in one.parts:
        yield from (maker for maker in _makers(parts, name) if maker not in one.parts)


def _makers(parts: Parts, name: str) -> Iterator[str]:
    """Yield the names of the parts whose outputs a part reads."""
    makers = {parts.owners[part.name]: part.name for part in parts.parts}
    part = next(part for part in parts.parts if part.name == name)
    for value in part.variable_inputs:
        maker = makers.get(parts.owners[value.name])
        if maker is not None and maker != name:
            yield maker


def _checked(parts: Parts, one: Cascade) -> Cascade:
    """Return a cascade whose names are checked.  Raises UsageError."""
    known = [part.name for part in parts.parts]
    for name in one.parts:
        if name not in known:
            raise UsageError(
                "cascader-006",
                f'there is no part "{name}"',
                where=_where(one),
                why=f"the parts are {listed(known)}",
                help=did_you_mean(name, denoting(known)).rstrip()
                or "use names of parts (penstock.cascader.parts)",
            )
    if not one.parts:
        raise UsageError(
            "cascader-006",
            "a cascade has no parts",
            where="the schedule",
            why="a cascade runs one part or several",
            help=f"name parts: {listed(known)}",
        )
    for name, mode in one.modes.items():
        inner = one.parts[:-1]
        if mode is BufferMode.FULL or (mode is not BufferMode.DOUBLE and name not in inner):
            raise UnsupportedError(
                "cascader-007",
                f'"{name}" cannot have the buffer mode {mode.value}',
                where=_where(one),
                why=f"tensors between the parts are rolling or recompute: {listed(inner)}; all "
                "others, such as the output, are in memory as a whole"
                if inner
                else "the cascade has one part, so that no tensor is between parts",
                help="to hold a tensor as a whole, end a cascade with it and begin another one",
            )
    return one


# Stripes.


def _stripes(parts: Parts, one: Cascade) -> StripeConfig | None:
    """Return the stripes of a cascade's output; None if the cascade states none."""
    output = parts.parts[_numbers(parts, one)[-1]].output
    shape = output.shape
    if one.stripe is not None and (one.rows is not None or one.chains or one.columns is not None):
        raise _wrong_stripes(one, shape, "a cascade states `stripe` and also `rows` or bands")
    if one.rows is not None and one.rows < 1:
        raise _wrong_stripes(one, shape, f"a stripe has {one.rows} rows")
    if isinstance(one.stripe, StripeConfig):
        given = one.stripe
        wanted = _config(one, shape, given.shape, _nest(given))
        if (given.extent, given.stripes) != (shape, wanted.stripes) or any(given.offset) or any(
            a != b for a, b, n in zip(given.strides, given.shape, given.stripes, strict=True)
            if n > 1
        ):  # fmt: skip
            raise _wrong_stripes(
                one, shape, f"the stripes {given.stripes} of {given.shape} do not divide the output"
            )
        return wanted
    if one.stripe is None:
        if BufferMode.RECOMPUTE not in one.modes.values():
            return None
        axis = row_axis(len(shape))
        rows = shape[axis] if one.rows is None else one.rows
        return _config(one, shape, (*shape[:axis], rows, *shape[axis + 1 :]), None)
    stripe, image = tuple(one.stripe), logical_shape(output, producers(parts.graph))
    if output.type.layout and tuple(map(min, stripe, image))[2:] == image[2:]:
        stripe = (*stripe[:2], *shape[2:])  # rows of blocks of channels
    return _config(one, shape, stripe, one.loops)


def _nest(given: StripeConfig) -> tuple[int, ...]:
    """The axes with several stripes, the outermost loop first."""
    several = [axis for axis, count in enumerate(given.stripes) if count > 1]
    return tuple(sorted(several, key=lambda axis: given.order[axis]))


def _config(
    one: Cascade, shape: tuple[int, ...], stripe: tuple[int, ...], loops: Sequence[int] | None
) -> StripeConfig:
    if len(stripe) != len(shape) or min(stripe, default=1) < 1:
        raise _wrong_stripes(one, shape, f"a stripe of {stripe} is no box of the output")
    stripe = tuple(map(min, stripe, shape))
    counts = tuple(-(-extent // size) for extent, size in zip(shape, stripe, strict=True))
    several = [axis for axis, count in enumerate(counts) if count > 1]
    nest = several if loops is None else [axis for axis in loops if axis in several]
    if sorted(nest) != several or len(set(loops or ())) < len(loops or ()):
        raise _wrong_stripes(
            one, shape, f"the loops {tuple(loops or ())} are not those of the axes {several}"
        )
    order = tuple(nest.index(axis) + 1 if axis in nest else 0 for axis in range(len(shape)))
    return StripeConfig(stripe, shape, stripe, order, counts, (0,) * len(shape))


def _wrong_stripes(one: Cascade, shape: tuple[int, ...], what: str) -> UsageError:
    return UsageError(
        "cascader-008",
        what,
        where=_where(one),
        why=f"stripes divide the output {list(shape)} from its first element on, without gaps and "
        "overlaps; the last one along an axis may be smaller",
        help=f"state {len(shape)} numbers of at least 1, such as stripe={shape}, and in `loops` "
        "each axis with several stripes once, the outermost loop first",
    )


def _prefetch(
    parts: Parts,
    one: Cascade,
    stated: StatedPrefetch,
    source: MemoryAssignment,
    previous: Part | None,
) -> Prefetch:
    """Return a copy of constants that a cascade states.  Raises UnsupportedError."""
    k = _numbers(parts, replace(one, parts=(stated.part,)))[0] if stated.part in one.parts else None
    copies = [] if k is None else [kernel.prefetch for kernel in parts.parts[k].prefetching]
    able = [
        copy
        for copy in copies
        if copy is not None
        and stated.table in (None, copy.table)
        and stated.size_bytes in (None, copy.size_bytes)
    ]
    can_be_early = (
        k is not None and previous is not None and (previous.engine == parts.parts[k].engine)
    )
    if k is None or not able or (stated.early and not can_be_early):
        raise UnsupportedError(
            "cascader-009",
            f'no constants are copied for "{stated.part}" while other parts run',
            where=_where(one),
            why="an accelerator copies constants that it reads from slow memory; processors do not",
            help="leave out the copy, or state one that the accelerator of the part makes",
        )
    early = can_be_early if stated.early is None else stated.early
    start = PrefetchStart.PREVIOUS_CASCADE if early else PrefetchStart.OWN_CASCADE
    copy = max(able, key=lambda one: one.size_bytes)
    return Prefetch(k, copy, source.constants, source.default, start)


def _check_can_be_rewritten(
    parts: Parts, one: Cascade, members: Sequence[Part], count: int
) -> None:
    """Raise UnsupportedError unless each part is a node, and is read as needed.

    count: number of stripes that are nodes."""
    for part in members:
        if len(part.nodes) != 1:
            raise _indivisible(one, part.name, "the part is several layers in one")
    consumers = parts.graph.consumers()
    results = {value.name for value in parts.graph.results}
    for part in members[:-1]:
        readers = {node.name for node in consumers.get(part.name, ())}
        if part.name in results or not readers <= {*one.parts}:
            raise UnsupportedError(
                "cascader-010",
                f'"{part.name}" is read outside of the cascade',
                where=_where(one),
                why="stripes of it are in memory only while the cascade runs",
                help="add its other readers to the cascade, or begin a cascade after it",
            )
    if count > MOST_STRIPES:
        raise UnsupportedError(
            "cascader-011",
            f"{count} stripes are calls of their own, at most {MOST_STRIPES} are possible",
            where=_where(one),
            why="loops over channels, and over columns whose elements are kept, are unrolled",
            help="use larger stripes along these axes",
        )


def _indivisible(one: Cascade, part: str, why: str, axis: int | None = None) -> UnsupportedError:
    name = "" if axis is None else f" along axis {axis} ({AXES[axis]})" if axis < 4 else ""
    return UnsupportedError(
        "cascader-012",
        f'"{part}" cannot be computed in these stripes{name}',
        where=_where(one),
        why=why,
        help="divide other axes, or leave the part out of the cascade: it then runs as a whole",
    )


# Memory.


def _assignment(
    parts: Parts,
    cascades: Iterable[Cascade],
    boxes: Sequence[ComputedBox],
    inside: Set[str],
    memories: MemorySystem,
) -> MemoryAssignment:
    """Return the memory region of each tensor.  Raises UsageError, UnsupportedError.

    inside: names of the tensors in the scratch memory of bands.
    """
    regions = [memory.name for memory in memories.tensors]
    start = memories.default_assignment
    ends = {parts.owners[value.name] for value in (*parts.inputs, *parts.graph.results)}
    pairs: dict[str, str] = {}
    for one in cascades:
        for name, region in one.memory.items():
            if region not in regions:
                raise UsageError(
                    "cascader-013",
                    f'there is no memory "{region}" for tensors',
                    where=_where(one),
                    why=f"the memories for tensors are {listed(regions)}",
                    help=did_you_mean(region, regions).rstrip() or "use one of them",
                )
            nodes = [box.node for box in boxes if box.tensor == name] or [name]
            owners = [parts.owners.get(node, "") for node in nodes]
            is_fixed = bool(inside & {*nodes}) or any(owner in ends for owner in owners)
            if name not in one.parts or (is_fixed and region != start.default):
                raise UnsupportedError(
                    "cascader-014",
                    f'"{name}" cannot be in {region}',
                    where=_where(one),
                    why=f"inputs and outputs of the network, and tensors of which bands hold some "
                    f"columns, are in {start.default}; a cascade states the memory of tensors that "
                    "its parts compute",
                    help="leave it out, or put that memory first in the target file",
                )
            pairs |= dict.fromkeys(owners, region)
    return start.extended(sorted(pairs.items()))


def _where(one: Cascade) -> str:
    return f'the cascade of "{one.parts[-1]}"' if one.parts else "the schedule"
