"""Cases of TVM's cascader (TVM RFC 0037).

They cover stripes through propagators, propagators of operators, Pareto fronts and stripe
counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator

from benchmarks.cascader_operators import Operator
from benchmarks.case_file import Document, Record, Section, malformed, read_as
from penstock.errors import PenstockError
from penstock.ir.affine import Affine
from penstock.pareto import efficient
from penstock.scheduling.model.stripe import StripeConfig

KEYS = ("propagators", "op_propagators", "pareto_frontier", "count_stripes")
"""Top-level keys; a file has at least one."""


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError("must be a number")
    return value


Exact = Annotated[int | Fraction, BeforeValidator(_number)]
Shape = tuple[int, ...]
Matrix = tuple[tuple[Exact, ...], ...]


class Config(Record):
    """A stripe configuration."""

    shape: Shape
    extent: Shape
    strides: tuple[Exact, ...]
    order: Shape
    stripes: Shape
    offset: Shape

    def value(self) -> StripeConfig:
        return StripeConfig(
            self.shape, self.extent, self.strides, self.order, self.stripes, self.offset
        )


class Propagation(Record):
    """A stripe configuration before and after an affine transform."""

    name: str = ""
    transform: Matrix
    offset: Shape
    input: Config
    expected: Config


class Costs(Record):
    """Cost vectors and the Pareto-optimal ones among them."""

    costs: tuple[tuple[Exact, ...], ...]
    is_optimal: tuple[bool, ...]


class Count(Record):
    """Number of stripes of a shape."""

    shape: Shape
    count: int


class Counts(Record):
    """Number of stripes of each shape."""

    stripe_config: Config
    sliding_window: bool = False
    expected_counts: tuple[Count, ...]


class Expected(Record):
    """Expected stripe configurations of an operator's inputs."""

    ifm_transform: Matrix
    ifm_offset: Shape | None = None
    ifm2_transform: Matrix | None = None
    ifm2_offset: Shape | None = None
    weight_transform: Matrix | None = None
    weight_offset: Shape | None = None
    bias_transform: Matrix | None = None
    bias_offset: Shape | None = None
    whole_tensor_ofm: Shape | None = None
    expected_whole_ifm: Shape | None = None
    expected_whole_ifm2: Shape | None = None


def check(document: Document, where: str) -> tuple[Section, ...]:
    """Checks the sections of a file.  Raises ModelError if the file is malformed."""
    checks: Mapping[str, Callable[[object, str], str]] = {
        "propagators": _propagation,
        "op_propagators": _operator,
        "pareto_frontier": _costs,
        "count_stripes": _counts,
    }
    return tuple(
        Section.of(key, _differences(checks[key], document[key], f"{where}: {key}"))
        for key in KEYS
        if key in document
    )


def _differences(
    differs: Callable[[object, str], str], section: object, where: str
) -> Iterator[tuple[str, str]]:
    """(label, difference) of every case; a section is a list, or an object with a list `cases`."""
    cases = section.get("cases") if isinstance(section, Mapping) else section
    if not isinstance(cases, list) or not cases:
        raise malformed(where, "there is no list of cases")
    for k, found in enumerate(cases):
        place = f"{where}, case {k}"
        try:
            yield _label(k, found), differs(found, place)
        except PenstockError as error:
            raise (
                error if error.where.startswith(place) else malformed(place, error.what)
            ) from error


def _label(k: int, found: object) -> str:
    names = (
        [found[key] for key in ("name", "op") if key in found] if isinstance(found, dict) else ()
    )
    return " ".join(map(str, (f"case {k}", *names)))


def _propagation(found: object, where: str) -> str:
    case = read_as(Propagation, found, where)
    form, config = Affine.of_augmented(case.transform, case.offset), case.input.value()
    axes = len(case.transform[0]) - 1
    if axes != len(config.shape):
        raise malformed(
            where, f"the transform takes {axes} axes, the stripe has {len(config.shape)}"
        )
    answer, expected = config.propagate(form), case.expected.value()
    return "; ".join(
        _differs(name, getattr(answer, name), getattr(expected, name))
        for name in ("shape", "extent", "strides", "order", "stripes", "offset")
        if getattr(answer, name) != getattr(expected, name)
    )


def _costs(found: object, where: str) -> str:
    case = read_as(Costs, found, where)
    if len({len(cost) for cost in case.costs}) > 1 or len(case.costs) != len(case.is_optimal):
        raise malformed(where, "costs are not of one length, or is_optimal is not of theirs")
    kept = set(efficient(case.costs))
    answer = tuple(k in kept for k in range(len(case.costs)))
    return _differs("is_optimal", answer, case.is_optimal) if answer != case.is_optimal else ""


def _counts(found: object, where: str) -> str:
    case = read_as(Counts, found, where)
    answer = case.stripe_config.value().count_stripes(case.sliding_window)
    expected = {entry.shape: entry.count for entry in case.expected_counts}
    if len(expected) != len(case.expected_counts):
        raise malformed(where, "a shape is counted twice")
    return _differs("counts", answer, expected) if answer != expected else ""


def _operator(found: object, where: str) -> str:
    forms = read_as(Operator, found, where).root.forms()
    expected = read_as(Expected, found, where)
    unknown = [key for key in expected.model_extra or {} if _claims(key)]
    if unknown:
        raise malformed(where, f"it is not known what {unknown[0]} says")
    return "; ".join(filter(None, _operator_differences(expected, forms, where)))


def _claims(key: str) -> bool:
    """Whether a key has a value that must be checked."""
    return bool(re.search(r"_(transform|offset)$|^expected_", key))


def _operator_differences(
    expected: Expected, forms: Mapping[str, Affine], where: str
) -> Iterator[str]:
    for name in ("ifm", "ifm2", "weight", "bias"):
        transform = getattr(expected, f"{name}_transform")
        offset = getattr(expected, f"{name}_offset")
        whole = getattr(expected, f"expected_whole_{name}", None)
        if name not in forms:
            if (transform, offset, whole) != (None, None, None):
                raise malformed(where, f"the operator has no input {name}")
            continue
        form = forms[name]
        if transform is not None and form.augmented != transform:
            yield _differs(f"{name}_transform", form.augmented, transform)
        if offset is not None and form.offset != offset:
            yield _differs(f"{name}_offset", form.offset, offset)
        if whole is not None:
            yield _whole_difference(name, form, expected.whole_tensor_ofm, whole, where)


def _whole_difference(
    name: str, form: Affine, out: Shape | None, expected: Shape, where: str
) -> str:
    """The difference for the whole tensor as one stripe."""
    if out is None or len(out) != form.out_rank:
        raise malformed(where, f"whole_tensor_ofm is {_shown(out)}, must have {form.out_rank} axes")
    ones = (1,) * len(out)
    answer = StripeConfig(out, out, out, ones, ones, (0,) * len(out)).propagate(form).shape
    return _differs(f"expected_whole_{name}", answer, expected) if answer != expected else ""


def _differs(name: str, answer: object, expected: object) -> str:
    return f"{name} is {_shown(answer)}, expected {_shown(expected)}"


def _shown(value: object) -> str:
    """A value as written in a file; fractions stay fractions."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(k)}: {_shown(v)}' for k, v in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)
