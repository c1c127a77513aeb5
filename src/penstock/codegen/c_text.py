"""Formats C tokens: identifiers, literals, array initialisers and comments."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, count, pairwise

import numpy as np

from penstock.errors import escaped
from penstock.ir.tensor import Array, DType, TensorType

C_TYPES = {
    DType.INT8: "int8_t",
    DType.UINT8: "uint8_t",
    DType.INT16: "int16_t",
    DType.INT32: "int32_t",
    DType.INT64: "int64_t",
    DType.BOOL: "int8_t",
    DType.FLOAT16: "uint16_t",
    DType.FLOAT32: "float",
}
INDENT = "    "
LINE_LENGTH = 100
NAME_LENGTH = 40


def typed_pointer(c_type: str, bytes: str) -> str:
    """A pointer to elements of `c_type`, from an expression of type `int8_t *`.

    >>> typed_pointer("int8_t", "arena"), typed_pointer("float", "arena + 8")
    ('arena', '(float *)(void *)(arena + 8)')
    """
    return bytes if c_type == "int8_t" else f"({c_type} *)(void *)({bytes})"


def identifier(text: str) -> str:
    """A readable C identifier for `text`: the last characters of its first name.

    >>> identifier("model/conv2d/Relu;model/bias1"), identifier("3x3")
    ('model_conv2d_Relu', '_3x3')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text.split(";")[0]).strip("_")[-NAME_LENGTH:].strip("_")
    return f"_{name}" if not name or name[0].isdigit() else name


_KEYWORDS = """
auto break case char class const continue default delete do double else enum extern float for goto
if inline int long namespace new private public register restrict return short signed sizeof static
struct switch template this typedef union unsigned using virtual void volatile while
"""
_FILES = """
assert complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar
wctype
main example harness kernels all clean help install package test aux con nul prn c m dl rt pthread
arduino sdkconfig
"""
KEYWORDS = frozenset(_KEYWORDS.split())
# Names that a model's files and library must not have: keywords of C and C++; headers of the
# standard library, which NAME.h would hide; files and targets of the bundle, its tests, CMake and
# Windows; system libraries linked with -lNAME; headers that Arduino and ESP-IDF include.
RESERVED = KEYWORDS.union(_FILES.split())


def prefix(text: str) -> str:
    """A C identifier that is valid as a prefix of public names and as a file and library name.

    >>> prefix("kws"), prefix("Main"), prefix("3x3"), prefix("penstock_view")
    ('kws', 'Main_model', 'model_3x3', 'model_penstock_view')
    """
    name = identifier(text).strip("_")
    if not name or name[0].isdigit() or name.lower().startswith("penstock"):
        return f"model_{name}".rstrip("_")
    return f"{name}_model" if name.lower() in RESERVED else name


def free_identifier(text: str, taken: Collection[str] = ()) -> str:
    """A C identifier for `text` that is not a keyword and not in `taken`.

    >>> free_identifier("rows/x"), free_identifier("x", {"x"}), free_identifier("int")
    ('rows_x', 'x_2', 'int_2')
    """
    name = identifier(text)
    names = chain([name], (f"{name}_{k}" for k in count(2)))
    return next(n for n in names if n not in taken and n not in KEYWORDS)


def distinct_identifiers(texts: Iterable[str]) -> dict[str, str]:
    """Distinct C identifiers for texts, in order.

    >>> distinct_identifiers(["row 0", "row/0"])
    {'row 0': 'row_0', 'row/0': 'row_0_2'}
    """
    found: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        found[text] = free_identifier(text, found.values())
    return found


