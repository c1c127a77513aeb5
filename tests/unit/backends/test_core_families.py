"""Core families: discovered in their folder, named nowhere else, resolved from target files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock.backends import cores
from penstock.backends.cores.family import (
    CoreFamily,
    core_families,
    core_family,
    load_checked_target,
)
from penstock.errors import TargetError
from penstock.hardware.load import load_target, target_names, target_text
from penstock.simulators import cortex_m55
from penstock.simulators.cortex_m_timing import CORES

FOLDER = Path(cores.__path__[0])
SOURCE = FOLDER.parents[1]
MODEL = Path(__file__).parents[2] / "models" / "two_heads.tflite"
FAMILIES = core_families()
SIMULATED = {*(core.name for core in CORES), cortex_m55.NAME}


def test_each_folder_with_a_family_file_is_one_family() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/family.py")}
    assert set(FAMILIES) == folders >= {"dsp", "mve", "portable", "thumb"}


def named(path: Path) -> Iterator[str]:
    """Core families that a module names: in a string that is the name, or in an import."""
    prefix = f"{cores.__name__}."
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and node.value in FAMILIES:
            yield str(node.value)
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            if module.startswith(prefix) and module.split(".")[3] in FAMILIES:
                yield module.split(".")[3]


def test_nothing_outside_its_folder_names_a_family() -> None:
    """MVE is the exception that architecture makes: its cores have the DSP extension, too."""
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in named(path)
        if FOLDER / name not in path.parents
    }
    assert {(Path(path).parent.name, name) for path, name in found} == {("mve", "dsp")}


def test_a_family_that_is_named_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(f'from {cores.__name__}.thumb import kernels\nx = "dsp" if y else "a dsp"\n')
    assert sorted(named(path)) == ["dsp", "thumb"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_a_family_names_only_cores_that_can_be_simulated(family: CoreFamily) -> None:
    assert set(family.cores) <= SIMULATED


def test_every_simulated_core_runs_some_family() -> None:
    assert {core for family in FAMILIES.values() for core in family.cores} == SIMULATED


@pytest.mark.parametrize("name", target_names())
def test_the_references_of_shipped_targets_resolve(name: str) -> None:
    assert load_checked_target(name) == load_target(name)


def message(old: str, new: str, folder: Path, penstock: CommandLine) -> str:
    """What compiling for a changed cortex-m4 prints."""
    text = target_text("cortex-m4")
    assert old in text
    (folder / "mine.toml").write_text(text.replace(old, new, 1), "utf-8")
    said = penstock("compile", MODEL, "--target", "mine.toml")
    assert (said.code, said.out) == (1, "")
    return said.err


def test_unknown_kernels_are_refused(tmp_path: Path, penstock: CommandLine) -> None:
    said = message('kernels = "dsp"', 'kernels = "riscv"', tmp_path, penstock)
    assert said.splitlines() == [
        'error[target-003]: kernels is "riscv", must be one of dsp, mve, portable, thumb',
        '  --> mine.toml, [[engines]] "cpu"',
        "  help: `penstock targets --show cortex-m4` prints a valid target file",
    ]


def test_misspelled_kernels_are_corrected(tmp_path: Path, penstock: CommandLine) -> None:
    said = message('kernels = "dsp"', 'kernels = "dps"', tmp_path, penstock)
    assert 'did you mean "dsp"?' in said


def test_an_unknown_core_is_refused(tmp_path: Path, penstock: CommandLine) -> None:
    said = message('core = "cortex-m4"', 'core = "cortex-m44"', tmp_path, penstock)
    listed = "cortex-m4, cortex-m7, cortex-m33, cortex-m55"
    assert said.startswith(f'error[target-003]: core is "cortex-m44", must be one of {listed}\n')
    assert 'did you mean "cortex-m4"?' in said


def test_a_core_that_does_not_execute_the_kernels_is_refused(
    tmp_path: Path, penstock: CommandLine
) -> None:
    said = message('core = "cortex-m4"', 'core = "cortex-m0plus"', tmp_path, penstock)
    assert 'why: kernels = "dsp" needs Armv7E-M, or Armv8-M with the DSP extension' in said
    assert 'help: take kernels = "portable" for this core' in said


def test_a_family_that_does_not_exist_is_no_internal_error() -> None:
    with pytest.raises(TargetError, match='kernels is "riscv"'):
        core_family("riscv")


TOY_FAMILY = """
from penstock.backends.cores.family import CoreFamily

FAMILY = CoreFamily(name="toy", instruction_set="a toy", cores=("cortex-m4",))
"""


@pytest.fixture
def toy_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of a family beside those of penstock."""
    folder = tmp_path / "cores" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "family.py").write_text(TOY_FAMILY)
    monkeypatch.setattr(cores, "__path__", [*cores.__path__, str(folder.parent)])
    core_families.cache_clear()
    yield
    core_families.cache_clear()
    for module in [name for name in sys.modules if name.startswith(f"{cores.__name__}.toy")]:
        del sys.modules[module]


@pytest.mark.usefixtures("toy_family")
def test_a_family_is_added_by_one_folder(tmp_path: Path, penstock: CommandLine) -> None:
    text = target_text("cortex-m4").replace('kernels = "dsp"', 'kernels = "toy"')
    (tmp_path / "toy.toml").write_text(text, "utf-8")
    assert penstock("compile", MODEL, "--target", "toy.toml", "-o", "out").code == 0
    said = message('kernels = "dsp"', 'kernels = "tyo"', tmp_path, penstock)
    assert "must be one of dsp, mve, portable, thumb, toy" in said
    assert 'did you mean "toy"?' in said
