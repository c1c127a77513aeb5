"""OperatorFacts: the names by which backends refer to an operator and to its properties."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from penstock.backends.operator_names import Kind, attribute_names, kind_name, meaning, meanings
from penstock.ops.registry import operator_files


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """An operator's definition, and the names that a backend may use for it and its properties.

    operator: the name in penstock.
    definition: what the operator computes, and the shapes and types of its tensors, as text.
    names: names that `is_op` and strategies accept.
    attributes: attributes that `has_attr` accepts.
    parameters: names of its integer parameters, the keys of `Offloaded.parameters`.
    tables: names of its array parameters, the keys of `Offloaded.tables`."""

    operator: str
    definition: str
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    parameters: tuple[str, ...]
    tables: tuple[str, ...]


def operator_facts(name: str, where: str) -> tuple[OperatorFacts, ...]:
    """Return the facts about each operator that `name` denotes.

    Raises BackendError for an unknown name, with `where` as the location.

    >>> (pool,) = operator_facts("nn.avg_pool2d", "an example")
    >>> pool.names[:3], pool.parameters[:3], pool.tables
    (('AVERAGE_POOL_2D', 'AveragePool2D', 'nn.avg_pool2d'), ('in_h', 'in_w', 'in_c'), ())
    """
    return tuple(map(_facts, meaning(name, where).kinds))


def _facts(kind: Kind) -> OperatorFacts:
    definition = kind_name(kind)
    parameters: dict[str, None] = {}
    tables: dict[str, None] = {}
    for file in operator_files():
        if kind in file.ops:
            definition = inspect.cleandoc(file.module.__doc__ or definition)
        for sample in file.samples:
            if type(sample.op) is kind:
                kernel = sample.op.kernel(sample.site)
                parameters |= dict.fromkeys(name for name, _ in kernel.params)
                tables |= dict.fromkeys(name for name, _ in kernel.tables)
    names = sorted(name for name, found in meanings().items() if kind in found.kinds)
    return OperatorFacts(
        kind_name(kind),
        definition,
        tuple(names),
        attribute_names(kind),
        tuple(parameters),
        tuple(tables),
    )
