"""Texts: what people read: pages, templates, and comments and strings of Python modules."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

VAGUE = re.compile(r"_(of|value|ways|made)$")
"""Suffixes of names that do not say what a function returns."""
_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_DOCTEST = re.compile(r"^[ \t]*>>>.*(?:\n[ \t]*\S.*)*", re.MULTILINE)
"""An example with its output, up to the next empty line."""
_REPLACEMENT_FIELD = re.compile(r"\{[^{}]*\}")
_TEMPLATE_TAG = re.compile(r"\{[%{#].*?[%}#]\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text and the place of its first line."""

    path: str
    line: int
    text: str

    def place(self, offset: int) -> str:
        """The place of a character, as "path:line"."""
        return f"{self.path}:{self.line + self.text.count(chr(10), 0, offset)}"


def python_texts(path: Path, name: str) -> Iterator[Text]:
    """Every comment, docstring and string literal of a module.

    Adjacent comment lines are one text.  Code is omitted: doctests, replacement fields of
    f-strings, and literals of a single word, such as keys and option values."""
    comments: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if comments and (token.type == tokenize.STRING or _starts_anew(comments, token)):
            yield _comment(comments, name)
            comments = []
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type == tokenize.STRING and (text := _prose(token.string)):
            yield Text(name, token.start[0], text)
    if comments:
        yield _comment(comments, name)


def page_texts(path: Path, name: str) -> Iterator[Text]:
    """A page of documentation, without its code blocks."""
    yield Text(name, 1, _CODE_BLOCK.sub(_blank, path.read_text("utf-8")))


def template_texts(path: Path, name: str) -> Iterator[Text]:
    """A Jinja template, without its tags."""
    yield Text(name, 1, _TEMPLATE_TAG.sub(_blank, path.read_text("utf-8")))


def vague_names(path: Path, name: str) -> Iterator[str]:
    """Functions and classes with a vague suffix, as "path:line name"."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and VAGUE.search(node.name):
            yield f"{name}:{node.lineno} {node.name}"


def _prose(literal: str) -> str:
    """A string literal without code; empty if the literal is a single word."""
    text = _DOCTEST.sub(_blank, literal)
    if "f" in literal[: literal.index(literal[-1])].lower():
        text = _REPLACEMENT_FIELD.sub(_blank, text)
    return text if len(text.split()) > 1 else ""


def _blank(match: re.Match[str]) -> str:
    """The line breaks of a match, which keep line numbers right."""
    return "\n" * match[0].count("\n")


def _starts_anew(comments: Sequence[tokenize.TokenInfo], token: tokenize.TokenInfo) -> bool:
    """Whether a token is a comment that does not continue the comment lines before it."""
    return token.type == tokenize.COMMENT and token.start[0] > comments[-1].start[0] + 1


def _comment(tokens: Sequence[tokenize.TokenInfo], name: str) -> Text:
    return Text(name, tokens[0].start[0], "\n".join(t.string.lstrip("#") for t in tokens))
