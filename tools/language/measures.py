"""Measures: private words in the product's texts and documentation, and vague names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tools.language.texts import Text, page_texts, python_texts, template_texts, vague_names
from tools.language.words import Term, read_terms
from tools.ratchets import Measure, measure

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md")
"""Pages outside docs/."""


def measures(root: Path = REPOSITORY) -> Iterator[Measure]:
    """Every measure of a repository."""
    terms = read_terms()
    modules = sorted((root / "src").rglob("*.py"))
    pages = [*(root / page for page in PAGES), *sorted((root / "docs").rglob("*.md"))]
    pages = [path for path in pages if path.exists()]
    templates = sorted((root / "src").rglob("*.j2"))
    texts = (
        *(text for path in modules for text in python_texts(path, _name(path, root))),
        *(text for path in templates for text in template_texts(path, _name(path, root))),
    )
    prose = (
        text for path in pages if path.exists() for text in page_texts(path, _name(path, root))
    )
    vague = (place for path in modules for place in vague_names(path, _name(path, root)))
    yield measure("words_in_source", "private words in src/", private_words(texts, terms))
    yield measure("words_in_pages", "private words in pages", private_words(prose, terms))
    yield measure("vague_names", "functions and classes with a vague suffix", tuple(vague))


def private_words(texts: Iterable[Text], terms: Sequence[Term]) -> tuple[str, ...]:
    """Occurrences of private words, as "path:line word -> term instead"."""
    return tuple(
        f"{text.place(offset)} {word} -> {term.instead}"
        for text in texts
        for term in terms
        for offset, word in term.occurrences(text.text)
    )


def by_word(places: Iterable[str]) -> Counter[str]:
    """How often each word occurs, from the places of a measure."""
    return Counter(place.partition(" ")[2] for place in places)


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
