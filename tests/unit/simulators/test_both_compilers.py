"""The simulated core runs the code of both compilers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from penstock import api
from penstock.toolchains.cortex_m import GCC

MODEL = Path(__file__).parents[2] / "models" / "strided_residual.tflite"
TOLERANCE = 0.08
"""Of cycles where nearly all are spent in assembly."""


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m33", "cortex-m7"])
def test_both_compilers_give_the_same_outputs(target: str) -> None:
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    wanted = api.request(MODEL, target)
    zig, gcc = (api.run(wanted, compiler=kind) for kind in ("zig", "gcc"))
    for name, array in zig.outputs[0].items():
        np.testing.assert_array_equal(array, gcc.outputs[0][name])


def test_cycles_hardly_depend_on_the_compiler(shared_models: Path) -> None:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    wanted = api.request(shared_models / "kws_ref_model.tflite", "cortex-m4")
    zig, gcc = (api.run(wanted, compiler=kind).report.cycles.simulated for kind in ("zig", "gcc"))
    assert zig is not None
    assert zig == pytest.approx(gcc, rel=TOLERANCE)


def test_gcc_climbs_the_ladder() -> None:
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = api.verify(api.request(MODEL, "cortex-m4"), compiler="gcc")
    assert done.passed
    assert done.rungs[-1].step == "core"
