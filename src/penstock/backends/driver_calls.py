"""The calls of an accelerator in a placed program: merged by region, with instances and waits.

Consecutive calls of one compiler region run as one call.  An accelerator with command streams
receives one stream for all of them.  For an accelerator that is called in C, the backend must
supply a function that merges the commands (`Codegen.region`); otherwise the calls remain separate.

Source: TVM, MergeCompilerRegions (UMA's `merge_compiler_regions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from penstock.backends.accelerator import Accelerator
from penstock.backends.author import command_problems
from penstock.backends.description import backend_code
from penstock.backends.partition import REGION
from penstock.errors import BackendError
from penstock.ir.composite import Attribute, Composite
from penstock.ir.tensor import row_count
from penstock.program.program import (
    Call,
    Command,
    Discard,
    Invoke,
    Loop,
    Program,
    Submission,
)
from penstock.program.region_call import region_call, whole_body
from penstock.program.steps import as_step, steps, used_buffers


def with_region_calls(program: Program, accelerator: Accelerator) -> Program:
    """Return the program in which consecutive calls of one region are one call."""
    # Consecutive calls of a region become one if they are outside loops, if each computes its whole
    # output, and if other commands use only the output of the last one.  `_region` and
    # `_reads_no_alias` state further conditions.
    codegen = accelerator.codegen
    if not accelerator.merge_compiler_regions or not (codegen.encoder or codegen.region):
        return program
    uses = _uses(program)
    run: list[Command] = []
    at = 0
    while at < len(program.run):
        end = _mergeable_end(program.run, uses, at, accelerator.name)
        calls = [command for command in program.run[at:end] if isinstance(command, Call)]
        joined = end - at > 1
        run += [_merged(calls, accelerator)] if joined else program.run[at:end]
        at = end
    return replace(program, run=tuple(run))


def _merged(calls: Sequence[Call], accelerator: Accelerator) -> Call:
    bodies = tuple(map(whole_body, calls))
    function = accelerator.codegen.region
    if function is None:
        return region_call(calls, tuple(chain(*bodies)))
    where = f'{accelerator.name}, region of "{calls[-1].output.tensor}"'
    with backend_code("region function", where):
        body = tuple(function(bodies))
    for problem in command_problems(body, accelerator.name) if body else ["it returns no command"]:
        raise BackendError(
            "backend-065",
            "the region function returned commands that cannot be executed",
            where=where,
            why=problem,
            help="return commands such as those of its argument, a sequence of commands for each "
            "call of the region",
        )
    return region_call(calls, body)


def _mergeable_end(
    run: Sequence[Command], uses: Mapping[str, tuple[int, int]], at: int, engine: str
) -> int:
    """The largest `end` for which the commands [at, end) can be merged into one call."""
    # All of these commands must be calls of one region.  Commands outside the interval may use the
    # output of the last of these calls, but not those of the others.  If nothing can be merged, the
    # result is at + 1.
    longest = at + 1
    region = _region(run[at], engine)
    if region is None:
        return longest
    computed: dict[str, str] = {}
    first, last = at, at
    for end in range(at + 1, len(run)):
        before, call = run[end - 1], run[end]
        assert isinstance(before, Call)
        computed[before.output.buffer] = before.output.tensor
        first = min(first, uses[before.output.buffer][0])
        last = max(last, uses[before.output.buffer][1])
        if _region(call, engine) != region or not _reads_no_alias(call, computed):
            break
        if first >= at and last <= end:
            longest = end + 1
    return longest


def _uses(program: Program) -> dict[str, tuple[int, int]]:
    # For an input or output of the network, the result is (-1, number of commands), because the
    # application uses its buffer outside the run.
    found: dict[str, tuple[int, int]] = {}
    for k, command in enumerate(program.run):
        for name in used_buffers(command):
            found[name] = found.get(name, (k, k))[0], k
    for view in (*program.inputs, *program.outputs):
        found[view.buffer] = -1, len(program.run)
    return found


def _region(command: Command, engine: str) -> Attribute | None:
    """Return the region number of a call that may be merged with others; None for other commands.

    Such a call runs on the accelerator `engine` and computes its whole output.  It accesses whole
    tensors, not bands of columns and not the ring of a queue, and it prefetches no constants."""
    if not isinstance(command, Call) or command.engine != engine or not command.body:
        return None
    whole = (command.lower, command.upper) == (0, row_count(command.output.type.shape))
    views = (*command.inputs, command.output)
    plain = all(v.rows.rotation is None and v.first_column is None for v in views)
    copies = command.prefetched is not None or command.prefetches
    if not whole or not plain or copies or not isinstance(command.op, Composite):
        return None
    return command.op.attribute(REGION)


def _reads_no_alias(command: Command, computed: Mapping[str, str]) -> bool:
    """Whether a call reads the tensors of its region by their own names, not as aliases."""
    # A merged call identifies the tensors that its region computes by their names.  An alias shares
    # the buffer but has another name, so a call that reads an alias cannot be merged.
    views = command.inputs if isinstance(command, Call) else ()
    return all(computed.get(view.buffer, view.tensor) == view.tensor for view in views)


# Instances: several units of one accelerator on a chip, which run its layers round-robin.
#
# The target file states how many there are (`[[accelerators]]`).  Each call begins with a command
# that selects an instance: the calls of the accelerator's k-th layer use instance k modulo the
# number of instances.  A call returns when it has completed, so the instances do not run at the
# same time.


def with_instances(program: Program, accelerator: Accelerator) -> Program:
    """Return the program in which each call of an accelerator begins by selecting an instance.

    Raises BackendError if there are several instances, and no driver function that selects one."""
    # All stripes of a layer run on one instance, because their calls differ only in their rows and
    # get the same body.  If the chip has only one instance, the program is unchanged.
    count = accelerator.target.instances
    if count == 1:
        return program
    select = accelerator.codegen.select
    if select is None:
        raise BackendError(
            "backend-066",
            f"{accelerator.name} cannot select one of its {count} instances",
            where=f"target {accelerator.target.chip.name}, [[accelerators]]",
            why="the backend registers no driver function for it",
            help="call _register_instances(Driver(..)) with a function that takes the number of "
            "an instance, or state instances = 1",
        )
    own = [step for step in steps(program) if step.engine == accelerator.name and step.body]
    chosen = {step: Invoke(select, (k % count,)) for k, step in enumerate(own)}
    return replace(program, run=tuple(_selecting(command, chosen) for command in program.run))


def _selecting(command: Command, chosen: Mapping[Call, Invoke]) -> Command:
    # If `command` is a loop, this applies to all calls inside.
    if isinstance(command, Loop):
        return replace(command, body=tuple(_selecting(inner, chosen) for inner in command.body))
    if isinstance(command, Call) and as_step(command) in chosen:
        return replace(command, body=(chosen[as_step(command)], *command.body))
    return command


# Waits: before another engine runs, a program waits for the calls in an accelerator's queue.
#
# The driver function that receives a command stream may return before the accelerator has executed
# the stream.  The accelerator executes streams in order, so it needs no wait between its own calls.
# The reference machine executes them when the program waits (`simulators/machine.py`).


def with_waits(program: Program, accelerator: Accelerator) -> Program:
    """Return the program with calls of the driver function that waits for an accelerator."""
    # After calls of the accelerator, the program waits before the next command of another engine,
    # or at the end of the run if there is no such command.  Consecutive calls of the accelerator
    # have no wait between them.  If the backend has registered no function that waits
    # (`_register_wait`), or if the accelerator has no calls, the program is unchanged.
    wait = accelerator.codegen.wait
    if wait is None:
        return program
    waits = _Waits(accelerator.name, Invoke(wait, ()))
    run = tuple(waits.added(program.run))
    run = (*run, waits.wait) if waits.pending else run
    if run == program.run:
        return program
    return replace(program, run=run, waits=(*program.waits, wait))


@dataclass
class _Waits:
    """Inserts waits into the commands of a program, in order.

    engine: the accelerator.
    wait: the command that waits for it.
    pending: whether calls may be in its queue."""

    engine: str
    wait: Invoke
    pending: bool = False

    def added(self, commands: Sequence[Command]) -> Iterator[Command]:
        """Yield `commands` in order, with the waits among them; update `pending`."""
        # If calls are pending, a wait precedes the next command that is not a call of the
        # accelerator.  The command Discard needs no wait, because no engine executes it.
        for command in commands:
            if isinstance(command, Loop):
                yield self._loop(command)
            elif self._submits(command):
                self.pending = True
                yield command
            else:
                if self.pending and not isinstance(command, Discard):
                    self.pending = False
                    yield self.wait
                yield command

    def _submits(self, command: Command) -> bool:
        if isinstance(command, Submission):
            return command.submit.driver.engine == self.engine
        return isinstance(command, Call) and command.engine == self.engine

    def _loop(self, loop: Loop) -> Loop:
        """A loop with waits in its body; update `pending`."""
        # When an iteration begins, calls may be pending from before the loop or from the previous
        # iteration.  If either is possible, a wait precedes the first command in the body that
        # another engine executes.
        before = self.pending
        tuple(self.added(loop.body))
        self.pending = before or self.pending
        body = tuple(self.added(loop.body))
        self.pending = before or self.pending  # the loop may have no iteration
        return replace(loop, body=body)
