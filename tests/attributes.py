"""Attributes of operators, and other values for them.

An attribute is a field of an operator, or a field of such a field: the path of the dilation of a
pool's rows is ("rows", "dilation")."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import reduce
from typing import Any

from benchmarks.small_tensors import Sample
from penstock.errors import PenstockError
from penstock.ir.op import Op, Site
from penstock.ir.tensor import TensorType

Path = tuple[str, ...]
REFUSALS = (PenstockError, AssertionError, ArithmeticError, LookupError, ValueError, TypeError)
"""What may be raised where an operator does not allow a value of an attribute."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A sample in which one attribute has another value."""

    path: Path
    original: Sample
    sample: Sample


def paths(value: Any) -> tuple[Path, ...]:
    """The paths of all attributes of an operator."""
    if not is_dataclass(value):
        return ((),)
    return tuple(
        (one.name, *rest) for one in fields(value) for rest in paths(getattr(value, one.name))
    )


def at(value: Any, path: Path) -> Any:
    """The attribute at a path."""
    return reduce(getattr, path, value)


def with_value(whole: Any, path: Path, value: Any) -> Any:
    """The operator with another value of the attribute at a path."""
    if not path:
        return value
    name, *rest = path
    return replace(whole, **{name: with_value(getattr(whole, name), tuple(rest), value)})


def other_values(value: Any, known: Sequence[Any]) -> Iterator[Any]:
    """Values other than `value`: near it or, of `known` ones, of the same type."""
    match value:
        case bool():
            yield not value
        case Enum():
            yield from (one for one in type(value) if one is not value)
        case int():
            near = (value + 1, value - 1, 2 * value, value // 2)
            signs = (1,) if value == 0 else (value,)
            yield from (one for one in dict.fromkeys(near) if one * signs[0] > 0)
        case float():
            yield from (2 * value, value / 2, value + 0.25)
        case tuple():
            items: tuple[Any, ...] = value
            yield items[::-1]
            yield items[1:]
            for k, item in enumerate(items):
                for other in other_values(item, ()):
                    yield (*items[:k], other, *items[k + 1 :])
        case _:
            pass
    yield from (one for one in known if type(one) is type(value))


def mutants(found: Sample, path: Path, known: Sequence[Any]) -> Iterator[Mutant]:
    """Samples in which an attribute has another value that the operator allows."""
    value = at(found.op, path)
    seen = [value]
    for other in other_values(value, known):
        if other in seen:
            continue
        seen.append(other)
        made = _made(found, path, other)
        if made is not None:
            yield Mutant(path, found, made)


def _made(found: Sample, path: Path, value: Any) -> Sample | None:
    site = found.site
    try:
        op: Op = with_value(found.op, path, value)
        result = op.result_type(site.inputs)
    except REFUSALS:
        return None
    if math.prod(result.shape) == 0:
        return None
    quantisation = site.output.quantisation if result.dtype is site.output.dtype else None
    output = TensorType(result.shape, result.dtype, quantisation)
    return Sample(op, Site(site.inputs, output, site.constants))
