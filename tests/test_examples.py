"""Examples run as their pages say, and say what is not there yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SEEDS = sorted((ROOT / "examples" / "seeds").glob("*.py"))
SEEN = {
    "cascading_scheduler": [
        "whole layers, the fastest         1,204,224 bytes   +0.0000% cycles, 1.00 x",
        "of at most 300,000 bytes",
        "of at most 250,000 bytes",
        "of at most 198,016 bytes            198,016 bytes",
        "input streamed, at least            129,696 bytes",
        "exact (1, 5, 5, 8)",
    ],
    "cortex_m_convolutions": ["7,489,664 products", "core     518,924 elements of 64 tensors: 0"],
    "ethos_u": [
        "around 300kB",
        "298,184 bytes   2.1 times the cycles",
        "451,584 bytes",
        "compiled with --sram 300000",
        "29 of 30 parts run on the NPU",
    ],
    "irregular_networks": ["1320 layers", "proven                       optimal"],
    "smaug": ["15,470,264,320 products", "21 of 22 layers"],
    "uma": ["error[capacity-001]", "cpu: fully_connected_s8"],
}
NEEDS = {"ethos_u": ("ethosu", "ethos-u")}
"""Besides what all need: a module, and the extra that has it."""


def test_there_is_an_example_for_each_of_the_five_seeds() -> None:
    assert [path.stem for path in SEEDS] == sorted(SEEN)
    page = (ROOT / "examples" / "seeds" / "README.md").read_text()
    assert [path.name for path in SEEDS if f"`{path.name}`" not in page] == []


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_example_prints_the_seed_s_figures_and_ours(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    module, extra = NEEDS.get(path.stem, ("unicorn", "simulate"))
    pytest.importorskip(module, reason=f"the extra {extra!r} is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in (*SEEN[path.stem], "penstock today", "\nNot there yet: "):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60
