"""The simulated Cortex-M: counts against hand counts and a slow judge, stack, phases, faults."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InternalError, ToolError
from penstock.simulators import cortex_m, host_library
from penstock.simulators.calling import ExecutionCounts
from penstock.simulators.cortex_m import RETURN_ADDRESS, STACK_TOP, Simulator
from penstock.simulators.cortex_m_timing import CORES

Build = Callable[..., Path]
Load = Callable[..., Simulator]

NAKED = """
__attribute__((naked)) int loop(int n) {
    __asm volatile(".syntax unified\\n movs r1, #0\\n 1: adds r1, #3\\n subs r0, #1\\n bne 1b\\n"
                   "mov r0, r1\\n bx lr");
}
__attribute__((naked)) void frame(void) {
    __asm volatile(".syntax unified\\n push {r4, lr}\\n sub sp, #96\\n add sp, #96\\n"
                   "pop {r4, pc}");
}
__attribute__((naked)) void deep(void) {
    __asm volatile(".syntax unified\\n push {r4, r5, r6, lr}\\n bl frame\\n bl loop\\n"
                   "pop {r4, r5, r6, pc}");
}
__attribute__((naked)) void clobber(void) {
    __asm volatile(".syntax unified\\n movs r5, #1\\n bx lr");
}
__attribute__((naked)) void undefined(void) {
    __asm volatile("udf #0");
}
__attribute__((naked)) void endless(void) {
    __asm volatile("b .");
}
"""
NAKED_NAMES = ("loop", "frame", "deep", "clobber", "undefined", "endless")

STEPS = """
#include <stdint.h>
#include <string.h>
int8_t x[512], w[512], y[512];
static const int8_t fixed[4] = {1, 2, 3, 4};
const int8_t *constants(void) { return fixed; }
__attribute__((noinline)) static int32_t dot(const int8_t *a, const int8_t *b, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
__attribute__((noinline)) static int32_t step0(int n) { x[0]++; return dot(x, w, n); }
__attribute__((noinline)) static int32_t step1(int n) { w[1]--; return dot(w, x, n) / (n + 3); }
__attribute__((noinline)) static int32_t step2(int n) {
    memcpy(y + 1, x, (uint32_t)n);
    return y[5];
}
int32_t run(int n) {
    int32_t sum = step0(n);
    for (int i = 0; i < 3; i++) sum += step1(n) + step2(n - i);
    return sum;
}
void copy(int8_t *to, const int8_t *from, uint32_t bytes) { memcpy(to, from, bytes); }
int32_t sixth(int a, int b, int c, int d, int e, int f) {
    return a + b + c + d + 10 * e + 100 * f;
}
int8_t *pointer(void) { return x; }
int32_t minus(int32_t value) { return -value; }
int32_t peek(const volatile int32_t *address) { return *address; }
void poke(volatile int8_t *address) { *address = 7; }
int32_t recursive(int n) {
    volatile int32_t local[8] = {n};
    return n == 0 ? 0 : local[0] + recursive(n - 1) + local[7];
}
void jump(void (*to)(void)) { to(); }
"""
STEP_NAMES = (
    *("constants", "run", "copy", "sixth", "pointer", "minus", "peek", "poke"),
    *("recursive", "jump", "x", "w", "y"),
)


def judged(simulator: Simulator, name: str, *arguments: int) -> tuple[int, int]:
    """Executed instructions and taken branches of a call, instruction by instruction.

    Shares no code with the simulator's counting. Instructions in IT blocks would confuse it: it is
    for Armv6-M, which has none.
    """
    unicorn = pytest.importorskip("unicorn")
    arm = pytest.importorskip("unicorn.arm_const")
    engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB)
    engine.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M0)
    for base in (0x0800_0000, 0x2000_0000, STACK_TOP - (1 << 20)):
        engine.mem_map(base, 1 << 20)
    for segment in simulator.image.segments:
        engine.mem_write(segment.address, segment.content)
    visited: list[tuple[int, int]] = []
    engine.hook_add(
        unicorn.UC_HOOK_CODE, lambda _engine, address, size, _data: visited.append((address, size))
    )
    engine.reg_write(arm.UC_ARM_REG_SP, STACK_TOP)
    engine.reg_write(arm.UC_ARM_REG_LR, RETURN_ADDRESS | 1)
    for number, value in enumerate(arguments):
        engine.reg_write(arm.UC_ARM_REG_R0 + number, value)
    engine.emu_start(simulator.symbol(name) | 1, RETURN_ADDRESS)
    ends = (address + size for address, size in visited)
    nexts = (*(address for address, _ in visited[1:]), RETURN_ADDRESS)
    return len(visited), sum(end != start for end, start in zip(ends, nexts, strict=True))


@pytest.mark.parametrize(("core", "cycles"), [("cortex-m4", 33 + 10 * 2), ("cortex-m0plus", 43)])
def test_a_loop_costs_what_one_counts_by_hand(load: Load, core: str, cycles: int) -> None:
    """1 + 10 * 3 + 2 instructions of two bytes; 9 branches back and the return."""
    outcome = load(NAKED, core, *NAKED_NAMES).call("loop", 10)
    assert outcome.return_value == 30
    assert outcome.counts == ExecutionCounts(33, cycles, taken_branches=10, code_bytes=66)


def test_cycles_do_not_depend_on_page_boundaries(load: Load) -> None:
    """The simulator divides a block at the end of a page of 4,096 bytes."""
    text = """
    #define LOADS(name, skipped) __attribute__((naked)) int name(const int *p) { \
        __asm volatile(".syntax unified\\n b 1f\\n .p2align 12\\n .space " #skipped "\\n" \
                       "1: ldr r1, [r0]\\n ldr r2, [r0, #4]\\n ldr r3, [r0, #8]\\n bx lr"); }
    const int words[3] = {1, 2, 3};
    LOADS(inside, 64)
    LOADS(across, 4092)"""
    simulator = load(text, "cortex-m4", "inside", "across", "words")
    words = simulator.symbol("words")
    inside, across = (simulator.call(name, words).counts for name in ("inside", "across"))
    assert inside == across
    assert inside.cycles == 1 + 2 + (2 + 1 + 1) + 1 + 2


def test_skipped_conditional_instructions_count(load: Load) -> None:
    text = """__attribute__((naked)) int choose(int n) {
        __asm volatile("cmp r0, #0\\n ite eq\\n moveq r0, #1\\n movne r0, #2\\n bx lr"); }"""
    simulator = load(text, "cortex-m4", "choose")
    assert simulator.call("choose", 0).return_value == 1
    assert simulator.call("choose", 5).return_value == 2
    assert simulator.call("choose", 5).counts == ExecutionCounts(5, 5 + 2, 1, 10)


@pytest.mark.parametrize(("name", "argument"), [("run", 200), ("run", 7), ("recursive", 12)])
def test_counts_are_those_of_an_instruction_by_instruction_judge(
    load: Load, name: str, argument: int
) -> None:
    simulator = load(STEPS, "cortex-m0plus", *STEP_NAMES)
    counts = simulator.call(name, argument).counts
    assert (counts.instructions, counts.taken_branches) == judged(simulator, name, argument)


def test_a_call_is_counted_alone(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    first = simulator.call("run", 100)
    simulator.call("recursive", 9, phases=("recursive",))
    assert simulator.call("run", 100).counts == first.counts
    assert simulator.call("minus", 1).counts.instructions == 2


def test_phases_of_one_call_are_forgotten_in_the_next(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    whole = simulator.call("run", 100, phases=("step0", "step1", "step2"))
    last = simulator.call("run", 100, phases=("step2",))
    assert last.counts == whole.counts
    assert last.before.instructions > whole.before.instructions + whole.phases[0].instructions


def test_phases_sum_up_to_the_whole(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    outcome = simulator.call("run", 300, phases=("step0", "step1", "step2"))
    assert sum(outcome.phases, outcome.before) == outcome.counts
    assert all(phase.instructions > 300 for phase in outcome.phases[:2])
    assert 0 < outcome.before.instructions < 20


def test_a_phase_holds_its_callees_and_all_its_turns(load: Load) -> None:
    """`dot`, which is no phase of its own, runs once in step0 and three times in step1."""
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    outcome = simulator.call("run", 500, phases=("step0", "step1", "step2"))
    once, thrice, _ = (phase.instructions for phase in outcome.phases)
    assert once > 500
    assert abs(thrice - 3 * once) < 100


def test_a_phase_that_never_begins_counts_nothing(load: Load) -> None:
    outcome = load(STEPS, "cortex-m4", *STEP_NAMES).call("minus", 3, phases=("step1",))
    assert outcome.phases == (ExecutionCounts(),)
    assert outcome.before == outcome.counts


def test_phases_need_functions_of_their_own(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    with pytest.raises(ToolError, match="0 symbols named 'step9'"):
        simulator.call("run", 3, phases=("step9",))
    with pytest.raises(InternalError, match="same function"):
        simulator.call("run", 3, phases=("step1", "step1"))


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4"])
def test_stack_use_is_that_of_known_frames(load: Load, core: str) -> None:
    """Also where the frame is reserved and never written; 16 + 104 bytes for a call in a call."""
    simulator = load(NAKED, core, *NAKED_NAMES)
    assert simulator.call("loop", 1).stack_bytes == 0
    assert simulator.call("frame").stack_bytes == 8 + 96
    assert simulator.call("deep").stack_bytes == 16 + 8 + 96


def test_stack_use_grows_with_recursion_by_one_frame_each(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    depths = [simulator.call("recursive", n).stack_bytes for n in (2, 3, 4, 9)]
    frame = depths[1] - depths[0]
    assert frame >= 32
    assert [depth - depths[0] for depth in depths] == [0, frame, 2 * frame, 7 * frame]


def test_memcpy_works_at_any_alignment(load: Load) -> None:
    simulator = load(STEPS, "cortex-m0plus", *STEP_NAMES)
    source, target = simulator.symbol("x"), simulator.symbol("y")
    pattern = bytes(range(1, 65))
    simulator.write(source, pattern)
    for shift in [(a, b, n) for a in range(4) for b in range(4) for n in (0, 1, 3, 4, 7, 16, 31)]:
        to, start, size_bytes = shift
        simulator.write(target, bytes(64))
        simulator.call("copy", target + to, source + start, size_bytes)
        expected = bytes(to) + pattern[start : start + size_bytes]
        assert simulator.read(target, 64) == expected.ljust(64, b"\0"), shift


def test_arguments_and_results_follow_the_calling_convention(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    assert simulator.call("sixth", 1, 2, 3, 4, 5, -6).return_value == 10 + 50 - 600
    assert simulator.call("minus", 5).return_value == -5
    assert simulator.call("minus", -5).return_value == 5
    assert simulator.call("pointer").address == simulator.symbol("x")


def test_memory_lasts_from_call_to_call(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    address = simulator.symbol("y") + 3
    simulator.call("poke", address)
    assert simulator.read(address, 1) == b"\x07"
    assert load(STEPS, "cortex-m4", *STEP_NAMES).read(address, 1) == b"\0"


@pytest.mark.parametrize(
    ("name", "address", "why"),
    [
        ("peek", 0, "at address 0x0"),
        ("peek", 0x6000_0000, "at address 0x60000000"),
        ("poke", 0x0800_0010, "write-protected memory"),
        ("poke", STACK_TOP - (64 << 10) - 4, "the stack is larger than 65536 bytes"),
        ("jump", 0x2000_0001, "non-executable memory"),
    ],
)
def test_a_wrong_access_is_reported_with_its_place(
    load: Load, name: str, address: int, why: str
) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    with pytest.raises(InternalError) as caught:
        simulator.call(name, address)
    assert caught.value.code == "simulator-004"
    assert why in str(caught.value)
    assert f"block {simulator.symbol(name):#x} ({name}+0x0)" in caught.value.where


def test_constants_cannot_be_written(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    constants = simulator.call("constants").address
    with pytest.raises(InternalError, match="faulted"):
        simulator.call("poke", constants)
    assert simulator.read(constants, 4) == bytes((1, 2, 3, 4))


def test_a_stack_that_overflows_is_reported(load: Load) -> None:
    simulator = load(STEPS, "cortex-m4", *STEP_NAMES)
    with pytest.raises(InternalError, match="faulted") as caught:
        simulator.call("recursive", 1 << 20)
    assert "the stack is larger than 65536 bytes" in caught.value.why
    assert simulator.call("minus", 1).return_value == -1


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("undefined", "simulator-004", "(undefined+0x"),
        ("endless", "simulator-007", "its budget is spent"),
        ("clobber", "simulator-008", "r5 changed"),
    ],
)
def test_a_function_that_does_not_return_as_it_should_is_reported(
    load: Load, name: str, code: str, words: str
) -> None:
    simulator = load(NAKED, "cortex-m4", *NAKED_NAMES)
    with pytest.raises(InternalError) as caught:
        simulator.call(name, budget_halfwords=10_000)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_the_budget_is_of_halfwords_and_exact(load: Load) -> None:
    """`loop(10)` is 33 instructions of one halfword each."""
    simulator = load(NAKED, "cortex-m4", *NAKED_NAMES)
    assert simulator.call("loop", 10, budget_halfwords=33).return_value == 30
    with pytest.raises(InternalError, match="did not return"):
        simulator.call("loop", 10, budget_halfwords=32)


@pytest.mark.parametrize("core", [core.name for core in CORES])
def test_every_core_executes_the_common_instruction_set_alike(build: Build, core: str) -> None:
    program = build(STEPS, "cortex-m0plus", *STEP_NAMES)
    expected = Simulator(program, "cortex-m0plus").call("run", 64)
    found = Simulator(program, core).call("run", 64)
    assert found.return_value == expected.return_value
    assert replace(found.counts, cycles=0) == replace(expected.counts, cycles=0)


def test_a_cortex_m0plus_knows_no_dsp_instructions(build: Build) -> None:
    """unicorn's own M-class mode would execute them on every core."""
    text = 'int dual(int a, int b) { __asm("smuad %0, %0, %1" : "+r"(a) : "r"(b)); return a; }'
    program = build(text, "cortex-m4", "dual")
    assert Simulator(program, "cortex-m4").call("dual", 0x0002_0003, 0x0005_0007).return_value == 31
    with pytest.raises(InternalError, match="faulted"):
        Simulator(program, "cortex-m0plus").call("dual", 1, 1)


