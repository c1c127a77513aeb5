"""Checks built pages: linked files and anchors exist, and nothing is loaded from other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""Attributes whose address a browser loads by itself; the one of `link` depends on its `rel`."""
NOT_LOADED = {"author", "canonical", "index", "next", "prev", "search"}
"""Relations of a `link` that a browser does not load."""


@dataclass(slots=True)
class _Page(HTMLParser):
    """The anchors of a page, the addresses that it links, and those that it loads."""

    anchors: set[str] = field(default_factory=set)
    linked: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        for name, value in given.items():
            style = (tag, name) == ("link", "href") and given.get("rel") not in NOT_LOADED
            if style or (tag, name) in LOADED:
                self.loaded.append(value)
            elif name == "href":
                self.linked.append(value)


def problems(folder: Path) -> list[str]:
    """Return a message for each broken link of the pages in a folder."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder.resolve())}: {problem}"
        for path, page in pages.items()
        for problem in _problems(path, page, pages)
    ]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _problems(path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for address in page.loaded:
        if urlsplit(address).netloc:
            yield f"loads {address} from another host"
    for address in {*page.linked, *page.loaded}:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"links {address}, which does not exist"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {""}:
            yield f"links {address}, which has no such anchor"
