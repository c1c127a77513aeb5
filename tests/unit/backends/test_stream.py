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
from penstock.backends.accelerator import Accelerator, StreamDriver
from penstock.errors import BackendError, UsageError
from penstock.execution import library_sources, unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ladder import Truth, climb
from penstock.ops.unary import Logistic
from penstock.pipeline.compilation import compile_graph
from penstock.pipeline.request import Request
from penstock.program.program import Address, Call, Driver, Invoke
from penstock.program.steps import walk
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler, link_executable, run_executable
from penstock.uma import (
    AcceleratorTarget,
    OpStrategy,
    Place,
    Quantisation,
    RegionNumbers,
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
        driver=StreamDriver(Driver("toy_submit", "toy", submit, Unit)),
        sources=(("toy.h", header), ("toy_stub.c", STUB + SUBMIT_STUB)),
    )
    return replace(accelerator, codegen=code)


@pytest.mark.parametrize("sram", [None, "2600"])
def test_streams_equal_calls(sram: str | None) -> None:
    request = toy_request("zoo:lenet5", "host", change=streaming, sram=sram)
    done = api.compile(request).compilation
    rungs = tuple(climb(done, Truth(), api.drawn_sets(done, 1), every_point=True))
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


def submit_regions(unit: Unit, stream: Bytes, size: int, *regions: Bytes | int) -> None:
    """As `submit`, with a size for each base, beyond which nothing may be accessed."""
    pairs = zip(regions[::2], regions[1::2], strict=True)
    bases = [np.zeros(0, np.uint8) if isinstance(b, int) else b[:n] for b, n in pairs]
    submit(unit, stream, size, *bases)


def regional(accelerator: Accelerator) -> Accelerator:
    """The toy with numbered regions, of which 1 is none, and a driver that returns a status."""
    made = streaming(accelerator)
    head = "int toy_run(const void *stream, int32_t bytes, void *bases[], const size_t *, int)"
    more = f"#include <stddef.h>\n{head};\nextern int toy_failing;\n#endif"
    body = """
int toy_failing = -1;
int toy_run(const void *stream, int32_t bytes, void *bases[], const size_t sizes[], int count) {
    if (count != 3 || bases[1] != NULL || sizes[1] != 0 || toy_failing == 0) {
        return 1;
    }
    toy_failing--;
    toy_submit(stream, bytes, bases);
    return 0;
}
"""
    (_, header), (_, stub) = made.codegen.sources
    header = header.replace("#endif", more)
    code = replace(
        made.codegen,
        driver=StreamDriver(
            Driver("toy_run", "toy", submit_regions, Unit), RegionNumbers(0, (2,)), is_status=True
        ),
        sources=(("toy.h", header), ("toy_stub.c", stub + body)),
    )
    return replace(made, codegen=code)


@pytest.mark.parametrize("sram", [None, "2600"])
def test_regions_have_the_numbers_of_the_backend(sram: str | None) -> None:
    request = toy_request("zoo:lenet5", "host", change=regional, sram=sram)
    done = api.compile(request).compilation
    rungs = tuple(climb(done, Truth(), api.drawn_sets(done, 1), every_point=True))
    assert {r.step: r.comparison.mismatches for r in rungs} == {
        "machine": 0, "points": 0, "host": 0,
    }  # fmt: skip
    text = done.bundle["lenet5.c"].decode()
    assert "LENET5_ACCELERATOR_FAILED" in text
    assert re.search(r"\(void \*\[\]\)\{\(void \*\)\(lenet5_w\d+_toy_constants\), ", text)
    assert "LENET5_ACCELERATOR_FAILED = 5" in done.bundle["lenet5.h"].decode()


def test_a_status_of_the_driver_ends_a_run_that_also_pulls() -> None:
    """Each kind of failure has its own status, also from loops in which both may happen."""
    request = toy_request("zoo:lenet5", "host", change=regional, stream_input=True)
    done = api.compile(request).compilation
    main = """
#include <stdio.h>
#include <string.h>
#include "lenet5.h"
#include "toy.h"
static int left;
static int rows(void *context, int32_t row, int8_t *bytes) {
    (void)context;
    memset(bytes, row, LENET5_PULL_ROW_BYTES);
    return left-- == 0;
}
static void run(int failing, int pulled) {
    toy_failing = failing;
    left = pulled;
    printf("%d ", lenet5_run(lenet5_arena, rows, NULL));
}
int main(void) {
    run(-1, -1); run(0, -1); run(3, -1); run(-1, 0); run(-1, 9);
    return 0;
}
"""
    with unpacked(done.bundle.with_files(("test.c", main.encode()))) as folder:
        sources = [folder / name for name in (*library_sources(done), "test.c")]
        sources = [path for path in sources if path.name != "main.c"]
        objects = compile_objects(host_compiler(), sources, folder / "objects", include=(folder,))
        said = run_executable(link_executable(host_compiler(), objects, folder / "test"))
    assert said.decode().split() == ["0", "5", "5", "4", "4"]


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
