"""Functions that an accelerator's author wrote: how they are asked, and what is said where they
fail.

A rule (predicate, constraint, condition) answers True, or False or a text that says why not; its
docstring is the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np

from penstock.backends.accelerator import AcceleratorTarget, Implementation, Strategy
from penstock.backends.description import line_of, name_of, reason_of
from penstock.errors import BackendError, PenstockError
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import row_count

_Answer = TypeVar("_Answer")
Rule = Callable[[Node], bool | str]

_ON_NODES = (
    "node.op is a Composite: its .nodes are what it claims, the last of which computes node.output"
)
MOST_CYCLES = 2**40
"""A call takes fewer: so sums of cycles fit 64 bits."""
_ON_CALLS = "return the Breakdown of the call"
_ON_COSTS = "return the cycles of one call that computes so many rows of the output"


def broken_rule(rule: Rule, node: Node) -> str | None:
    """Why the rule refuses a composite; None where it takes it.  Raises BackendError.

    >>> from penstock.ops.relu import SAMPLES
    >>> from penstock.ir.graph import Value
    >>> relu = SAMPLES[0]
    >>> node = Node(relu.op, (Value("x", relu.site.inputs[0]),), Value("y", relu.site.output))
    >>> def few_rows(node):
    ...     '''Images have at most 3 rows.'''
    ...     rows = node.output.type.shape[1]
    ...     return rows <= 3 or f"this one has {rows}"
    >>> broken_rule(few_rows, node)
    'Images have at most 3 rows: this one has 4'
    """
    where = f'rule "{name_of(rule)}", asked of {node.origin or node.name}'
    why = refusal(_asked(rule, (node,), where, _ON_NODES), where)
    if why is None:
        return None
    said = (rule.__doc__ or "").strip().split("\n\n")[0]
    stated = " ".join(said.split()).rstrip(".") or f"its rule {name_of(rule)}"
    return f"{stated}: {why}" if why else stated


def refusal(answer: object, where: str) -> str | None:
    """Why an answer is no; "" where it does not say, None where it is yes.  Raises BackendError."""
    if isinstance(answer, bool | np.bool_):
        return None if answer else ""
    if isinstance(answer, str) and answer:
        return answer
    raise BackendError(
        "backend-007",
        f"the answer is {answer!r}",
        where=where,
        why="a rule answers True, or False or a text that says why not",
        help="return one of them in every branch; its docstring states the rule",
    )


def implementations(
    strategy: Strategy, node: Node, target: AcceleratorTarget
) -> tuple[Implementation, ...]:
    """What a strategy offers for a composite.  Raises BackendError."""
    assert isinstance(node.op, Composite)
    where = f'the strategy for "{strategy.op}" of {target.name}, for {node.origin or node.name}'
    found = _asked(strategy.choose, (node, node.op, target), where, _ON_NODES)
    if isinstance(found, Sequence) and all(isinstance(one, Implementation) for one in found):
        return tuple(found)
    raise BackendError(
        "backend-008",
        f"the strategy returned {_shown(found)}",
        where=where,
        why="a strategy returns the implementations that the accelerator has, as a sequence",
        help="return them; an empty sequence says that there is none",
    )


def cycles(implementation: Implementation, node: Node) -> float:
    """Cycles of computing the whole output in one call.  Raises BackendError where the cost of that
    or of one row is no number of cycles."""
    engine = node.op.engine if isinstance(node.op, Composite) else "accelerator"
    where = f'{engine}: the cost of "{implementation.name}", for {node.origin or node.name}'
    cost = implementation.kernel.cycles
    if cost is None:
        raise _bad_cost("there is no cost", where)
    cost_of(cost, 1, (), where)
    return cost_of(cost, row_count(node.output.type.shape), (), where)


def cost_of(
    cost: Callable[[int, tuple[str, ...]], object], rows: int, homes: tuple[str, ...], where: str
) -> float:
    """Cycles of a call for so many rows; `homes`: see Kernel.

    Raises BackendError where that is no number of cycles."""
    found = _asked(cost, (rows, homes), where, _ON_COSTS)
    said = f"cost({rows})"
    if not isinstance(found, Breakdown):
        return _number(found, said, where)
    _check_breakdown(found, said, where)
    return _number(found.cycles, said, where)


def breakdown_of(
    cost: Callable[..., object], arguments: tuple[object, ...], said: str, where: str
) -> Breakdown:
    """What a cost function gives that is asked about one call.  Raises BackendError where that is
    no Breakdown."""
    found = _asked(cost, arguments, where, _ON_CALLS)
    if not isinstance(found, Breakdown):
        raise _bad_cost(f"{said} is {_shown(found)}, not a Breakdown", where)
    _number(found.cycles, said, where)
    return found


def _check_breakdown(found: Breakdown, said: str, where: str) -> None:
    """Raises BackendError where what an author's function gave is none."""
    resources = cast(object, found.by_resource)
    if not isinstance(resources, Mapping):
        raise _bad_cost(f"by_resource of {said} is {_shown(resources)}, not a mapping", where)
    for name, cycles in cast(Mapping[object, object], resources).items():
        if not isinstance(name, str):
            raise _bad_cost(f"a resource of {said} is {_shown(name)}, not a name", where)
        _number(cycles, f'"{name}" of {said}', where)
    macs = found.macs_per_cycle
    if macs is not None and not _number(macs, f"macs_per_cycle of {said}", where):
        raise _bad_cost(f"macs_per_cycle of {said} is 0", where)


def _number(found: object, said: str, where: str) -> float:
    """Cycles as a number, or what happens in one.  Raises BackendError."""
    if isinstance(found, bool) or not isinstance(found, Real):
        raise _bad_cost(f"{said} is {_shown(found)}, not a number", where)
    number = float(found)
    if not (0 <= number < MOST_CYCLES):
        raise _bad_cost(f"{said} is {number:g} cycles", where)
    return number


def _bad_cost(what: str, where: str) -> BackendError:
    return BackendError(
        "backend-009",
        what,
        where=where,
        why="schedules are compared by cycles: a number, at least 0 and below 2^40",
        help=_ON_COSTS,
    )


def _asked(
    function: Callable[..., Any], arguments: tuple[object, ...], where: str, help: str
) -> object:
    """The function's answer.  Raises BackendError where it raises."""
    try:
        return function(*arguments)
    except PenstockError:
        raise
    except Exception as error:
        raise BackendError(
            "backend-006",
            f"{name_of(function)} raised {reason_of(error)}",
            where=", ".join(filter(None, (where, line_of(error)))),
            why="it was called with what it must take; an answer is returned, not raised",
            help=help,
        ) from error


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}.."
