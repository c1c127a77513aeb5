"""The documentation site builds without warnings and broken links, from current figures."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

import penstock
from tools.drawings import DRAWINGS, FOLDER
from tools.site.docstrings import as_rst
from tools.site.links import problems
from tools.site.results import results_page
from tools.site.sources import navigation, with_links

ROOT = Path(__file__).parent.parent


def test_the_site_builds_without_warnings_and_broken_links(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="the extra 'docs' is not installed")
    from tools.site.__main__ import main

    site = tmp_path / "site"
    assert main(["-o", str(site)]) == 0
    api = (site / "reference" / "penstock.html").read_text("utf-8")
    assert [name for name in penstock.__all__ if f'id="penstock.{name}"' not in api] == []
    options = (site / "reference" / "commands" / "compile.html").read_text("utf-8")
    assert "--stream-input" in options
    cascades = (site / "explanation" / "cascades.html").read_text("utf-8")
    assert cascades.count("<svg") - (site / "glossary.html").read_text("utf-8").count("<svg") == 2
    assert problems(site) == []


def test_the_page_of_results_has_the_committed_figures() -> None:
    page = results_page()
    for row in json.loads((ROOT / "benchmarks" / "mlperf_tiny.json").read_text("utf-8")):
        assert f"| {row['task']} | {row['ram_bytes']:,} | {row['least_ram_bytes']:,} |" in page
    for model in json.loads((ROOT / "benchmarks" / "numbers.json").read_text("utf-8"))["models"]:
        assert f"| `{model['model']}` | {model['ram_bytes']['arena']:,} |" in page
        assert f"| `{model['model']}` | {model['cycles_simulated']:,} |" in page


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_fresh(name: str) -> None:
    written = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert written == DRAWINGS[name].svg(), "run python -m tools.drawings"


def test_every_drawing_is_in_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in DRAWINGS if f"drawings/{name}.svg)" not in pages] == []
    assert {path.stem for path in FOLDER.iterdir()} == set(DRAWINGS)


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="there.html">', "links there.html, which does not exist"),
        ('<a href="other.html#section">', "links other.html#section, which has no such anchor"),
        ('<img src="picture.svg">', "links picture.svg, which does not exist"),
        ('<script src="https://host.example/a.js">', "loads https://host.example/a.js from"),
        ('<link rel="stylesheet" href="//host.example/a.css">', "loads //host.example/a.css from"),
    ],
)
def test_broken_links_and_foreign_resources_are_found(
    tmp_path: Path, html: str, problem: str
) -> None:
    (tmp_path / "other.html").write_text('<p id="part"><a href="page.html#top">', "utf-8")
    (tmp_path / "page.html").write_text(f'<p id="top"><a href="other.html#part">{html}', "utf-8")
    (found,) = problems(tmp_path)
    assert found.startswith(f"page.html: {problem}")


def test_links_lead_to_pages_of_the_site() -> None:
    text = (
        "[a](../glossary.md#scheduling) [b](../../ARCHITECTURE.md) [c](../../docs/how-to/) "
        "[d](../../src/penstock/lazy.py) [e](#here)\n```\n[f](../glossary.md)\n```\n"
    )
    pages = {
        "docs/glossary.md": "glossary.md",
        "ARCHITECTURE.md": "project/architecture.md",
        "docs/how-to/README.md": "how-to/index.md",
    }
    assert with_links(text, PurePosixPath("docs/explanation/x.md"), pages) == (
        "[a](../glossary.md#scheduling) [b](../project/architecture.md) [c](../how-to/index.md) "
        "d [e](#here)\n```\n[f](../glossary.md)\n```\n"
    )


def test_the_navigation_has_pages_that_no_list_names() -> None:
    pages = [
        "index.md",
        "glossary.md",
        "boards.md",
        "how-to/index.md",
        "how-to/a.md",
        "how-to/b.md",
    ]
    start = "# penstock\n\n:::{toctree}\nhow-to/index\nThe terms <glossary>\n:::\n"
    assert navigation("index.md", start, pages) == (
        "\n:::{toctree}\n:hidden:\n:caption: More\n\nboards.md\n:::\n"
    )
    listed = navigation("how-to/index.md", "- [b](b.md#part)\n- [terms](../glossary.md)\n", pages)
    assert listed == "\n:::{toctree}\n:hidden:\n\nb.md\na.md\n:::\n"
    assert navigation("how-to/a.md", "[b](b.md)", pages) == ""


def test_docstrings_become_lists_code_and_text() -> None:
    text = "Sum *all* of `a`.\n\na, b: numbers,\n    added\n\n    code(1)\n\nRaises nothing: never."
    assert as_rst(text.splitlines(), {"a", "b"}) == [
        "Sum \\*all\\* of ``a``.",
        "",
        "",
        "- ``a``, ``b``: numbers,",
        "  added",
        "",
        "::",
        "",
        "    code(1)",
        "",
        "Raises nothing: never.",
        "",
    ]