@pytest.mark.parametrize("line", ["ldr %0, [%0]", "ldrh %0, [%0]", "ldm %0!, {r1, r2}"])
def test_a_cortex_m0plus_reads_no_unaligned_words(load: Load, line: str) -> None:
    clobbered = ': "r1", "r2"' if line.startswith("ldm") else ""
    text = f"""
        char bytes[16];
        int at(char *from) {{
            __asm volatile("{line}" : "+r"(from) : {clobbered}); return (int)from;
        }}
    """
    simulator = load(text, "cortex-m0plus", "bytes", "at")
    place = simulator.symbol("bytes")
    simulator.call("at", place)
    with pytest.raises(InternalError, match="faulted"):
        simulator.call("at", place + 1)


def test_floats_work_on_a_core_with_an_fpu(load: Load) -> None:
    text = "int scaled(int a) { return (int)((float)a * 1.5f); }"
    outcome = load(text, "cortex-m4", "scaled").call("scaled", 10)
    assert outcome.return_value == 15
    assert outcome.counts.instructions < 10


def test_four_megabytes_of_constants_are_there(load: Load) -> None:
    text = (
        "const unsigned char big[4 << 20] = {[(4 << 20) - 1] = 9}; int at(int i) { return big[i]; }"
    )
    simulator = load(text, "cortex-m4", "at")
    assert simulator.call("at", (4 << 20) - 1).return_value == 9
    assert simulator.call("at", 12345).return_value == 0