def wrapped(head: str, items: Iterable[str], tail: str) -> str:
    """Head, items and tail, with line breaks between items aligned to the end of the head.

    >>> wrapped("f(", ("a,", "b"), ");")
    'f(a, b);'
    """
    lines, space = [head], ""
    *first, last = items
    for item in (*first, last + tail):
        if space and len(lines[-1]) + len(space) + len(item) > LINE_LENGTH:
            lines.append(" " * min(len(head), LINE_LENGTH // 2) + item)
        else:
            lines[-1] += space + item
        space = " "
    return "\n".join(lines)


def pieces(text: str) -> tuple[str, ...]:
    """Splits a call after the commas between its outermost arguments.

    >>> pieces("max(min(a, b), c)")
    ('max(min(a, b),', 'c)')
    """
    depths = accumulate((c == "(") - (c == ")") for c in text)
    cuts = [
        k + 1
        for k, (c, depth) in enumerate(zip(text, depths, strict=True))
        if c == "," and depth == 1
    ]
    return tuple(text[a:b].strip() for a, b in pairwise((0, *cuts, len(text))))


def parted(items: Sequence[str]) -> tuple[str, ...]:
    """The items, with a comma after each but the last."""
    return (*(f"{item}," for item in items[:-1]), *items[-1:])


def comment(text: str) -> str:
    """Text that is safe inside a C comment: printable, without comment delimiters and trigraphs.

    >>> comment("/*/"), comment("???/")
    ('/ * /', '? ? ?/')
    """
    return re.sub(r"\?(?=\?)|\*(?=/)|/(?=\*)", r"\g<0> ", escaped(text))


def short(text: str, length: int = 48) -> str:
    """A name shortened for comments."""
    return comment(text if len(text) <= length else f"{text[: length - 2]}..")


def integer(value: int) -> str:
    """An int32 literal; INT32_MIN has no decimal literal in C.

    >>> integer(-2147483648)
    'INT32_MIN'
    """
    return "INT32_MIN" if value == -(2**31) else str(value)


def array_body(array: Array) -> str:
    """Initialisers of an array in aligned columns: 20 bytes or 8 wider numbers per line."""
    flat = np.ascontiguousarray(array).ravel()
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    if flat.dtype == np.int8 or flat.dtype == np.bool_:
        return _columns(_BYTE_CELLS, flat.view(np.uint8), 20, "")
    if flat.dtype == np.uint8:
        values, places = np.arange(int(flat.max()) + 1), flat
    else:
        bits = flat.view(f"u{flat.itemsize}")  # tells 0.0 from -0.0, and finds NaN
        different, places = np.unique(bits, return_inverse=True)
        values = different.view(flat.dtype)
    texts = [number(x) for x in values]
    width = max(map(len, texts))
    cells = _cells([f" {text:>{width}}," for text in texts])
    return _columns(cells, places, 8, INDENT[1:]).removesuffix("\n")


def number(element: np.generic) -> str:
    """A C literal of an element of an array."""
    return real(float(element)) if element.dtype.kind == "f" else integer(int(element))


def real(value: float) -> str:
    """A float literal: the shortest decimal number that rounds to `value` in single precision, or
    a macro of math.h.

    >>> real(0.00390625), real(1e-10), real(-math.inf), real(math.nan)
    ('0.00390625f', '1e-10f', '-INFINITY', 'NAN')
    """
    if math.isfinite(value):
        return f"{np.float32(value)!s}f"
    return "NAN" if math.isnan(value) else f"{'-' * (value < 0)}INFINITY"


def _cells(texts: Sequence[str]) -> Array:
    return np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), len(texts[0]))


# Literals of all int8 values, indexed by their bits.
_BYTE_CELLS = _cells([f"{v - 256 if v > 127 else v:>4}," for v in range(256)])


def _columns(cells: Array, places: Array, per_line: int, indent: str) -> str:
    # Vectorised as a table lookup, since weights have megabytes.
    count = len(places) // per_line
    full, rest = places[: count * per_line], places[count * per_line :]
    before, width = len(indent), per_line * cells.shape[1]
    lines = np.full((count, before + width + 1), ord(" "), np.uint8)
    lines[:, before:-1] = cells[full].reshape(count, width)
    lines[:, -1] = ord("\n")
    last = indent + cells[rest].tobytes().decode() if len(rest) else ""
    return lines.tobytes().decode() + last


def type_comment(type: TensorType) -> str:
    """A tensor's type and zero point, for comments."""
    zero = f" zero {type.zero_point}" if type.quantisation else ""
    return f"{type.dtype.value} ({', '.join(map(str, type.shape))}){zero}"
