"""ethos_u: memory regions as Arm's driver expects them, and errors that it returns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloading import assert_exact, compiled
from penstock.codegen.bundle import Bundle
from penstock.execution import unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Add
from penstock.pipeline.emission import lower_point
from penstock.program.program import Address, Invoke, Program, WholeMemory
from penstock.program.steps import submissions
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler, link_executable, run_executable
from penstock_ethos_u.interpreter import driver_payload
from penstock_ethos_u.interpreter.commands import decode_commands
from test_ethos_u_submissions import in_turns, submitted

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

CONSTANTS, ARENA = 0, 1
SOURCES = ("WEIGHT_REGION", "SCALE_REGION")
TENSORS = ("IFM_REGION", "OFM_REGION")


def network() -> Graph:
    """Layers with weights, one with a constant operand, and one that the processor computes."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 9, 7, 3)), 20, 3, name="a")
    operand = np.arange(20, dtype=np.int8).reshape(1, 1, 1, 20)
    c = net.constant(operand, Quantisation((0.02,), (3,)), name="c")
    x = net.apply(Add(), x, c, quantisation=Quantisation((0.05,), (-4,)), name="b")
    return net.build(net.softmax(net.fully_connected(x, 10, name="d"), name="e"))


def invocations(program: Program) -> list[Invoke]:
    return [submission.submit for submission in submissions(program)]


def streams(program: Program) -> list[bytes]:
    data = [buffer.data for buffer in program.buffers if buffer.is_stream]
    return [one.raw for one in data if one is not None]


def registers(stream: bytes, names: tuple[str, ...]) -> set[int]:
    """The values to which a stream sets registers."""
    wanted = {f"NPU_SET_{name}" for name in names}
    commands = decode_commands(driver_payload(stream))
    return {value for c in commands if c.format.name in wanted for value in c.fields.values()}


@pytest.mark.parametrize("line", [16, 32, 128])
def test_regions_have_their_numbers_and_whole_cache_lines(line: int) -> None:
    done = compiled(network(), f"ethos_u55:cache_line={line}")
    found = invocations(done.program)
    assert len(found) == 1
    for invoke in found:
        _, _, *regions = invoke.arguments
        bases, sizes = regions[::2], regions[1::2]
        assert isinstance(bases[CONSTANTS], Address)
        assert isinstance(bases[ARENA], WholeMemory)
        assert len(bases) == 2
        assert all(isinstance(size, int) and size > 0 and size % line == 0 for size in sizes)
    header, weights = (done.bundle[f"net{end}"].decode() for end in (".h", "_weights.c"))
    assert f"NET_ARENA_ALIGNMENT {line}" in header
    (arena,) = re.findall(r"NET_ARENA_BYTES (\d+)", header)
    assert int(arena) == done.point.height_bytes == found[0].arguments[5]
    assert f"_Alignas({line}) const uint8_t" in weights
    assert_exact(done, "machine")


def test_streams_refer_to_regions_by_meaning() -> None:
    """At every point: constants in region 0, whatever a call uses first; tensors in region 1."""
    done = compiled(network(), "ethos_u55")
    for point in done.points:
        program = lower_point(point, done.request.accelerators)
        for stream in streams(program):
            assert registers(stream, SOURCES) <= {CONSTANTS, ARENA}  # copies lie in the arena
            assert registers(stream, TENSORS) <= {ARENA}


def test_a_second_memory_is_not_the_fast_memory_of_the_driver() -> None:
    """Which replaces the address of region 2: it is unused, and other memories have numbers from 3
    on."""
    done = compiled(network(), "ethos_u55", target="two-region")
    used = set[int]()
    for point in done.points:
        for invoke in invocations(lower_point(point, done.request.accelerators)):
            _, _, *regions = invoke.arguments
            used |= {k for k, size in enumerate(regions[1::2]) if size != 0}
    assert used == {CONSTANTS, ARENA, 3}
    assert_exact(done, "machine")


DRIVER_H = """
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
"""
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "ethosu_driver.h"
#include "net.h"
static int invoked, released, failing;
struct ethosu_driver *ethosu_reserve_driver(void) { return NULL; }
void ethosu_release_driver(struct ethosu_driver *drv) { (void)drv; released++; }
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg) {
    (void)drv; (void)custom_data_ptr; (void)custom_data_size; (void)base_addr;
    (void)base_addr_size; (void)num_base_addr; (void)user_arg;
    return ++invoked == failing ? -1 : 0;
}
int main(int count, char **words) {
    failing = count > 1 ? atoi(words[1]) : 0;
    const int status = net_run(net_arena);
    printf("%d %d %d", status, invoked, released);
    return 0;
}
"""
OK, FAILED = 0, 5


def statuses(bundle: Bundle, failing: Sequence[int]) -> list[tuple[int, ...]]:
    """The status of a run, and the numbers of invocations and releases, for each number of the
    submission that fails; 0: none fails."""
    files = (("ethosu_driver.h", DRIVER_H.encode()), ("test.c", MAIN.encode()))
    with unpacked(bundle.with_files(*files)) as folder:
        names = ("net.c", "net_weights.c", "net_arena.c", "test.c")
        sources = [folder / name for name in names]
        objects = compile_objects(host_compiler(), sources, folder / "objects", include=(folder,))
        program = link_executable(host_compiler(), objects, folder / "test")
        said = [run_executable(program, arguments=(str(k),)) for k in failing]
    return [tuple(map(int, text.split())) for text in said]


@settings(max_examples=3)
@given(sram=st.sampled_from((None, 4032)))
def test_an_error_of_the_driver_ends_the_run(sram: int | None) -> None:
    """Whichever submission fails, also in a loop: no further one follows, and the run says so."""
    done = compiled(in_turns(), "ethos_u55", sram_bytes=sram)
    ((status, count, released),) = statuses(done.bundle, [0])
    assert (status, released) == (OK, count)
    assert count == len(submitted(done.program))
    assert count == 2 if sram is None else count > 10
    every = range(1, count + 1)
    assert statuses(done.bundle, every) == [(FAILED, k, k) for k in every]
