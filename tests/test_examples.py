"""Examples run as their pages say, and lack what their pages say they lack."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import beside
from examples.seeds.page import Absence

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "seeds"
SEEN = {
    "cascading_scheduler": [
        "no striping (the default)                               1,204,864        198,528    0.165",
        "lower bound if rows are computed once                     198,016        198,016    1.000",
        "least with a streamed input                                     -        129,696",
        "propagated: (1, 3, 3, 1) stripes of (1, 5, 5, 8)",
        "executed: a window of (1, 5, 5, 8) at (0, 6, 6, 0), 1 time",
        "recompute (1, 3, 3, 4): 9 and 9 stripes, 1,660 bytes, 184,464 cycles",
        "machine  235,816 elements, 0 mismatches",
    ],
    "cortex_m_convolutions": [
        "generic C, sums only                                         29.0",
        "cycles, 1x1 and general convolution                           8.0",
        "core     518,924 elements of 64 tensors, 0 mismatches",
    ],
    "ethos_u": ["cycles, compared with Arm's Vela", "298,184", "30 of 30 parts run on the NPU"],
    "irregular_networks": [
        "the paper's partition                                     526,848        125,440    0.238",
        "certificate of `best`: optimal",
        "1,320 layers",
        "best   best        CVSRAM 56k     78,771 cycles,    31,040 bytes, 0 of 3,136",
        "tiles True   bank groups True    173,111 cycles,   617,088 bytes, 0 of 12,544",
    ],
    "smaug": [
        "SMAUG's test conv/k2x2, by its rule                     6,287,360      6,287,360    1.000",
        "SMAUG's test conv/k2x2, by least traffic                6,287,360      2,785,280    0.443",
        "smaug          401,408 elements, 0 mismatches",
        "least_traffic  401,408 elements, 0 mismatches",
        "operators      165,888 elements, 0 mismatches",
        "snake          22,528 elements, 0 mismatches",
        "25 tiles of 12,800 elements with halos; untiled, it is the original: True",
        "32768 bytes each, 8 bytes/cycle, 16 lanes:    79,790 cycles,  178,240 bytes",
        "speed-up 1.00, 1.94, 3.48, 5.22",
    ],
    "uma": [
        "ultra_trail  block1/conv1",
        "block1/add: no pattern of ultra_trail matches this node",
        "host     32,992 elements, 0 mismatches",
        "1 command for a diamond of three nodes, matched with its dominator",
        "3 commands for layers whose constants match a number, array or predicate",
        "near miss, tuple: the node has 3 operands here, the pattern 2",
        'near miss, attribute: rows.size of "pool" is 3, must be 2',
        "schedule rows: 4 loads of the input",
        "schedule channels: 48 loads of the input",
        "submissions of three layers, merge_compiler_regions=True: 1",
        "submissions of three layers, merge_compiler_regions=False: 3",
        "PROGRAM_PHASE_1: set_up, 2 set-ups, 0 waits",
        "PROGRAM_PHASE_3: wait_at_the_end, 0 set-ups, 2 waits",
        "refused: pass whole changes memory or cost of the kernel of the call that computes",
        "instances that run three layers: 0, 1, 0",
        "layers of LeNet-5: 1 on vanilla, 7 on smv",
    ],
}
SMALLER: dict[str, dict[str, object]] = {
    "cascading_scheduler": {
        "NETWORK": "zoo:mobilenet_v1:alpha=0.25,resolution=32",
        "RESIDUAL": "zoo:resnet8:resolution=16",
    },
    "ethos_u": {"NETWORK": "zoo:mobilenet_v1:alpha=0.25,resolution=64,classes=10"},
    "irregular_networks": {"CELLS": 1, "TILED_CELLS": 1, "MANY_CELLS": 12},
}
"""Other networks for the examples that take most of a minute with their own."""
NEEDS = {"ethos_u": ("ethosu", "ethos-u")}
"""Module and extra that an example needs besides the simulator."""
MODULES = {name: importlib.import_module(f"examples.seeds.{name}") for name in SEEN}
ABSENCES = [
    pytest.param(name, absence, id=f"{name}-{k}")
    for name, module in MODULES.items()
    for k, absence in enumerate(module.ABSENT)
]
SEED = beside.FOLDER / "seeds" / "tvm-rfc-0060-uma.txt"


def test_there_is_an_example_for_each_of_the_five_seeds() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted([*SEEN, "page"])
    page = (FOLDER / "README.md").read_text()
    assert [name for name in SEEN if f"`{name}.py`" not in page] == []


def printed(name: str, folder: Path, *program: str) -> str:
    """What an example prints: tables, what it lacks, and no difference; it writes no file."""
    needs(name)
    done = subprocess.run(
        [sys.executable, "-W", "error", *program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r" seed +penstock +ratio\n", done.stdout)
    for absence in MODULES[name].ABSENT:
        assert f"  - {absence.sentence}\n" in done.stdout
    assert not re.search(r" [1-9][\d,]* (mismatches|of [\d,]+ elements differ)", done.stdout)
    assert list(folder.iterdir()) == []
    return done.stdout


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in SMALLER else []) for name in SEEN],
)
def test_an_example_prints_the_published_and_the_reproduced_figures(
    name: str, tmp_path: Path
) -> None:
    found = printed(name, tmp_path, "-m", f"examples.seeds.{name}")
    for words in SEEN[name]:
        assert words in found


@pytest.mark.parametrize("name", SMALLER)
def test_an_example_runs_with_other_networks(name: str, tmp_path: Path) -> None:
    changes = "; ".join(f"m.{key} = {value!r}" for key, value in SMALLER[name].items())
    printed(name, tmp_path, "-c", f"import examples.seeds.{name} as m; {changes}; m.main()")


@pytest.mark.parametrize(("name", "absence"), ABSENCES)
def test_features_that_examples_call_absent_are_absent(name: str, absence: Absence) -> None:
    """If this fails, the feature exists: remove the sentence and show the feature."""
    needs(name)
    assert absence.holds(), absence.sentence


@beside.need(SEED)
def test_the_listing_is_the_rfc_s_own() -> None:
    """The listing equals the RFC line by line, except for a comment to the linter."""
    listing = (FOLDER / "uma.py").read_text().split("# fmt: off\n")[1].split("# fmt: on\n")[0]
    lines = [line.partition("  # noqa")[0].strip() for line in listing.splitlines()]
    seed = [line.strip() for line in SEED.read_text().splitlines()]
    start = seed.index(lines[0])
    assert [line for line in seed[start : start + 30] if line][: len([*filter(None, lines)])] == [
        *filter(None, lines)
    ]


def needs(name: str) -> None:
    """Skips if an extra that an example needs is not installed."""
    for module, extra in (("unicorn", "simulate"), NEEDS.get(name, ("unicorn", "simulate"))):
        pytest.importorskip(module, reason=f"the extra {extra!r} is not installed")
