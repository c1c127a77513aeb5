"""Terms: private words, the phrases that allow them, and the standard terms instead of them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

WORDS = Path(__file__).with_name("words.toml")


@dataclass(frozen=True)
class Term:
    """Words that are not used, and the term instead.  `allowed`: regular expressions of phrases in
    which the words have their ordinary meaning."""

    instead: str
    words: tuple[str, ...]
    allowed: tuple[str, ...] = ()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Matches an allowed phrase or, as group 1, a banned word."""
        words = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in self.words)
        phrases = "".join(rf"\b(?:{phrase})|" for phrase in self.allowed)
        return re.compile(rf"{phrases}(?<![\w-])(?P<word>{words})(?![\w-])", re.IGNORECASE)

    def occurrences(self, text: str) -> Iterator[tuple[int, str]]:
        """(offset, word in lower case) of every banned word in a text."""
        for match in self._pattern.finditer(text):
            if match["word"]:
                yield match.start("word"), " ".join(match["word"].lower().split())


def read_terms(path: Path = WORDS) -> Sequence[Term]:
    """The terms of a TOML file."""
    return tuple(
        Term(entry["instead"], tuple(entry["words"]), tuple(entry.get("allowed", ())))
        for entry in tomllib.loads(path.read_text("utf-8"))["term"]
    )
