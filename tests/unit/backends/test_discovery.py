"""Accelerators are discovered in installed packages; a broken package does not affect others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from installed import install
from penstock.backends import discovery
from penstock.backends.discovery import PUBLISHED, listed, missing, names, open_accelerators
from penstock.backends.uma import backend as uma
from penstock.errors import BackendError, PenstockError, UsageError
from penstock.hardware.load import load_target

HOST = load_target("host")
BACKEND = """
from penstock.uma import UMABackend

class Backend(UMABackend):
    def __init__(self):
        super().__init__()
        self._register_target_attr("lanes", default=8)

    @property
    def target_name(self):
        return "{name}"
"""


def bring(folder: Path, name: str, source: str, value: str = "", package: str = "") -> None:
    """Installs a package with one module, called as the accelerator."""
    module = f"module_of_{package or name}"
    install(folder, package or f"pkg-{name}", "1.0", name, value or f"{module}:Backend",
            **{module: source.format(name=name)})  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, where nothing is registered in this process."""
    monkeypatch.setattr(uma, "REGISTERED", {})
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_installed_package_brings_an_accelerator(folder: Path) -> None:
    bring(folder, "good_a", BACKEND)
    (found,) = open_accelerators(("good_a:lanes=4",), HOST)
    assert (found.name, found.target.attrs, found.target.chip) == ("good_a", {"lanes": 4}, HOST)
    (row,) = (one for one in listed() if one.name == "good_a")
    assert (row.origin, row.attributes, row.problem) == ("package pkg-good_a 1.0", {"lanes": 8}, "")


@pytest.mark.parametrize(
    ("source", "value", "why"),
    [
        ("import no_such_module", "", "cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(0)", "", "cannot be imported: SystemExit"),
        ("class Backend: pass", "", "which is not a UMABackend"),
        (BACKEND, "module_of_bad:Lost", "cannot be imported: AttributeError"),
        (BACKEND.replace("{name}", "another"), "", 'its target_name is "another"'),
        (BACKEND.replace("self._register", "self.register"), "", "raises AttributeError"),
        ("from penstock.uma import UMABackend as Backend", "", "raises TypeError"),
    ],
)
def test_a_broken_package_is_named_when_it_is_requested(
    folder: Path, source: str, value: str, why: str
) -> None:
    module = f"module_of_{folder.name}"
    value = value.replace("module_of_bad", module) or f"{module}:Backend"
    install(folder, "pkg-bad", "2.0", "bad", value, **{module: source.format(name="bad")})
    bring(folder, "good_b", BACKEND)
    assert open_accelerators(("good_b",), HOST)[0].name == "good_b"
    with pytest.raises(BackendError) as caught:
        open_accelerators(("bad",), HOST)
    assert "package pkg-bad 2.0" in caught.value.where
    assert why in caught.value.why
    assert caught.value.help
    problems = {one.name: one.problem for one in listed()}
    assert problems["good_b"] == ""
    assert why in problems["bad"]


def test_an_error_in_a_package_names_the_package(folder: Path) -> None:
    bring(folder, "wrong", BACKEND.replace("default=8", "default=[8]"))
    with pytest.raises(BackendError) as caught:
        open_accelerators(("wrong",), HOST)
    assert caught.value.code == "backend-030"
    assert caught.value.where.startswith("package pkg-wrong 1.0, ")


def test_two_packages_of_one_name_clash(folder: Path) -> None:
    bring(folder, "twin", BACKEND, package="one")
    bring(folder, "twin", BACKEND, package="two")
    with pytest.raises(BackendError) as caught:
        open_accelerators(("twin",), HOST)
    assert caught.value.code == "backend-048"
    assert "package one 1.0" in caught.value.why
    assert "package two 1.0" in caught.value.why
    assert names().count("twin") == 1


def test_registrations_in_this_process_precede_packages(folder: Path) -> None:
    class Mine(uma.UMABackend):
        target_name = "shared"  # type: ignore[assignment]

    bring(folder, "shared", BACKEND)
    Mine().register()
    assert open_accelerators(("shared",), HOST)[0].target.attrs == {}


def test_only_requested_accelerators_are_imported(folder: Path) -> None:
    bring(folder, "loud", "raise SystemExit('imported')")
    program = "import penstock; penstock.compile('zoo:lenet5').report; print('done')"
    path = [str(folder), str(Path(uma.__file__).parents[3])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "done\n"


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (("lost",), "usage-014"),
        (("",), "usage-014"),
        (("good_c:lanes",), "usage-023"),
        (("good_c:lanes=1,lanes=2",), "usage-023"),
        (("good_c:lane=1",), "usage-023"),
        (("good_c:lanes=many",), "usage-019"),
        (("good_c", "good_c:lanes=4"), "usage-023"),
    ],
)
def test_malformed_specifications_are_errors(
    folder: Path, texts: tuple[str, ...], code: str
) -> None:
    bring(folder, "good_c", BACKEND)
    with pytest.raises(UsageError) as caught:
        open_accelerators(texts, HOST)
    assert caught.value.code == code
    assert texts[-1] in caught.value.where


@pytest.mark.parametrize("value", ["99999999999999999999", "-1e300", "9" * 400, str(2**40)])
def test_numbers_that_no_device_has_are_refused(value: str) -> None:
    numeric = [
        f"{each.name}:{name}={value}"
        for each in listed()
        for name, default in each.attributes.items()
        if type(default) in (int, float)
    ]
    assert any(text.startswith("smv:output_bytes") for text in numeric)
    for text in numeric:
        with pytest.raises(UsageError) as caught:
            open_accelerators((text,), HOST)
        assert caught.value.code == "usage-019"


def test_the_nearest_name_is_offered(folder: Path) -> None:
    bring(folder, "good_d", BACKEND)
    with pytest.raises(PenstockError) as caught:
        open_accelerators(("god_d",), HOST)
    assert "did you mean good_d?" in caught.value.help
    with pytest.raises(PenstockError) as caught:
        open_accelerators(("good_d:lane=3",), HOST)
    assert "did you mean lanes?" in caught.value.help


def test_what_is_published_is_named_where_it_is_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", lambda group: ())
    assert missing() == tuple(sorted(PUBLISHED))
    assert names() == ()
    for name, extra in PUBLISHED.items():
        with pytest.raises(UsageError) as caught:
            open_accelerators((f"{name}:lanes=4",), HOST)
        assert caught.value.code == "usage-166"
        assert f"the package penstock-{extra} " in caught.value.why
        assert f"penstock[{extra}]" in caught.value.help
    with pytest.raises(UsageError) as caught:
        open_accelerators(("nvdia",), HOST)
    assert "did you mean nvdla?" in caught.value.help


def test_what_is_installed_is_not_missing() -> None:
    assert set(missing()) == PUBLISHED.keys() - set(names())
