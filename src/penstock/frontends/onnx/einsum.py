"""Definition of Einsum: transpositions, products of matrices, and sums, operand by operand.

Source: ONNX operator specification, Einsum; NumPy, `einsum`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frozen import frozen

MOST_STACKED = 2  # Axes before the matrices of a product.

_EQUATION = re.compile(r"[A-Za-z.,]*(->[A-Za-z.]*)?")


@frozen
class _Labelled:
    """A tensor; each axis has a label."""

    name: str
    labels: str


def _define(new: Definition) -> bool:
    """False if a shape is not known, or if a label stands twice at one operand: a diagonal."""
    shapes = [new.shapes.get(name) for name in new.node.inputs]
    known = [shape for shape in shapes if shape is not None]
    stated = new.node.attributes.get("equation", "")
    if len(known) < len(shapes) or not known or not isinstance(stated, str):
        return False
    labels = _labels(stated, [len(shape) for shape in known])
    if labels is None:
        return False
    *operands, result = labels
    extents: dict[str, int] = {}
    for operand, shape in zip(operands, known, strict=True):
        for label, extent in zip(operand, shape, strict=True):
            if extents.setdefault(label, extent) != extent:  # broadcasting, or malformed
                return False
    if not set(result) <= extents.keys():
        return False
    named = zip(new.node.inputs, operands, strict=True)
    left, *others = (_Labelled(name, operand) for name, operand in named)
    for k, right in enumerate(others):
        later = set(result).union(*(other.labels for other in others[k + 1 :]))
        left = _product(new, left, right, later, extents)
    found = _summed(new, left, set(result))
    new.name_output(_transposed(new, found, result, always=True).name)
    return True


def _labels(equation: str, ranks: list[int]) -> list[str] | None:
    """Labels of each operand and of the result, without dots; None for an equation that is not
    understood."""
    written = "".join(equation.split())
    if not _EQUATION.fullmatch(written):
        return None
    left, arrow, right = written.partition("->")
    operands = left.split(",")
    if len(operands) != len(ranks):
        return None
    free = [chr(k) for k in range(ord("\u03b1"), ord("\u03b1") + max(ranks))]  # of the dots
    found: list[str] = []
    hidden = 0
    for operand, rank in zip(operands, ranks, strict=True):
        count = rank - len(operand.replace("...", ""))
        hidden = max(hidden, count)
        found.append(operand.replace("...", "".join(free[:0] if not count else free[-count:])))
    dots = "".join(free[-hidden:]) if hidden else ""
    once = sorted(c for c in set(left) - set(".,") if left.count(c) == 1)
    result = right.replace("...", dots) if arrow else dots + "".join(once)
    labels = [*found, result]
    plain = all(one.isalpha() or not one for one in labels)
    fits = all(len(one) == rank for one, rank in zip(found, ranks, strict=True))
    return labels if plain and fits and all(len(set(one)) == len(one) for one in labels) else None


def _summed(new: Definition, x: _Labelled, kept: set[str]) -> _Labelled:
    """Sums over the axes of other labels."""
    axes = [k for k, label in enumerate(x.labels) if label not in kept]
    if not axes:
        return x
    name = new.made_along("ReduceSum", x.name, *axes, keepdims=0)
    return _Labelled(name, "".join(label for label in x.labels if label in kept))


def _transposed(new: Definition, x: _Labelled, labels: str, *, always: bool = False) -> _Labelled:
    if x.labels == labels and not always:
        return x
    order = tuple(x.labels.index(label) for label in labels)
    return _Labelled(new.made("Transpose", x.name, perm=order), labels)


def _product(
    new: Definition, a: _Labelled, b: _Labelled, later: set[str], extents: Mapping[str, int]
) -> _Labelled:
    """The product of two tensors, summed over labels that are not needed later."""
    a = _summed(new, a, later | set(b.labels))
    b = _summed(new, b, later | set(a.labels))
    batch = "".join(label for label in a.labels if label in b.labels and label in later)
    inner = "".join(label for label in a.labels if label in b.labels and label not in later)
    rows = "".join(label for label in a.labels if label not in b.labels)
    columns = "".join(label for label in b.labels if label not in a.labels)
    a = _transposed(new, a, batch + rows + inner)
    b = _transposed(new, b, batch + inner + columns)
    labels = batch + rows + columns

    def shape(groups: Sequence[str]) -> tuple[int, ...]:
        return tuple(math.prod(extents[label] for label in group) for group in groups)

    def shaped(name: str, labels: str, groups: Sequence[str]) -> str:
        """A tensor with an axis for each group of labels."""
        wanted = shape(groups)
        is_same = wanted == shape(labels)
        return name if is_same else new.made("Reshape", name, wanted)

    if not inner:
        left = shaped(a.name, a.labels, [*batch, *rows, *("" for _ in columns)])
        right = shaped(b.name, b.labels, [*batch, *("" for _ in rows), *columns])
        return _Labelled(new.made("Mul", left, right), labels)
    stack = [batch] if len(batch) > MOST_STACKED else [*batch]
    joined = [rows] if batch or not rows else [*rows]
    left = shaped(a.name, a.labels, [*stack, *joined, inner])
    product = new.made("MatMul", left, shaped(b.name, b.labels, [*stack, inner, columns]))
    found = [*stack, *joined, columns]
    if shape(found) != shape(labels):
        product = new.made("Reshape", product, shape(labels))
    return _Labelled(product, labels)


DEFINITIONS: Mapping[str, Define] = {"Einsum": _define}
