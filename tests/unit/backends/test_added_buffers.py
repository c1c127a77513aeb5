"""Program passes add buffers and commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock
from available import TARGET
from examples.uma import phases
from penstock.backends.uma import backend
from penstock.errors import BackendError, CapacityError
from penstock.program.program import Kind
from penstock.uma import (
    AcceleratorTarget,
    Buffer,
    Driver,
    Invoke,
    PassPhase,
    Program,
    elements,
    with_constant,
    with_scratch,
)

LATE = (PassPhase.TIR_PHASE_2, PassPhase.TIR_PHASE_3)
WORDS = np.array([3, 1, 4, 1, 5], np.int32)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})


def configure(device: dict[str, Any], words: Any, room: Any, count: int) -> None:
    """Copies the words into the room, which the engine keeps during the run."""
    elements(room, np.int32, count)[:] = elements(words, np.int32, count)
    device["room"] = elements(room, np.int32, count)


def finish(device: dict[str, Any], count: int) -> None:
    """Nothing has overwritten the room since."""
    assert device["room"].tolist() == WORDS.tolist()[:count]


CONFIGURE = Driver("rows_configure", "rows", configure, device=dict)
FINISH = Driver("rows_finish", "rows", finish, device=dict)
HEADER = phases.HEADER.replace(
    "#endif\n",
    "void rows_configure(const void *words, void *room, int32_t count);\n"
    "void rows_finish(int32_t count);\n#endif\n",
)
STUB = phases.STUB.replace(
    '#include "rows.h"\n',
    """\
#include "rows.h"
#include <string.h>
static const int32_t *rows_room;
static int32_t rows_words[5];
void rows_configure(const void *words, void *room, int32_t count) {
    memcpy(room, words, sizeof(int32_t) * (size_t)count);
    memcpy(rows_words, words, sizeof(int32_t) * (size_t)count);
    rows_room = room;
}
void rows_finish(int32_t count) { rows_words[0] = count; }
/* Whether the configuration is still in memory. */
static int rows_are_intact(void) {
    return memcmp(rows_room, rows_words, sizeof rows_words) == 0;
}
""",
).replace("int8_t most = -128;", "int8_t most = rows_are_intact() ? -128 : 127;")


class Rows(phases.Rows):
    """Configures the engine before the first call, and checks the configuration at the end."""

    def __init__(self, phase: PassPhase, change: Callable[..., Program] | None = None) -> None:
        super().__init__({phase: change or configured})
        sources = {"rows.h": HEADER, "rows.c": STUB}
        self._register_codegen(includes='#include "rows.h"', sources=sources)


def configured(program: Program, target: AcceleratorTarget) -> Program:
    program, words = with_constant(program, "rows/words", WORDS)
    program, room = with_scratch(program, "rows/room", WORDS.nbytes)
    begin, end = Invoke(CONFIGURE, (words, room, 5)), Invoke(FINISH, (5,))
    return replace(program, run=(begin, *program.run, end))


@pytest.mark.parametrize("phase", LATE)
def test_a_pass_adds_buffers_and_commands(phase: PassPhase) -> None:
    Rows(phase).register()
    done = penstock.verify(phases.network(), target=TARGET, accelerators=("rows",))
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [
        (step, 0) for step in ("machine", "host", "core")
    ]
    code = done.compiled.bundle()["pools.c"].decode()
    assert re.search(r"    rows_configure\(\w*rows_words, arena \+ \w+, 5\);\n", code), code
    assert code.count("    rows_finish(5);") == 1


def test_what_is_added_counts() -> None:
    def ram(accelerator: phases.Rows) -> tuple[int, int]:
        accelerator.register(replace=True)
        report = penstock.compile(
            phases.network(), target="cortex-m4", accelerators=("rows",)
        ).report
        return report.ram_bytes.total, report.flash_bytes.total

    plain, more = ram(phases.Rows()), ram(Rows(PassPhase.TIR_PHASE_2))
    assert more[0] >= plain[0] + WORDS.nbytes
    assert more[1] >= plain[1] + WORDS.nbytes


def test_what_is_added_is_within_the_budget() -> None:
    phases.Rows().register()
    least = penstock.compile(
        phases.network(), target="cortex-m4", accelerators=("rows",), optimize="size"
    )
    budget = least.report.ram_bytes.total
    Rows(PassPhase.TIR_PHASE_2).register(replace=True)
    with pytest.raises(CapacityError, match="program passes add"):
        penstock.compile(phases.network(), target="cortex-m4", accelerators=("rows",), sram=budget)


def raw(program: Program, target: AcceleratorTarget) -> Program:
    """Adds a buffer without the help of functions; the compiler gives it an address."""
    (memory, *_) = program.ram()
    room = Buffer("rows/room", Kind.SCRATCH, memory.name, 0, 8)
    return replace(program, buffers=(*program.buffers, room))


def test_added_buffers_receive_addresses_of_their_own() -> None:
    Rows(PassPhase.TIR_PHASE_2, raw).register()
    done = penstock.compile(phases.network(), target="host", accelerators=("rows",))
    *others, room = done.compilation.program.buffers
    ends = [b.address + b.size_bytes for b in others if b.memory == room.memory]
    assert room.address >= max(ends)


def foreign(program: Program, target: AcceleratorTarget) -> Program:
    other = Driver("npu_run", "npu", lambda device: None, device=dict)
    return replace(program, run=(*program.run, Invoke(other, ())))


def state(program: Program, target: AcceleratorTarget) -> Program:
    (memory, *_) = program.ram()
    kept = Buffer("rows/state", Kind.STATE, memory.name, 0, 8)
    return replace(program, buffers=(*program.buffers, kept))


def taken(program: Program, target: AcceleratorTarget) -> Program:
    return with_scratch(program, program.buffers[0].name, 8)[0]


@pytest.mark.parametrize(
    ("phase", "change", "reason"),
    [
        (PassPhase.TIR_PHASE_0, configured, "the list of buffers"),
        (PassPhase.TIR_PHASE_1, configured, "the list of buffers"),
        (PassPhase.TIR_PHASE_2, foreign, "the number of commands"),
        (PassPhase.TIR_PHASE_2, state, 'the list of buffers by "rows/state"'),
        (PassPhase.TIR_PHASE_2, taken, "cannot be added"),
    ],
)
def test_other_additions_are_refused(phase: PassPhase, change: Any, reason: str) -> None:
    Rows(phase, change).register()
    with pytest.raises(BackendError, match=reason):
        penstock.compile(phases.network(), target="host", accelerators=("rows",))
