"""Element types: by TFLite operator, the types on which penstock takes it.

    python -m benchmarks.operators.types

Prints the table of docs/supported.md: the types in which drawn models of each family were taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from benchmarks.entry import entry
from benchmarks.operators import real, unsigned
from benchmarks.operators.drawing import Drawn
from benchmarks.operators.families import FAMILIES, draw
from penstock.errors import PenstockError
from penstock.frontends.open import parse

MODELS = 8
COLUMNS = ("int8", "uint8", "float32", "int32", "int64", "bool")
QUANTISED = ("int8", "uint8")
UNDRAWN: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"), ("bool",)),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY"), ("bool",)),
    **dict.fromkeys(("ADD_N", "COS", "LOCAL_RESPONSE_NORMALIZATION", "POW"), ("float32",)),
    **dict.fromkeys(("REDUCE_PROD", "SIGN", "SIN"), ("float32",)),
    "ONE_HOT": ("int32", "int64"),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), ("int32",)),
    **dict.fromkeys(("LESS", "LESS_EQUAL", "NOT_EQUAL"), ("int32",)),
    "CUSTOM:TFLite_Detection_PostProcess": ("int8", "uint8"),
    "DIV": ("int8",),
    "SPACE_TO_BATCH_ND": ("float32",),
}
"""Types in which no family draws an operator, and tests compile it."""


def table() -> str:
    """The table of operators and types."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, types in UNDRAWN.items():
        found[name].update(types)
    for family in FAMILIES:
        for drawn in _models(family):
            if _is_taken(drawn):
                found[family.split()[0]].update(_types(drawn))
    head = f"| TFLite operator | {' | '.join(COLUMNS)} |\n| --- |{' --- |' * len(COLUMNS)}\n"
    return head + "\n".join(
        f"| {name} | {' | '.join('yes' if one in types else '' for one in COLUMNS)} |"
        for name, types in sorted(found.items())
    )


def _models(family: str) -> Iterator[Drawn]:
    yield from (draw(family, 1, number) for number in range(MODELS))
    if family in real.REAL_FAMILIES:
        yield from unsigned.models(family, MODELS, 1)
        yield from real.models(family, MODELS, 1)


def _types(drawn: Drawn) -> Set[str]:
    """The types of operands; a quantised one tells more than a condition or an index beside it."""
    variable = {drawn.tensors[k].dtype for k in drawn.operator.inputs if k in drawn.inputs}
    return variable.intersection(QUANTISED) or variable


def _is_taken(drawn: Drawn) -> bool:
    try:
        parse(drawn.tflite(), drawn.operator.name)
    except PenstockError:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    print(table())
    return 0


if __name__ == "__main__":
    entry(main)
