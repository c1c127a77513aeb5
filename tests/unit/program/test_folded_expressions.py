"""Folded expressions have the value of the expression as written, and no constants to merge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.program.expr import Binary, Expr, Var, binary, evaluate, minimum

R, M = Var("r"), Var("m")
WRITTEN: st.SearchStrategy[Expr] = st.recursive(
    st.one_of(st.sampled_from((R, M)), st.integers(-9, 9)),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(("+", "-", "*", "min", "max")), inner, inner),
        st.builds(Binary, st.sampled_from(("//", "%")), inner, st.integers(1, 5)),
    ),
    max_leaves=12,
)


def folded(expr: Expr) -> Expr:
    if not isinstance(expr, Binary):
        return expr
    return binary(expr.operator, folded(expr.left), folded(expr.right))


def operations(expr: Expr) -> int:
    return 1 + operations(expr.left) + operations(expr.right) if isinstance(expr, Binary) else 0


@given(expr=WRITTEN, r=st.integers(-9, 9), m=st.integers(-9, 9))
def test_folding_keeps_the_value(expr: Expr, r: int, m: int) -> None:
    variables = {"r": r, "m": m}
    assert evaluate(folded(expr), variables) == evaluate(expr, variables)
    assert operations(folded(expr)) <= operations(expr)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (0 + R, R),
        (R - R, 0),
        (R + 5 - R, 5),
        ((R * 2 - 1) - (R * 2 + 3), -4),
        (R + 5 - M, Binary("-", Binary("+", R, 5), M)),
        (R * 0, 0),
        (R % 1, 0),
        (3 + R - 3, R),
        (R - 1 - 2, Binary("-", R, 3)),
        (R * 4 * 2, Binary("*", R, 8)),
        (minimum(32, minimum(R + 1, 24)), Binary("min", Binary("+", R, 1), 24)),
        (minimum(R, R), R),
        (R - M, Binary("-", R, M)),
        (R % 4 % 2, Binary("%", Binary("%", R, 4), 2)),
    ],
)
def test_adjacent_constants_are_merged(expr: Expr, expected: Expr) -> None:
    assert expr == expected