def test_start_up_brings_memory_into_the_state_that_the_simulator_begins_with(load: Load) -> None:
    """On a core without FPU: to switch that on, start-up writes a register outside of memory.

    Start-up is no function that returns, so that the way in which `main` ends the run is an error.
    """
    text = f"""
        int data[3] = {{5, 6, 7}}, zeros[2];
        int main(void) {{ ((void (*)(void)){RETURN_ADDRESS | 1}u)(); return 0; }}
    """
    simulator = load(text, "cortex-m0plus", "data", "zeros", "main")
    places = [(simulator.symbol("data"), 12), (simulator.symbol("zeros"), 8)]
    at_start = [simulator.read(*place) for place in places]
    assert any(at_start[0])
    for address, size_bytes in places:
        simulator.write(address, b"\xee" * size_bytes)
    with suppress(InternalError):
        simulator.call("Reset_Handler")
    assert [simulator.read(*place) for place in places] == at_start


def test_memory_that_is_not_there_cannot_be_read_or_written(load: Load) -> None:
    simulator = load(NAKED, "cortex-m4", *NAKED_NAMES)
    for access in (lambda: simulator.read(0, 4), lambda: simulator.write(0, b"1234")):
        with pytest.raises(InternalError, match=r"\[0x0, 0x4\)"):
            access()


