"""Instances: several units of one accelerator on a chip, which run its layers round-robin.

The target file states how many there are (`[[accelerators]]`).  Each call begins with a command
that selects an instance: the calls of the accelerator's k-th layer use instance k modulo the number
of instances.  A call returns when it has completed, so the instances do not run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.accelerator import Accelerator
from penstock.errors import BackendError
from penstock.program.program import Call, Command, Invoke, Loop, Program
from penstock.program.steps import as_step, steps


def with_instances(program: Program, accelerator: Accelerator) -> Program:
    """Return the program in which each call of an accelerator begins by selecting an instance.

    All stripes of a layer run on one instance, because their calls differ only in their rows and
    get the same body.  If the chip has only one instance, the program is unchanged.

    Raises BackendError if there are several instances, and no driver function that selects one."""
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
    """Return `command` with an instance selected at the start of the body of each call.

    If `command` is a loop, this applies to all calls inside.

    chosen: for each layer, the driver call that selects its instance.  The key is the result of
        `as_step` for any call of the layer.  Calls of other layers are unchanged."""
    if isinstance(command, Loop):
        return replace(command, body=tuple(_selecting(inner, chosen) for inner in command.body))
    if isinstance(command, Call) and as_step(command) in chosen:
        return replace(command, body=(chosen[as_step(command)], *command.body))
    return command
