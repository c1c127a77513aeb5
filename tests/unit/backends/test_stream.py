"""Streams: an accelerator with a command stream computes the same as with function calls."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offloading import assert_exact
from penstock import api
from penstock.backends.accelerator import Accelerator
from penstock.errors import BackendError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ladder import climb
from penstock.ops.unary import Logistic
from penstock.pipeline.compilation import compile_graph
from penstock.pipeline.request import Request
from penstock.program.program import Address, Call, Driver, Invoke
from penstock.program.steps import walk
from penstock.uma import (
    AcceleratorTarget,
    OpStrategy,
    Place,
    Quantisation,
    StreamCommand,
    UMABackend,
    Var,
    is_op,
    wildcard,
)
from toy_accelerator import CODE, HEADER, STUB, Bytes, Unit, begin, store, tap, toy_request

FUNCTIONS = {"toy_begin": begin, "toy_tap": tap, "toy_store": store}
COUNTS = (3, 9, 6)  # of arguments
SUBMIT = """
void toy_submit(const void *stream, int32_t bytes, void *bases[]);
"""
SUBMIT_STUB = """
static void *place(const int32_t *w, void *bases[]) { return (int8_t *)bases[w[0]] + w[1]; }

void toy_submit(const void *stream, int32_t bytes, void *bases[]) {
    const int32_t *w = stream;
    const int32_t *end = w + bytes / 4;
    while (w < end) {
        const int32_t code = *w++;
        if (code == 0) {
            toy_begin(place(w, bases), w[3], w[5]);
            w += 6;
        } else if (code == 1) {
            toy_tap(place(w, bases), place(w + 2, bases), w[5], w[7], w[9], w[11], w[13], w[15],
                    w[17]);
            w += 18;
        } else {
            toy_store(place(w, bases), place(w + 2, bases), place(w + 4, bases), w[7], w[9],
                      w[11]);
            w += 12;
        }
    }
}
"""


def encode(commands: Sequence[StreamCommand]) -> bytes:
    """A word that says which function; then two for each argument: a base or -1, and a number."""
    words: list[int] = []
    for command in commands:
        words.append(list(FUNCTIONS).index(command.name))
        for argument in command.arguments:
            place = argument if isinstance(argument, Place) else Place(-1, argument)
            words += [place.base, place.offset_bytes]
    return struct.pack(f"<{len(words)}i", *words)


def submit(unit: Unit, stream: Bytes, size: int, *bases: Bytes) -> None:
    """Does what the words say."""
    words = stream[:size].view(np.int32).tolist()
    while words:
        function, count = list(FUNCTIONS.values())[words[0]], COUNTS[words[0]]
        pairs = zip(words[1 : 2 * count : 2], words[2 : 2 * count + 1 : 2], strict=True)
        function(unit, *(n if base < 0 else bases[base][n:] for base, n in pairs))
        del words[: 1 + 2 * count]


def streaming(accelerator: Accelerator) -> Accelerator:
    """The toy with a driver that takes streams."""
    header = HEADER.replace("#endif", SUBMIT + "#endif")
    code = replace(
        CODE,
        fmt="stream",
        encoder=encode,
        submit=Driver("toy_submit", "toy", submit, Unit),
        sources=(("toy.h", header), ("toy_stub.c", STUB + SUBMIT_STUB)),
    )
    return replace(accelerator, codegen=code)


@pytest.mark.parametrize("sram", [None, "2600"])
def test_streams_equal_calls(sram: str | None) -> None:
    request = toy_request("zoo:lenet5", "host", change=streaming, sram=sram)
    done = api.compile(request).compilation
    rungs = tuple(climb(done, None, api.drawn_sets(done, 1), every_point=True))
    assert [(r.step, r.comparison.mismatches) for r in rungs] == [
        ("machine", 0), ("points", 0), ("host", 0),
    ]  # fmt: skip
    assert all(r.comparison.elements for r in rungs)
    streams = {buffer.name for buffer in done.program.buffers if buffer.is_stream}
    submitted = {
        argument.buffer
        for call in walk(done.program.run)
        if isinstance(call, Call) and call.engine == "toy"
        for invoke in call.body
        if isinstance(invoke, Invoke) and isinstance(argument := invoke.arguments[0], Address)
    }
    assert streams == submitted != set()
    run = done.bundle["lenet5.c"].decode()
    assert "toy_submit(" in run
    assert "toy_tap(" not in run


@pytest.mark.parametrize(
    ("encoder", "code"), [(lambda commands: "text", "backend-084"), (lambda: b"", "backend-083")]
)
def test_wrong_encoders_are_the_authors_business(encoder: object, code: str) -> None:
    def change(accelerator: Accelerator) -> Accelerator:
        made = streaming(accelerator)
        return replace(made, codegen=replace(made.codegen, encoder=encoder))  # pyright: ignore[reportArgumentType]

    with pytest.raises(BackendError) as caught:
        api.compile(toy_request("zoo:lenet5", "host", change=change))
    assert caught.value.code == code


def test_an_ordinary_error_of_an_encoder_reaches_the_user_unchanged() -> None:
    """A missing package, say, is not a mistake of the encoder's author."""
    missing = UsageError("usage-058", "the package is missing", help="install it")

    def fails(commands: object) -> bytes:
        raise missing

    def change(accelerator: Accelerator) -> Accelerator:
        made = streaming(accelerator)
        return replace(made, codegen=replace(made.codegen, encoder=fails))

    with pytest.raises(UsageError) as caught:
        api.compile(toy_request("zoo:lenet5", "host", change=change))
    assert caught.value is missing


