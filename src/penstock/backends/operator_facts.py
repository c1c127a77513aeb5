"""OperatorFacts: what an accelerator's patterns, rules and kernels may ask about an operator."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.operator_names import attribute_names, meaning, meanings
from penstock.ops.registry import operator_files


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """`names`: for `is_op` and strategies; `attributes`: for `has_attr`; `parameters` and `tables`
    of a node's arithmetic: for rules, costs and kernels."""

    operator: str
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    parameters: tuple[str, ...]
    tables: tuple[str, ...]


def operator_facts(name: str, where: str) -> tuple[OperatorFacts, ...]:
    """What is known of the operators that a name stands for.  Raises BackendError.

    >>> (pool,) = operator_facts("nn.avg_pool2d", "an example")
    >>> pool.names[:3], pool.parameters[:3], pool.tables
    (('AVERAGE_POOL_2D', 'AveragePool2D', 'nn.avg_pool2d'), ('in_h', 'in_w', 'in_c'), ())
    """
    return tuple(map(_facts, meaning(name, where).kinds))


def _facts(kind: str) -> OperatorFacts:
    parameters: dict[str, None] = {}
    tables: dict[str, None] = {}
    for file in operator_files():
        for sample in getattr(file.module, "SAMPLES", ()):
            if type(sample.op).__name__ == kind:
                kernel = sample.op.kernel(sample.site)
                parameters |= dict.fromkeys(name for name, _ in kernel.params)
                tables |= dict.fromkeys(name for name, _ in kernel.tables)
    names = sorted(name for name, found in meanings().items() if kind in found.kinds)
    return OperatorFacts(
        kind, tuple(names), attribute_names(kind), tuple(parameters), tuple(tables)
    )
