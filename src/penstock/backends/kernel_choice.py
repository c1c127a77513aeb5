"""Selection of the kernels that run a composite on its accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.accelerator import CORE_LEVEL, Accelerator, Implementation, Strategy
from penstock.backends.author import broken_rule, cycles, implementations, refusal
from penstock.backends.offloaded import main_node
from penstock.backends.operator_names import is_called
from penstock.errors import BackendError
from penstock.ir.composite import Composite
from penstock.ir.element_types import other_types
from penstock.ir.graph import Node


def strategies_for(composite: Composite, accelerator: Accelerator) -> tuple[Strategy, ...]:
    """Return the strategies that apply to a composite, in the order of `accelerator.strategies`."""
    # A strategy applies if its `op` is the name of the composite's pattern, or a name of the
    # composite's main operator.
    main = main_node(composite)
    return tuple(
        strategy
        for strategy in accelerator.strategies
        if strategy.op == composite.name or is_called(strategy.op, main)
    )


def with_accelerator_kernels(node: Node, accelerators: Sequence[Accelerator]) -> Node | None:
    """Return `node`, a composite for a band of columns or a group of layers, with kernels.

    Returns None if its accelerator is not among `accelerators`, if a constraint of the accelerator
    does not hold, or if no kernel can run the composite."""
    engine = node.op.engine if isinstance(node.op, Composite) else None
    accelerator = next((one for one in accelerators if one.name == engine), None)
    if accelerator is None or any(
        broken_rule(rule, node) is not None for rule in accelerator.constraints
    ):
        return None
    found = with_chosen_kernels(node, accelerator)
    return None if isinstance(found, str) else found


def with_chosen_kernels(node: Node, accelerator: Accelerator) -> Node | str:
    """Return the composite node with its kernels, or the reason why no kernel can run it.

    All kernels are of one strategy level: the highest one above `CORE_LEVEL` that has a kernel
    without prefetch for this composite.  The fields of the composite receive"""
    # - `chosen`: the fastest kernel without prefetch;
    # - `fallback`: a kernel without prefetch that needs less working memory, if there is one;
    # - `prefetching`: all kernels that prefetch constants.
    composite = node.op
    assert isinstance(composite, Composite)
    strategies = strategies_for(composite, accelerator)
    refused: list[str] = []
    for level in sorted({s.level for s in strategies if s.level > CORE_LEVEL}, reverse=True):
        offered = (s for s in strategies if s.level == level)
        try:
            every = [i for s in offered for i in implementations(s, node, accelerator.target)]
        except BackendError as error:
            if not (foreign := other_types(composite.nodes)):
                raise
            return f"{foreign}, for which a strategy of {accelerator.name} fails: {error.what}"
        reasons = [_refusal(i, node) for i in every]
        able = [i for i, reason in zip(every, reasons, strict=True) if reason is None]
        prefetching = tuple(i.kernel for i in able if i.kernel.prefetch is not None)
        able = [i for i in able if i.kernel.prefetch is None]
        if able:
            best = _best(able, node).kernel
            least = min(i.kernel.scratch_bytes for i in able)
            fallback = None
            if least < best.scratch_bytes:
                frugal = [i for i in able if i.kernel.scratch_bytes == least]
                fallback = _best(frugal, node).kernel
            found = replace(composite, chosen=best, fallback=fallback, prefetching=prefetching)
            return replace(node, op=found)
        refused += [reason for reason in reasons if reason]
    return _why_none(composite, strategies, refused, accelerator.name)


def _best(able: Sequence[Implementation], node: Node) -> Implementation:
    return min(able, key=lambda i: cycles(i, node))


def _refusal(implementation: Implementation, node: Node) -> str | None:
    where = f'the condition of "{implementation.name}", for {node.origin or node.name}'
    why = refusal(implementation.condition, where)
    if why is None:
        return None
    return f'"{implementation.name}": {why or "its condition does not hold"}'


def _why_none(
    composite: Composite, strategies: Sequence[Strategy], refused: Sequence[str], engine: str
) -> str:
    if refused:
        return f"no implementation of {engine} accepts this node: {'; '.join(refused)}"
    if not strategies:
        return f"{engine} has no strategy for {main_node(composite).kind}"
    level = max(s.level for s in strategies)
    if level > CORE_LEVEL:
        return f"{engine}'s strategies of level {level} offer no implementation"
    return (
        f"the core's kernel, level {CORE_LEVEL}, is preferred to {engine}'s strategy of level "
        f"{level}"
    )