def test_a_core_that_cannot_be_simulated_is_refused(build: Build) -> None:
    with pytest.raises(ToolError, match="'cortex-m55'") as caught:
        Simulator(build(NAKED, "cortex-m4", *NAKED_NAMES), "cortex-m55")
    assert "cortex-m33" in caught.value.help


def test_a_missing_package_is_named_with_its_remedy(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(NAKED, "cortex-m4", *NAKED_NAMES)
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(ToolError, match="'unicorn'") as caught:
        Simulator(program, "cortex-m4")
    assert caught.value.help == "pip install 'penstock[simulate]'"


def test_the_hook_is_built_into_an_empty_cache(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(NAKED, "cortex-m4", *NAKED_NAMES)
    monkeypatch.setattr(host_library, "cache_folder", lambda: tmp_path)
    host_library.host_library.cache_clear()
    try:
        assert Simulator(program, "cortex-m4").call("loop", 2).counts.instructions == 9
        assert [path.name.startswith("block_hook-") for path in tmp_path.iterdir()] == [True]
    finally:
        host_library.host_library.cache_clear()


def test_too_many_records_are_reported_and_not_lost(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cortex_m, "CAPACITY", 2)
    simulator = Simulator(build(STEPS, "cortex-m4", *STEP_NAMES), "cortex-m4")
    with pytest.raises(InternalError, match="did not return") as caught:
        simulator.call("run", 20)
    assert "than the counters hold" in caught.value.why


def test_paint_alone_sees_what_is_written_below_the_stack_pointer(load: Load) -> None:
    """A write that no stack pointer covers is still found."""
    text = """__attribute__((naked)) void below(void) {
        __asm volatile("mov r0, sp\\n subs r0, #40\\n str r1, [r0]\\n bx lr"); }"""
    assert load(text, "cortex-m4", "below").call("below", 0, 1).stack_bytes == 40


def test_outcomes_are_equal_for_equal_calls(load: Load) -> None:
    """Nothing of a call depends on the one before it, not even the stack's paint."""
    simulator: Any = load(STEPS, "cortex-m4", *STEP_NAMES)
    calls = [simulator.call("recursive", 5, phases=("recursive",)) for _ in range(3)]
    assert calls == [calls[0]] * 3
    assert isinstance(calls[0], cortex_m.CallOutcome)
