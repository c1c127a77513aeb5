"""The sources of the site: Markdown files of the repository under their paths in the site, with
links adapted, and generated pages.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from os.path import relpath
from pathlib import Path, PurePosixPath

from tools.site import command_pages, python_pages
from tools.site.results import results_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PATTERNS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md")
RENAMED: Mapping[str, str] = {
    "README.md": "index.md",
    "docs/site/index.md": "index.md",
    "docs/README.md": "questions.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/seeds/README.md": "project/seeds.md",
    "examples/notebooks/README.md": "tutorials/notebooks.md",
}
"""Paths in the site that differ from those in `docs`; the README is not a page, and links to it
lead to the start page."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
ENTRY = re.compile(r"^(?:.* <)?([\w./-]+)>?$", re.MULTILINE)
"""An entry of a table of contents: a page without suffix, with or without a title."""
FENCE = re.compile(r"(^```.*?^```\n)", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
DECISIONS = "# Design decisions\n\nWhy penstock is built the way it is, one decision per page.\n\n"


def write_sources(folder: Path) -> None:
    """Write all pages and drawings of the site into a folder."""
    pages = {page: site_path(page) for page in _pages()}
    for page, path in pages.items():
        if page == "README.md":
            continue
        text = with_links((ROOT / page).read_text("utf-8"), PurePosixPath(page), pages)
        _write(folder / path, text + navigation(path, text, pages.values()))
    decisions = DECISIONS + "\n".join(_decisions()) + "\n"
    index = "decisions/index.md"
    _write(folder / index, decisions + navigation(index, decisions, pages.values()))
    for path, text in generated_pages().items():
        _write(folder / path, text)
    shutil.copytree(DOCS / "drawings", folder / "drawings")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def generated_pages() -> dict[str, str]:
    """Return the pages that are generated from code and from figures, by path in the site."""
    return {**python_pages.pages(), **command_pages.pages(), "results.md": results_page()}


def _pages() -> Iterator[str]:
    for pattern in PATTERNS:
        for path in sorted(ROOT.glob(pattern)):
            yield path.relative_to(ROOT).as_posix()


def site_path(page: str) -> str:
    """Return the path of a page of the repository in the site.

    >>> site_path("docs/how-to/README.md"), site_path("docs/glossary.md")
    ('how-to/index.md', 'glossary.md')
    """
    if page in RENAMED:
        return RENAMED[page]
    return re.sub(r"(?<=/)README\.md$", "index.md", page.removeprefix("docs/"))


def with_links(text: str, page: PurePosixPath, pages: Mapping[str, str]) -> str:
    """Return the text of a page with links between pages as they are in the site.

    A link to a folder leads to its README.  A link to a file that is not a page, such as a source
    file, becomes its label.
    """

    def replaced(match: re.Match[str]) -> str:
        picture, label, link = match.groups()
        target, mark, anchor = link.partition("#")
        if "://" in link or not target:
            return match[0]
        path = PurePosixPath(relpath(page.parent / target, "."))
        if (ROOT / path).is_dir():
            path /= "README.md"
        if path == PurePosixPath("docs/decisions/README.md"):
            site = "decisions/index.md"
        elif path.as_posix() in pages:
            site = pages[path.as_posix()]
        elif path.is_relative_to("docs/drawings"):
            site = path.relative_to("docs").as_posix()
        else:
            return label if (ROOT / path).exists() else match[0]
        here = PurePosixPath(site_path(page.as_posix())).parent
        return f"{picture}[{label}]({relpath(site, here)}{mark}{anchor})"

    pieces = FENCE.split(text)
    return "".join(
        piece if piece.startswith("```") else LINK.sub(replaced, piece) for piece in pieces
    )


def navigation(path: str, text: str, pages: Iterable[str]) -> str:
    """Return what an index page lacks for the navigation: the pages of its folder, first those that
    it links, in order.  The start page lists its pages itself.

    path: the page in the site; others get no table of contents.
    """
    if PurePosixPath(path).name != "index.md":
        return ""
    folder = PurePosixPath(path).parent
    own = {PurePosixPath(page).name for page in pages if PurePosixPath(page).parent == folder}
    if path == "index.md":
        listed = {f"{entry[1]}.md" for entry in ENTRY.finditer(text)}
        return toctree(sorted(own - listed - {"index.md"}), "More")
    linked = (match[3].partition("#")[0] for match in LINK.finditer(text))
    names = dict.fromkeys([*(link for link in linked if link in own), *sorted(own)])
    return toctree(name for name in names if name != "index.md")


def toctree(entries: Iterable[str], caption: str = "") -> str:
    """Return a table of contents that only the navigation shows; empty without entries."""
    lines = "\n".join(entries)
    title = f":caption: {caption}\n" if caption else ""
    return f"\n:::{{toctree}}\n:hidden:\n{title}\n{lines}\n:::\n" if lines else ""


def _decisions() -> Iterator[str]:
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        title = TITLE.search(path.read_text("utf-8"))
        assert title is not None, f"{path} has no title"
        yield f"- [{title[1]}]({path.name})"
