"""ethos_u: delivered C and streams run on every rung with the functional driver, which catches
what the hardware or Arm's driver would not accept."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from ethos_u_layers import DMA_WAIT
from lowered import inputs_of_graph
from offloading import assert_exact, compiled
from penstock import api
from penstock.codegen.bundle import Bundle
from penstock.errors import ToolError
from penstock.execution import run_on_host, unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Data, Quantisation
from penstock.ops.row_vectors import LogSoftmax
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point, write
from penstock.program.program import Program
from penstock.program.steps import calls
from penstock.simulators.graph import run_graph
from penstock_ethos_u.functional import FAIL
from test_ethos_u_faults import NETWORKS, apart, striped, with_ring

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

OFM_REGION = 0x11F
PMU_MASK = 0x13
"""A command without effect."""


def network() -> Graph:
    net = GraphBuilder("net", seed=3)
    x = net.max_pool2d(net.conv2d(net.input((1, 9, 7, 3)), 20, 3, name="a"), 2, name="b")
    x = net.fully_connected(x, 10, name="c")
    scale = Quantisation((16 / 256,), (127,))
    x = net.apply(LogSoftmax(), x, quantisation=scale, name="d")  # on the processor
    return net.build(net.fully_connected(x, 6, name="e"))


@pytest.fixture(scope="module")
def done() -> Compilation:
    return compiled(network(), "ethos_u55")


def with_text(done: Compilation, change: Callable[[str], str]) -> Compilation:
    """A compilation whose C file is changed; nothing else is."""
    old = done.bundle["net.c"].decode()
    new = change(old)
    assert new != old
    files = tuple((n, new.encode() if n == "net.c" else c) for n, c in done.bundle.files)
    return replace(done, bundle=Bundle(files))


def with_program(done: Compilation, program: Program) -> Compilation:
    return replace(done, program=program, bundle=write(program, done.request))


def refusal(done: Compilation) -> str:
    """Why the run on the host fails."""
    with pytest.raises(ToolError) as caught:
        run_on_host(done, [inputs_of_graph(done.model, 3)])
    assert "net_run returned 5" in caught.value.why
    return caught.value.why


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=64,cache_line=16", "ethos_u65_256"])
def test_delivered_code_is_exact_on_every_rung(target: str, accelerator: str) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    if target == "cortex-m55" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    assert_exact(compiled(network(), accelerator, target=target), "core")


@pytest.mark.parametrize("model", ["kws_ref_model", "ad01_int8", "pretrainedResnet_quant"])
def test_networks_run_exactly_on_every_rung(model: str) -> None:
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    found = api.verify(path_of(model), "cortex-m55", accelerators=("ethos_u55",)).rungs
    assert {rung.step: rung.mismatches for rung in found} == {"machine": 0, "host": 0, "core": 0}


def test_swapped_regions_are_caught(done: Compilation) -> None:
    """The constants in the place of the arena and the other way round, with their sizes."""
    changed = with_text(done, lambda text: re.sub(r"\]\)\{(.*), (.*)\}", r"]){\2, \1}", text))
    assert "error[ethosu-" in refusal(changed)


def test_a_write_to_the_region_of_constants_is_caught() -> None:
    """A pool whose stream writes to region 0, which has the addresses of the arena, too."""
    net = GraphBuilder("net")
    done = compiled(net.build(net.max_pool2d(net.input((1, 8, 8, 4)), 2)), "ethos_u55")
    (buffer,) = (b for b in done.program.buffers if b.is_stream)
    assert buffer.data is not None
    words = np.frombuffer(buffer.data.raw, "<u4").copy()
    words[words == (OFM_REGION | 1 << 16)] = OFM_REGION
    changed = replace(buffer, data=Data(words.tobytes()))
    buffers = tuple(changed if b is buffer else b for b in done.program.buffers)
    faulty = with_program(done, replace(done.program, buffers=buffers))
    doubled = with_text(faulty, lambda text: re.sub(r"\]\)\{(.*), (.*)\}", r"]){\2, \2}", text))
    assert "written in region 0, which may only be read" in refusal(doubled)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (lambda n: n - 32, "accesses bytes"),
        (lambda n: n + 4, "its size is no multiple of a cache line"),
        (lambda n: 2**32 - 32, "its size is not that of memory"),
    ],
)
def test_wrong_sizes_are_caught(done: Compilation, size: Callable[[int], int], said: str) -> None:
    """The arena of a point with a full arena: less, odd, and the largest size."""
    arena = done.point.height_bytes
    changed = with_text(done, lambda text: text.replace(f", {arena}}}", f", {size(arena)}u}}"))
    assert said in refusal(changed)


def test_a_misaligned_region_is_caught(done: Compilation) -> None:
    changed = with_text(done, lambda text: text.replace("(void *)(arena)", "(void *)(arena + 16)"))
    assert "region 1 (-1: the stream): it does not begin at a cache line" in refusal(changed)


def test_a_failing_submission_is_caught(done: Compilation, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        monkeypatch.setenv(FAIL, str(number))
        assert f"error[ethosu-117]: submission {number} fails" in refusal(done)


def test_a_removed_wait_is_caught() -> None:
    """A wait for copies becomes a command without effect."""
    done = compiled(NETWORKS["copied weights"], "ethos_u55:macs=64")
    refused = 0
    for buffer in (b for b in done.program.buffers if b.is_stream and b.data is not None):
        assert buffer.data is not None
        words = np.frombuffer(buffer.data.raw, "<u4").copy()
        waits = np.flatnonzero(words == DMA_WAIT)
        if waits.size and not refused:
            words[waits] = PMU_MASK
            changed = replace(buffer, data=Data(words.tobytes()))
            buffers = tuple(changed if b is buffer else b for b in done.program.buffers)
            faulty = with_program(done, replace(done.program, buffers=buffers))
            with pytest.raises(ToolError, match="ethosu-110"):
                run_on_host(faulty, [inputs_of_graph(done.model, 3)])
            refused += 1
    assert refused


def test_a_ring_one_row_too_small_is_caught() -> None:
    """The outputs of the delivered C differ from the reference."""
    done = compiled(NETWORKS["convolutions"], "ethos_u55:macs=128")
    inputs = inputs_of_graph(done.graph, 3)
    expected = run_graph(done.graph, inputs)
    point = next(p for p in done.points if any(striped(lower_point(p, apart(done)))))
    program = lower_point(point, apart(done))
    tensor, rows = next(iter(striped(program)))
    verdicts = []
    for count in (rows, rows - 1):
        changed = with_ring(done, point, tensor, count)
        assert len(calls(changed)) == len(calls(program))
        memories = tuple(
            replace(m, size_bytes=-(-m.size_bytes // 32) * 32) for m in changed.memories
        )
        faulty = with_program(replace(done, point=point), replace(changed, memories=memories))
        (found,) = run_on_host(faulty, [inputs]).tensors
        outputs = [view.tensor for view in program.outputs]
        verdicts.append(all(np.array_equal(found[name], expected[name]) for name in outputs))
    assert verdicts == [True, False]


HEADER = """
#include <stddef.h>
#include <stdint.h>
#include "ethosu_types.h"
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
"""
"""What is used of the header of Arm's driver, which includes another one."""


def cmake(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ("cmake", *words)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_one_variable_selects_arms_driver_and_missing_headers_are_named(
    done: Compilation, tmp_path: Path
) -> None:
    driver = tmp_path / "driver"
    (driver / "include").mkdir(parents=True)
    with unpacked(done.bundle) as folder:
        assert cmake(folder, "-B", "own").returncode == 0
        assert cmake(folder, "--build", "own").returncode == 0
        words = ("-B", "arms", f"-DNET_ETHOS_U_DRIVER={driver}")
        for missing in ("ethosu_driver.h", "ethosu_types.h"):
            found = cmake(folder, *words)
            assert found.returncode != 0
            assert f"{missing} is missing; NET_ETHOS_U_DRIVER must be" in found.stderr
            text = HEADER if missing == "ethosu_driver.h" else "struct ethosu_driver;\n"
            (driver / "include" / missing).write_text(text)
        assert cmake(folder, *words).returncode == 0
        assert cmake(folder, "--build", "arms", "--target", "net").returncode == 0
        names = subprocess.run(
            ("nm", folder / "arms/libnet.a"), capture_output=True, text=True, check=True
        ).stdout
    assert "U ethosu_invoke_v3" in names
    assert "T ethosu_invoke_v3" not in names
