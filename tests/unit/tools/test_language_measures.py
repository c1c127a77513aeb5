"""`tools.language` finds private words where people read them, and vague names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.language.measures import by_word, measures, private_words
from tools.language.texts import Text, page_texts, python_texts, template_texts, vague_names
from tools.language.words import Term, read_terms

TERMS = (
    Term("after", ("behind",)),
    Term("n", ("so many",)),
    Term("CPU fallback", ("left",), ("left (of|operand)",)),
)


def words(*texts: Text) -> list[tuple[str, str]]:
    """(place, word) of every private word."""
    found = (line.partition(" -> ")[0].partition(" ") for line in private_words(texts, TERMS))
    return [(place, word) for place, _, word in found]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Behind the last call", 1),
        ("left_behind, behind_it, far-behind", 0),
        ("In so\n    many bytes", 1),
        ("is left, the left operand, left of it", 1),
    ],
)
def test_whole_words_are_counted_unless_a_phrase_allows_them(text: str, count: int) -> None:
    assert len(words(Text("f", 1, text))) == count


def test_comments_docstrings_and_strings_are_read_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""Words.\n\n    >>> behind\n    behind\n\nBehind."""\nbehind = left\n# so\n# many\n'
        'x = "is left behind"\n\n# so\n\n# many\n'
    )
    assert words(*python_texts(path, "a.py")) == [
        ("a.py:6", "behind"),
        ("a.py:8", "so many"),
        ("a.py:10", "behind"),
        ("a.py:10", "left"),
    ]


def test_code_in_strings_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('a = "left"\nb = f"{left} is {len(left)} {left!r:>4}"\nc = "{left} behind"\n')
    assert words(*python_texts(path, "a.py")) == [("a.py:3", "behind"), ("a.py:3", "left")]


def test_pages_are_read_without_code_and_templates_without_tags(tmp_path: Path) -> None:
    page, template = tmp_path / "a.md", tmp_path / "a.j2"
    page.write_text("One\n```\nbehind\n```\nbehind\n")
    template.write_text("{% if left %}\n{{ behind }} behind\n{% endif %}")
    assert words(*page_texts(page, "a.md")) == [("a.md:5", "behind")]
    assert words(*template_texts(template, "a.j2")) == [("a.j2:2", "behind")]


def test_vague_suffixes_of_functions_and_classes_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def peak_of(): ...\nclass Cut_ways: ...\ndef of(): ...\nx_value = 1\n")
    assert list(vague_names(path, "a.py")) == ["a.py:1 peak_of", "a.py:2 Cut_ways"]


def test_a_repository_is_measured(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "src" / "a.py").write_text("# bricks and noun\ndef bytes_of(): ...\n")
    (tmp_path / "docs" / "a.md").write_text("An unbeaten schedule.\n")
    found = {m.name: m for m in measures(tmp_path)}
    assert {name: m.count for name, m in found.items()} == {
        "words_in_source": 2,
        "words_in_pages": 1,
        "vague_names": 1,
    }
    assert by_word(found["words_in_pages"].places) == {
        "unbeaten -> Pareto-optimal, non-dominated": 1
    }


def test_every_term_says_what_to_write_and_matches_its_words() -> None:
    for term in read_terms():
        assert term.instead
        for word in term.words:
            assert [w for _, w in term.occurrences(f"x {word} y")] == [word]