def documented_functions() -> dict[str, Any]:
    """The names that the example of the how-to page defines."""
    page = (Path(__file__).parents[3] / "docs/how-to/add-a-backend.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(@dataclass.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"dataclass": dataclass, "struct": struct}
    exec(code, names)
    return names


def look_up(device: object, stream: Bytes, size: int, *bases: Bytes) -> None:
    """The functional model of the documented example."""
    words = stream[:size].view(np.int32).tolist()
    while words:
        row_bytes, rows, *words = words
        for _ in range(rows):
            table, x, y = (bases[words[2 * n]][words[2 * n + 1] :] for n in range(3))
            y[:row_bytes] = table[x[:row_bytes].view(np.int8).astype(np.int64) + 128]
            words = words[6:]


class LookUpBackend(UMABackend):
    """The accelerator of the documented example: looks up sigmoids, row by row."""

    def __init__(self) -> None:
        super().__init__()
        names = documented_functions()
        self._register_pattern("sigmoid", is_op("sigmoid")(wildcard()))

        def strategy(attrs: Any, inputs: Any, out_type: Any, target: AcceleratorTarget) -> Any:
            found = OpStrategy()
            found.add_implementation(
                names["compute"],
                name="look_up",
                cost=lambda offloaded, rows: float(rows),
                tables=lambda offloaded: offloaded.tables,
                by_rows=True,
            )
            return found

        self._register_operator_strategy("sigmoid", strategy)
        self._register_codegen(
            fmt="stream",
            encoder=names["encode"],
            submit=Driver("look_up_submit", "look_up", look_up, object),
        )

    @property
    def target_name(self) -> str:
        return "look_up"


def test_the_documented_operation_reaches_the_encoder_as_it_was_issued() -> None:
    """Convolutions around the sigmoid let the scheduler compute it in stripes."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 12, 9, 3)), 4, 3, name="before")
    y = net.apply(Logistic(), x, name="look", quantisation=Quantisation((1 / 256,), (-128,)))
    graph = net.build(net.conv2d(y, 4, 3, name="after"))
    host = load_target("host")
    accelerator = LookUpBackend().accelerator({}, host)
    done = compile_graph(graph, Request("zoo:net", host, accelerators=(accelerator,)))
    assert any(isinstance(c, Call) and c.engine == "look_up" for c in walk(done.program.run))
    assert any(plan.stripe for point in done.points for plan in point.schedule.plans)
    assert_exact(done, "points")


def test_an_encoder_finds_the_record_of_an_invocation() -> None:
    @dataclass(frozen=True)
    class Fill:
        target: object
        count: object
        signed: bool

    driver = Driver("fill", "toy", lambda device, record: None, object)
    invoke = Invoke(driver, Fill(Address("x", 8), Var("n") + 1, signed=True))
    assert invoke.arguments == (Address("x", 8), Var("n") + 1, 1)
    assert invoke.with_values([Place(0, 8), 3, 1]) == Fill(Place(0, 8), 3, signed=True)
