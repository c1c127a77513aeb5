"""The Cortex-M55 in QEMU: counts against hand counts, phases, stack, faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.errors import InternalError, ToolError
from penstock.hardware.load import load_target
from penstock.simulators import cortex_m55
from penstock.simulators.cortex_m55 import Simulator55
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.cortex_m import link_firmware, zig_cortex_m
from penstock.toolchains.elf_file import read_image

PROGRAM = """
#include <stdint.h>
#define NAKED __attribute__((naked))
#define CODE(text) __asm volatile(".syntax unified\\n" text)
int8_t x[64];
const int32_t fixed = 77;
int32_t filled = 55;
NAKED int32_t loop(int n) { /* 2 + 3 n + 2 */
    CODE("movs r1,#0\\n nop\\n 1: adds r1,#3\\n subs r0,#1\\n bne 1b\\n mov r0,r1\\n bx lr");
}
NAKED int32_t total(const int8_t *x, int n) { /* push, dlstp, r12, 3 a vector, r0, pop */
    CODE("push {r4,lr}\\n mov r12,#0\\n dlstp.8 lr,r1\\n 1: vldrb.8 q0,[r0],#16\\n"
         "vaddva.s8 r12,q0\\n letp lr,1b\\n mov r0,r12\\n pop {r4,pc}");
}
NAKED void steps(void) {
    CODE("push {r4,lr}\\n movs r0,#5\\n bl loop\\n ldr r0,=x\\n movs r1,#40\\n bl total\\n"
         "movs r0,#1\\n bl loop\\n pop {r4,pc}\\n .ltorg");
}
NAKED void frame(void) { CODE("sub sp,#96\\n str r0,[sp]\\n add sp,#96\\n bx lr"); }
NAKED void clobber(void) { CODE("movs r5,#1\\n bx lr"); }
NAKED void undefined(void) { CODE("udf #0"); }
NAKED void endless(void) { CODE("b ."); }
int32_t sixth(int a, int b, int c, int d, int e, int f) { return a + b + c + d + 10 * e + 100 * f; }
int32_t minus(int32_t value) { return fixed + filled - value; }
"""
NAMES = (
    *("loop", "total", "steps", "frame", "clobber", "undefined", "endless", "sixth", "minus", "x"),
    "filled",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    if shutil.which(cortex_m55.PROGRAM) is None:
        pytest.skip(f"{cortex_m55.PROGRAM} is not installed: apt install qemu-system-arm")
    folder = tmp_path_factory.mktemp("m55")
    (folder / "program.c").write_text(PROGRAM)
    tools = zig_cortex_m(load_target("cortex-m55").compiler.zig)
    objects = compile_objects(tools, [folder / "program.c"], folder)
    return link_firmware(
        tools, objects, folder / "program.elf", keep=NAMES, layout=cortex_m55.LAYOUT
    )


@pytest.fixture
def simulator(program: Path) -> Simulator55:
    return Simulator55(program)


def test_instructions_are_counted_as_one_counts_them_by_hand(simulator: Simulator55) -> None:
    outcome = simulator.call("loop", 10)
    assert outcome.return_value == 30
    assert outcome.counts.instructions == 2 + 3 * 10 + 2


def test_each_turn_of_a_low_overhead_loop_counts(simulator: Simulator55) -> None:
    simulator.write(simulator.symbol("x"), bytes(range(40)))
    outcome = simulator.call("total", simulator.symbol("x"), 40)
    assert outcome.return_value == sum(range(40))
    assert outcome.counts.instructions == 3 + 3 * 3 + 2


def test_phases_begin_at_functions_and_sum_up(simulator: Simulator55) -> None:
    outcome = simulator.call("steps", phases=("loop", "total"))
    loops = (2 + 3 * 5 + 2) + 3 + (2 + 3 + 2) + 1  # with what follows them in `steps`
    assert outcome.before.instructions == 3
    assert [phase.instructions for phase in outcome.phases] == [loops, 3 + 3 * 3 + 2 + 2]
    assert sum(outcome.phases, outcome.before) == outcome.counts


def test_counts_are_of_one_call_and_memory_lasts(simulator: Simulator55) -> None:
    simulator.write(simulator.symbol("x"), b"\1\2\3")
    calls = [simulator.call("total", simulator.symbol("x"), 3) for _ in range(2)]
    assert calls[0] == calls[1]
    assert simulator.read(simulator.symbol("x"), 3) == b"\1\2\3"


def test_start_up_has_run(simulator: Simulator55) -> None:
    assert simulator.call("minus", 200).return_value == 77 + 55 - 200
    simulator.write(simulator.symbol("filled"), (1000).to_bytes(4, "little"))
    assert simulator.call("minus", 0).return_value == 1077


def test_arguments_beyond_the_fourth_lie_on_the_stack(simulator: Simulator55) -> None:
    assert simulator.call("sixth", 1, 2, 3, 4, 5, -6).return_value == 10 + 50 - 600


def test_stack_is_what_was_written_of_it(simulator: Simulator55) -> None:
    assert simulator.call("frame").stack_bytes == 96
    assert simulator.call("loop", 1).stack_bytes == 0


def test_a_stack_above_its_limit_is_an_error(program: Path) -> None:
    with pytest.raises(InternalError, match="more than 96 bytes of stack") as caught:
        Simulator55(program, stack_limit_bytes=96).call("frame")
    assert caught.value.code == "simulator-013"


def test_a_changed_register_of_the_caller_is_an_error(simulator: Simulator55) -> None:
    with pytest.raises(InternalError, match="came back with r5 changed"):
        simulator.call("clobber")


def test_a_fault_is_an_error(simulator: Simulator55) -> None:
    with pytest.raises(InternalError, match="faulted") as caught:
        simulator.call("undefined")
    assert "undefined" in str(caught.value.where)


def test_a_spent_budget_is_an_error(simulator: Simulator55) -> None:
    with pytest.raises(InternalError, match="did not return"):
        simulator.call("endless", budget_instructions=10_000)


def test_memory_that_is_not_there_is_an_error(simulator: Simulator55) -> None:
    with pytest.raises(InternalError, match="no simulated memory"):
        simulator.read(0xC000_0000, 4)


def test_a_qemu_that_ends_at_once_is_an_error(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cortex_m55, "MACHINE", "no-such-machine")
    monkeypatch.setattr(cortex_m55, "SECONDS_TO_CONNECT", 1.0)
    with pytest.raises(ToolError, match="does not start") as caught:
        cortex_m55.Qemu(program, read_image(program), tmp_path, "none")
    assert caught.value.code == "tool-024"
