"""Functions of counted loops that stand in several places."""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.codegen.c_program import generate
from penstock.program.expr import Var
from penstock.program.program import Counted, Loop, RowCounter
from penstock.program.steps import calls
from programs import SAME, cascade, ring_layout, two_convolutions

FUNCTION = re.compile(r"^static void (\w+_rows_\w+)\(.*?^\}", re.MULTILINE | re.DOTALL)


def test_equal_loops_have_one_function_for_each_place_of_their_counter() -> None:
    """A counter is an element of an array of its own loop: `made[0]` here, `made[1]` there."""
    graph = two_convolutions(8, SAME, SAME)
    program = cascade(graph, ring_layout(graph, 3))
    call = calls(program)[0]  # of row m

    def up_to(upper: int, step: int) -> Loop:
        return Loop("m", Var("n"), upper, step, (call,), Counted("n", "limit"))

    def around(variable: str, steps: tuple[int, ...], *counters: str) -> Loop:
        body = tuple(up_to(upper, step) for step in steps for upper in (2, 4))
        return Loop(variable, 0, 2, 1, body, None, tuple(RowCounter(c, 0) for c in counters))

    first, second = around("a", (1, 2), "n"), around("b", (1, 3), "o", "n")
    root = Loop("k", 0, 2, 1, (first, second, replace(first, variable="c")))
    made = generate(replace(program, run=(root,)), "net", "a test", keeps_input=False)
    source = next(text.decode() for name, text in made.files if name == "net.c")
    functions = {found[1]: found[0] for found in FUNCTION.finditer(source)}
    assert len(functions) == len(FUNCTION.findall(source)) == 4
    used = [set(re.findall(r"made\[\d\]", text)) for text in functions.values()]
    assert used == [{"made[0]"}, {"made[0]"}, {"made[1]"}, {"made[1]"}]
    assert all(source.count(f"{name}(") > 2 for name in functions)
