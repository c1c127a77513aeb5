"""offload: which nodes run on accelerators; and the passes that accelerators registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.backends.accelerator import Accelerator, AcceleratorTarget, Left, PassPhase
from penstock.backends.partition import Refusals, choose, partition
from penstock.backends.portable import Processor, part_of
from penstock.backends.stream import with_streams
from penstock.errors import BackendError, PenstockError, TargetError
from penstock.hardware.target import Target
from penstock.ir.graph import Graph, Node
from penstock.ir.verify import verify
from penstock.program.program import Program

_Noun = TypeVar("_Noun", Graph, Program)
_PROGRAM_PHASES = (
    PassPhase.PROGRAM_PHASE_0,
    PassPhase.PROGRAM_PHASE_1,
    PassPhase.PROGRAM_PHASE_2,
    PassPhase.PROGRAM_PHASE_3,
)


@dataclass(frozen=True, slots=True)
class Offloaded:
    """The graph with what accelerators claim as composites; and what is `left` to the processor."""

    graph: Graph
    left: tuple[Left, ...]


def offload(graph: Graph, accelerators: Sequence[Accelerator], target: Target) -> Offloaded:
    """Each accelerator in turn claims what it takes of what is left.

    Raises BackendError where an accelerator's description is wrong."""
    processor = Processor(target.engines[0])

    def cycles(node: Node) -> int:
        return processor.work_cycles(part_of(node, target.engines[0]))

    left: tuple[Left, ...] = ()
    for accelerator in accelerators:
        graph, refusals = claimed(graph, accelerator)
        before = {item.node.name: item.reason for item in left}
        graph, left = choose(graph, accelerator, cycles, refusals)
        left = tuple(replace(item, reason=_both(before, item)) for item in left)
    return Offloaded(graph, left)


def claimed(graph: Graph, accelerator: Accelerator) -> tuple[Graph, Refusals]:
    """The graph with what an accelerator claims, after its passes; and why it claims no more."""
    graph = _passed(graph, accelerator, PassPhase.PRE_PARTITIONING)
    graph, refusals = partition(
        graph,
        accelerator.patterns,
        accelerator.constraints,
        accelerator.name,
        merge=accelerator.merge_compiler_regions,
    )
    graph = _passed(graph, accelerator, PassPhase.POST_PARTITIONING_0)
    return _passed(graph, accelerator, PassPhase.POST_PARTITIONING_1), refusals


def _both(before: Mapping[str, str], left: Left) -> str:
    """Why the accelerators asked before, and the last one, leave a node."""
    said = before.get(left.node.name)
    return f"{said}; {left.reason}" if said else left.reason


def require_nothing_left(left: Sequence[Left]) -> None:
    """Raises TargetError where a node is left to the processor."""
    if left:
        first = left[0]
        more = f", and {len(left) - 1} more" if len(left) > 1 else ""
        raise TargetError(
            "accelerator-001",
            f'node "{first.node.name}" is left to the processor{more}',
            where=first.node.origin or first.node.name,
            why=first.reason,
            help="leave --strict out: the summary then lists every such node, and what it costs",
        )


def with_program_passes(program: Program, accelerators: Sequence[Accelerator]) -> Program:
    """The program after every accelerator's passes, phase by phase; then, of those that have an
    encoder, with streams."""
    for phase in _PROGRAM_PHASES:
        for accelerator in accelerators:
            program = _passed(program, accelerator, phase)
    for accelerator in accelerators:
        program = with_streams(program, accelerator)
    return program


def _passed(noun: _Noun, accelerator: Accelerator, phase: PassPhase) -> _Noun:
    """The noun after the passes of a phase.  Raises BackendError where one fails."""
    for run in accelerator.passes(phase):
        found = _run(run, noun, accelerator.target, phase)
        if type(found) is not type(noun):
            raise _wrong_pass(run, accelerator, phase, f"it gives {found!r:.80}")
        noun = found
    return noun


def _run(
    run: Callable[[_Noun, AcceleratorTarget], _Noun],
    noun: _Noun,
    target: AcceleratorTarget,
    phase: PassPhase,
) -> _Noun:
    try:
        found = run(noun, target)
        if isinstance(found, Graph):
            verify(found)
    except BackendError:
        raise
    except PenstockError as error:
        raise _wrong_pass(run, target, phase, error.what) from error
    except Exception as error:
        raise _wrong_pass(run, target, phase, f"{type(error).__name__}: {error}") from error
    return found


def _wrong_pass(
    run: object, of: Accelerator | AcceleratorTarget, phase: PassPhase, why: str
) -> BackendError:
    name = getattr(run, "__name__", type(run).__name__)
    noun = "program" if phase in _PROGRAM_PHASES else "graph"
    return BackendError(
        "backend-082",
        f"pass {name} fails",
        where=f"{of.name}, phase {phase.name}",
        why=why,
        help=f"a pass of this phase takes a {noun} and the target, and gives the {noun} again",
    )
