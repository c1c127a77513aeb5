"""Bounds and offsets have the same values in C as in the reference machine, also below zero."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

from c_header import RUNTIME
from penstock.codegen.c_driver import Scope, expression
from penstock.program.expr import OPERATORS, Binary, Expr, TableEntry, Var, evaluate
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.host import (
    host_compiler,
    link_executable,
    run_executable,
    sanitised_compiler,
)

TABLES = {(5, 0, 255): "small", (7, 70_000, -3): "large"}
SCOPE = Scope(TABLES, frozenset(), {"r": "r", "m": "m"})
VALUES = range(-7, 8)
COUNT = 150
PROGRAM = """
#include <stdio.h>

#include "loop.h"

static const uint8_t small[3] = {5, 0, 255};
static const int32_t large[3] = {7, 70000, -3};

int main(void) {
    for (int32_t r = -7; r < 8; r++) {
        for (int32_t m = -7; m < 8; m++) {
%s
        }
    }
    return 0;
}
"""


def drawn(rng: random.Random, depth: int) -> Expr:
    """An expression of r and m; divisors are positive numbers."""
    if depth == 0:
        return rng.choice((Var("r"), Var("m"), rng.randint(-9, 9)))
    if rng.random() < 0.1:
        return TableEntry(rng.choice(tuple(TABLES)), Binary("%", drawn(rng, depth - 1), 3))
    operator = rng.choice(tuple(OPERATORS))
    left = drawn(rng, rng.randrange(depth))
    if operator in ("//", "%"):
        return Binary(operator, left, rng.randint(1, 5))
    return Binary(operator, left, drawn(rng, rng.randrange(depth)))


def test_expressions_have_the_same_values_in_c(tmp_path: Path) -> None:
    rng = random.Random(1)
    exprs = [drawn(rng, depth) for depth in range(1, 4) for _ in range(COUNT // 3)]
    lines = [f'            printf("%d ", {expression(expr, SCOPE)});' for expr in exprs]
    source = tmp_path / "expressions.c"
    source.write_text(PROGRAM % "\n".join(lines))
    compiler = sanitised_compiler(host_compiler()).compiler
    objects = compile_objects(
        compiler, [source], tmp_path, include=(Path(str(RUNTIME)),), flags=WARNINGS_AS_ERRORS
    )
    printed = run_executable(link_executable(compiler, objects, tmp_path / "expressions"))
    expected = [
        evaluate(expr, {"r": r, "m": m}) for r, m in product(VALUES, VALUES) for expr in exprs
    ]
    assert [int(word) for word in printed.split()] == expected
    assert min(expected) < 0


def test_a_loop_inside_one_of_the_same_name_gets_another() -> None:
    outer = Scope({}, frozenset({"arena"}), {}).inside("r")
    inner = outer.inside("r").inside("int").inside("arena")
    assert outer.variables == {"r": "r"}
    assert inner.variables == {"r": "r_2", "int": "int_2", "arena": "arena_2"}
    assert expression(Var("r"), inner) == "r_2"


def test_parentheses_are_minimal() -> None:
    r, m = Var("r"), Var("m")
    shown = {
        "r - 1": Binary("+", r, -1),
        "2 * (r + 1)": Binary("*", 2, Binary("+", r, 1)),
        "2 * r + 1": Binary("+", Binary("*", 2, r), 1),
        "r - (m - 1)": Binary("-", r, Binary("-", m, 1)),
        "r - m - 1": Binary("-", Binary("-", r, m), 1),
        "r + 1": Binary("+", Binary("-", r, 1), 2),
        "m": Binary("-", Binary("+", m, 3), 3),
        "(-2) * r": Binary("*", -2, r),
        "penstock_min(r + 1, 7)": Binary("min", Binary("+", r, 1), 7),
        "small[penstock_divide(r, 2)]": TableEntry((5, 0, 255), Binary("//", r, 2)),
    }
    assert {expression(expr, SCOPE) for expr in shown.values()} == set(shown)
