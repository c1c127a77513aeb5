"""Documents tell the truth about the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.make_docs import PAGES

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_fresh(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == PAGES[name](), (
        "run python -m tools.make_docs"
    )


def test_files_that_the_readme_names_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    named = [*re.findall(r"\]\(([^)#]+)\)", readme), "scripts/demo", "scripts/test"]
    assert [name for name in named if not (ROOT / name).exists()] == []
