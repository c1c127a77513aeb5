"""Cases of NVDLA's register programs: direct convolutions, decoded and encoded again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated

from pydantic import BeforeValidator

from benchmarks.case_file import Document, Record, Section, malformed, read_as
from penstock.errors import PenstockError
from penstock_nvdla.bindings import registers
from penstock_nvdla.configurations import configuration
from penstock_nvdla.registers import decode, encode

KEYS = frozenset({"origin", "cases"})
"""Top-level keys."""
PREFIX, SUFFIX = "NVDLA_", "_0"
"""Around the names of units, and behind those of registers."""

MEANINGS = {
    "in_w": "width",
    "in_h": "height",
    "in_c": "channels",
    "pad_left": "padding.left",
    "pad_right": "padding.right",
    "pad_top": "padding.top",
    "pad_bottom": "padding.bottom",
    "pad_value": "pad_value",
    "k_w": "kernel_width",
    "k_h": "kernel_height",
    "k_c": "channels",
    "kernels": "kernels",
    "stride_x": "stride_x",
    "stride_y": "stride_y",
    "dil_x": "dilation_x",
    "dil_y": "dilation_y",
    "out_w": "out_width",
    "out_h": "out_height",
    "out_c": "kernels",
    "data_banks": "data_banks",
    "weight_banks": "weight_banks",
    "entry_per_slice": "entries_per_slice",
    "fetch_grain": "fetch_grain",
    "atomics": "atomics",
    "bytes_per_kernel": "bytes_per_kernel",
    "weight_bytes": "weight_bytes",
    "line_stride": "source.line_stride",
    "surf_stride": "source.surface_stride",
    "release": "release",
    "rls_slices": "release",
    "data_reuse": "reuse.data",
    "weight_reuse": "reuse.weights",
    "skip_data_rls": "reuse.keep_data",
    "skip_weight_rls": "reuse.keep_weights",
}
"""Names of fields by their keys in a file."""


def _word(value: object) -> object:
    """A word, given as a number or in hexadecimal."""
    try:
        found = int(value, 0) if isinstance(value, str) else value
    except ValueError:
        found = None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 32:
        raise ValueError("must be a word of 32 bits")
    return found


Word = Annotated[int, BeforeValidator(_word)]


class Case(Record):
    """A register program and its meaning."""

    id: str
    config: str
    decoded: Mapping[str, int]
    regs: Mapping[str, Mapping[str, Word]]


def check(document: Document, where: str) -> tuple[Section, ...]:
    """Checks the single section of a file.  Raises ModelError if the file is malformed."""
    found = document["cases"]
    if not isinstance(found, list) or not found:
        raise malformed(f"{where}: cases", "there is no list of cases")
    return (Section.of("cases", _differences(found, f"{where}: cases")),)


def _differences(cases: list[object], where: str) -> Iterator[tuple[str, str]]:
    for k, found in enumerate(cases):
        place = f"{where}, case {k}"
        case = read_as(Case, found, place)
        yield f"case {k} {case.id}", "; ".join(_case_differences(case, place))


def _case_differences(case: Case, where: str) -> Iterator[str]:
    words = _words(case, where)
    if unknown := [key for key in case.decoded if key not in MEANINGS]:
        raise malformed(where, f"it is not known what {unknown[0]} says")
    try:
        hardware = configuration(case.config)
    except PenstockError as error:
        raise malformed(f"{where}, config", error.what) from error
    try:
        layer = decode(words, hardware)
    except PenstockError as error:
        yield error.what
        return
    for key, expected in case.decoded.items():
        answer = int(attrgetter(MEANINGS[key])(layer))
        if answer != expected:
            yield f"{key} is {answer}, expected {expected}"
    for name, word in encode(layer).items():
        if word != words.get(name, word):
            yield f"{name} is {word:#x}, expected {words[name]:#x}"


def _words(case: Case, where: str) -> dict[str, int]:
    """The words of a case by our register names."""
    found = {
        f"{unit.removeprefix(PREFIX)}.{name.removesuffix(SUFFIX)}": word
        for unit, words in case.regs.items()
        for name, word in words.items()
    }
    if unknown := [name for name in found if name not in registers()]:
        raise malformed(where, f"there is no register {unknown[0]}")
    return found
