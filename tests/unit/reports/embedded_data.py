"""Reads the data back that a page contains, and fails unless the page is as it should be."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
VOID = {"meta"}
EXPECTED = {"html", "head", "meta", "title", "style", "body", "noscript", "p", "div", "script"}


def plain(data: object) -> Any:
    """Data of a page as a reader of its JSON has it."""
    return json.loads(json.dumps(data))


class Page(HTMLParser):
    """The elements of a page, and its data; fails where an element is not closed in its turn."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self._scripts: list[str] = []
        self._open: list[str] = []
        self.feed(html.decode())
        self.close()
        assert self._open == []
        assert {tag for tag, _ in self.elements} == EXPECTED
        assert [tag for tag, _ in self.elements].count("script") == 2

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert not LOADING & {name for name, _ in attrs}
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self._scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self._scripts[-1] += data
        if self._open and self._open[-1] == "title":
            self.title += data

    @property
    def data(self) -> Any:
        """The embedded data."""
        return json.loads(self._scripts[0])

    @property
    def script(self) -> str:
        """The script that draws the data."""
        return self._scripts[1]

    @property
    def words(self) -> str:
        """Every text in the data, in order."""
        return " ".join(re.split(r"\s+", " ".join(_texts(self.data))))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [str(value)]
