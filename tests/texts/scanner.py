"""Scanner: the tokens of a text form, and the errors that name a line and a column of it.

    name      conv1/weights     a letter or "_", then letters, digits and "_"; "." and "/" between
    string    "any name\n"      as in JSON
    handle    %12               stands for a long name, which the text gives once
    number    -3  0.5  1e-07    a whole number without point and exponent is an int
    digest    @c5029a71db5295a1 stands for constant bytes
    symbol    ( ) [ ] { } : , = + - * // % & .. ->
    newline                     ends a statement; ignored inside ( ) and [ ]

"#" begins a comment, which ends with the line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum

from penstock.errors import ModelError

MAX_NESTING = 64  # Limit on nested brackets: readers are recursive.

_BLANK = re.compile(r"(?:[ \t\r]|#[^\n]*)*")
_PATTERN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[./][A-Za-z0-9_]+)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<handle>%[0-9]+)
  | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)
  | (?P<digest>@[0-9a-f]{16})
  | (?P<symbol>//|\.\.|->|[()\[\]{}:,=+*%&-])
    """,
    re.VERBOSE,
)
_OPENING, _CLOSING = {"(", "["}, {")", "]"}


class TokenKind(Enum):
    """TokenKind of a token; the value is how error messages call it."""

    NAME = "name"
    STRING = "string"
    HANDLE = "handle"
    NUMBER = "number"
    DIGEST = "digest"
    SYMBOL = "symbol"
    NEWLINE = "newline"
    END = "end of the text"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place; `line` and `column` count from 1."""

    kind: TokenKind
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return (
            self.kind.value
            if self.kind in (TokenKind.NEWLINE, TokenKind.END)
            else f"{self.text!r:.60}"
        )


class Scanner:
    """The tokens of a text, read one after the other with one token of lookahead.

    >>> scanner = Scanner("conv1: int8 # a comment")
    >>> scanner.name(), scanner.accept(":"), scanner.peek().text
    ('conv1', True, 'int8')
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._line_start = 1, 0
        self._brackets = 0
        self._braces = 0
        self._next = self._scan()

    def peek(self) -> Token:
        """The next token, which stays."""
        return self._next

    def take(self) -> Token:
        """The next token."""
        token = self._next
        if token.kind is TokenKind.SYMBOL:
            self._brackets += (token.text in _OPENING) - (token.text in _CLOSING)
            self._braces += (token.text == "{") - (token.text == "}")
            if self._brackets + self._braces > MAX_NESTING:
                raise self.error(f"brackets are nested more than {MAX_NESTING} deep", at=token)
        self._next = self._scan()
        return token

    def is_symbol(self, *symbols: str) -> bool:
        """Whether the next token is one of these symbols."""
        return self._next.kind is TokenKind.SYMBOL and self._next.text in symbols

    def is_word(self, *words: str) -> bool:
        """Whether the next token is one of these words."""
        return self._next.kind is TokenKind.NAME and self._next.text in words

    def is_followed_by(self, symbol: str) -> bool:
        """Whether the token after the next one is this symbol."""
        blank = _BLANK.match(self._text, self._at)
        return blank is not None and self._text.startswith(symbol, blank.end())

    def accept(self, symbol: str) -> bool:
        """Takes a symbol if it comes next; whether it did."""
        return self.is_symbol(symbol) and bool(self.take())

    def accept_word(self, word: str) -> bool:
        """Takes a word if it comes next; whether it did."""
        return self.is_word(word) and bool(self.take())

    def expect(self, *symbols: str) -> str:
        """Takes one of these symbols.  Raises ModelError where something else comes next."""
        if not self.is_symbol(*symbols):
            raise self.unexpected(" or ".join(f'"{symbol}"' for symbol in symbols))
        return self.take().text

    def expect_word(self, *words: str) -> str:
        """Takes one of these words.  Raises ModelError where something else comes next."""
        if not self.is_word(*words):
            raise self.unexpected(" or ".join(f'"{word}"' for word in words))
        return self.take().text

    def name(self) -> str:
        """Takes a name, bare or quoted.  Raises ModelError where something else comes next."""
        if self._next.kind is TokenKind.STRING:
            return self.string()
        if self._next.kind is not TokenKind.NAME:
            raise self.unexpected("a name")
        return self.take().text

    def string(self) -> str:
        """Takes a string.  Raises ModelError where something else comes next."""
        token = self._take(TokenKind.STRING)
        try:
            return str(json.loads(token.text, strict=False))
        except ValueError:
            raise self.error("the string has an unknown escape", at=token) from None

    def number(self) -> int | float:
        """Takes a number; "inf" and "nan" are numbers, too.  Raises ModelError where something
        else comes next."""
        if self.is_word("inf", "nan"):
            return float(self.take().text)
        if self.accept("-"):
            self.expect_word("inf")
            return -float("inf")
        token = self._take(TokenKind.NUMBER)
        whole = token.text.lstrip("-").isdecimal()
        if len(token.text) > _MOST_DIGITS:
            raise self.error(f"the number has more than {_MOST_DIGITS} characters", at=token)
        return int(token.text) if whole else float(token.text)

    def integer(self) -> int:
        """Takes a whole number.  Raises ModelError where something else comes next."""
        token = self._next
        number = self.number()
        if not isinstance(number, int):
            raise self.error(f"expected an integer, found {token}", at=token)
        return number

    def digest(self) -> str:
        """Takes a digest, without its "@".  Raises ModelError where something else comes next."""
        return self._take(TokenKind.DIGEST).text[1:]

    def end_statement(self) -> None:
        """Takes the end of a line, or of the text."""
        if self._next.kind is TokenKind.END or self.is_symbol("}"):
            return
        if self._next.kind is not TokenKind.NEWLINE:
            raise self.unexpected("the end of the line")
        self.skip_newlines()

    def skip_newlines(self) -> None:
        """Takes the ends of empty lines."""
        while self._next.kind is TokenKind.NEWLINE:
            self.take()

    @property
    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self._next.kind is TokenKind.END

    def unexpected(self, expected: str) -> ModelError:
        """The error that something else than `expected` comes next; to be raised by the caller."""
        return self.error(f"expected {expected}, found {self._next}")

    def error(self, what: str, *, at: Token | None = None) -> ModelError:
        """A violation of the grammar at a token, the next one by default; to be raised by the
        caller."""
        return ModelError(
            "text-001",
            what,
            where=self._place(at),
            why="the text does not follow its grammar",
            help="print the stage again and edit a copy",
        )

    def unknown(self, what: str, *, at: Token) -> ModelError:
        """A reference to something unknown; to be raised by the caller."""
        return ModelError(
            "text-002",
            what,
            where=self._place(at),
            why="a text refers only to what it declares and to what penstock defines",
            help="correct the name, or declare it before its first use",
        )

    def missing(self, what: str, *, at: Token) -> ModelError:
        """A constant that is not available; to be raised by the caller."""
        return ModelError(
            "text-003",
            what,
            where=self._place(at),
            why="a text shows long constants by digest only",
            help="print it with --with-data, or give the reader the constants",
        )

    def contradiction(self, what: str, *, at: Token) -> ModelError:
        """A contradiction to the stage before or to the target; to be raised by the caller."""
        return ModelError(
            "text-004",
            what,
            where=self._place(at),
            why="a text is read together with the stage before it and with the target",
            help="read the text with the stage and target that it was printed with",
        )

    def _place(self, at: Token | None) -> str:
        token = at or self._next
        return f"line {token.line}, column {token.column} of the text"

    def _take(self, kind: TokenKind) -> Token:
        if self._next.kind is not kind:
            raise self.unexpected(f"a {kind.value}")
        return self.take()

    def _scan(self) -> Token:
        while True:
            blank = _BLANK.match(self._text, self._at)
            assert blank is not None
            self._at = blank.end()
            column = self._at - self._line_start + 1
            if self._at == len(self._text):
                return Token(TokenKind.END, "", self._line, column)
            found = _PATTERN.match(self._text, self._at)
            if found is None or found.lastgroup is None:
                wrong = Token(TokenKind.SYMBOL, self._text[self._at], self._line, column)
                raise self.error(f"{wrong} begins no token", at=wrong)
            token = Token(TokenKind[found.lastgroup.upper()], found[0], self._line, column)
            self._at = found.end()
            if token.kind is TokenKind.NEWLINE:
                self._line, self._line_start = self._line + 1, self._at
                if self._brackets > 0:
                    continue
            return token


_MOST_DIGITS = 400  # Python refuses to convert much longer whole numbers.
