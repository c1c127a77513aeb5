"""penstock profile: the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import CommandLine


def test_profile_writes_a_page_and_the_picture(penstock: CommandLine, model: Path) -> None:
    said = penstock("profile", model, "-t", "host", "--accelerator", "nvdla", "-o", "out", "--json")
    assert (said.code, said.err) == (0, "")
    folder = Path("out")
    assert sorted(p.name for p in folder.iterdir()) == [
        "profile.html", "profile.json", "resources.svg",
    ]  # fmt: skip
    assert json.loads((folder / "profile.json").read_text()) == said.json
    assert "What limits accelerators" in (folder / "profile.html").read_text()
    again = penstock("profile", model, "-t", "host", "--accelerator", "nvdla", "-o", "out")
    assert again.err.startswith("error[output-001]")
    plain = penstock("profile", model, "-t", "host", "-o", "plain")
    assert plain.out.endswith("written to plain/\n")
    assert sorted(p.name for p in Path("plain").iterdir()) == ["profile.html", "profile.json"]
