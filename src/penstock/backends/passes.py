"""Execution of an accelerator's passes: errors of a pass are reported with its name and phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.backends.accelerator import (
    PROGRAM_PHASES,
    Accelerator,
    AcceleratorTarget,
    PassPhase,
)
from penstock.errors import BackendError, PenstockError
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.program.program import Program

_Result = TypeVar("_Result", Graph, Program)
Check = Callable[[_Result, _Result], str]
"""Returns what a pass has changed without permission, given its argument and its result; "" if all
changes are permitted."""


def after_passes(
    result: _Result,
    accelerator: Accelerator,
    phase: PassPhase,
    check: Callable[[_Result, _Result], str] = lambda before, after: "",
) -> _Result:
    """Return the graph or program after the accelerator's passes of a phase.

    check: a function of the graph or program before and after a pass.  It returns a description of
        a change that the phase does not permit; "" if all changes are permitted.

    Raises BackendError if a pass fails, if its result is not of the type of its argument, or if
    it changes more than the phase permits."""
    for run in accelerator.passes(phase):
        found = _run(run, result, accelerator.target, phase)
        if type(found) is not type(result):
            raise _wrong_pass(run, accelerator, phase, f"it returns {found!r:.80}")
        if change := check(result, found):
            raise _forbidden_change(run, accelerator, phase, change)
        result = found
    return result


def _run(
    run: Callable[[_Result, AcceleratorTarget], _Result],
    result: _Result,
    target: AcceleratorTarget,
    phase: PassPhase,
) -> _Result:
    try:
        found = run(result, target)
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
    kind = "program" if phase in PROGRAM_PHASES else "graph"
    return BackendError(
        "backend-082",
        f"pass {_name(run)} fails",
        where=f"{of.name}, phase {phase.name}",
        why=why,
        help=f"a pass of this phase takes a {kind} and the target, and returns a {kind}",
    )


def _forbidden_change(run: object, of: Accelerator, phase: PassPhase, change: str) -> BackendError:
    return BackendError(
        "backend-064",
        f"pass {_name(run)} changes {change}",
        where=f"{of.name}, phase {phase.name}",
        why=f"a pass of this phase may change {PERMITTED[phase]}",
        help="the docstring of PassPhase lists what each phase sees and may change",
    )


def _name(run: object) -> str:
    return getattr(run, "__name__", type(run).__name__)


PERMITTED = {
    PassPhase.PROGRAM_PHASE_0: "the kernels of the accelerator's calls, and nothing else",
    PassPhase.PROGRAM_PHASE_1: "name, body, tables and traffic of the kernels of the accelerator's "
    "calls, and nothing else",
    PassPhase.PROGRAM_PHASE_2: "the bodies of the accelerator's calls, and nothing else",
    PassPhase.PROGRAM_PHASE_3: "the bodies of the accelerator's calls and the bytes of its command "
    "streams, and nothing else",
}
"""What the passes of a phase may change, for messages."""
