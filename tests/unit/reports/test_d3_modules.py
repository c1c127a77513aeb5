"""The modules of D3 are those that `versions.txt` records, unmodified, and all of them are used."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from penstock.reports.html import D3_MODULES

FOLDER = files("penstock.reports.page") / "assets" / "d3"
LINES = [line.split() for line in (FOLDER / "versions.txt").read_text("utf-8").splitlines()]


def test_each_module_is_the_recorded_version() -> None:
    for name, version, digest in LINES:
        code = (FOLDER / f"{name}.min.js").read_bytes()
        assert hashlib.sha256(code).hexdigest() == digest
        assert code.startswith(f"// https://d3js.org/{name}/ v{version} Copyright".encode())


def test_each_recorded_module_is_in_the_pages() -> None:
    assert {name for name, _, _ in LINES} == {f"d3-{name}" for name in D3_MODULES}
    stored = {path.name for path in FOLDER.iterdir() if path.name.endswith(".js")}
    assert stored == {f"{name}.min.js" for name, _, _ in LINES}
