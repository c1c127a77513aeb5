"""Formatting of numbers, times, shapes and names, shared by pages, figures and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.errors import escaped

ABSENT = "–"


def number(value: int | None) -> str:
    """Return a count with thousands separators.

    >>> number(1234567), number(None)
    ('1,234,567', '–')
    """
    return ABSENT if value is None else f"{value:,}"


def counted(value: int, unit: str) -> str:
    """Return a count with its unit, in the plural unless it is one.

    >>> counted(1, "call"), counted(1200, "call")
    ('1 call', '1,200 calls')
    """
    return f"{number(value)} {unit}{'s' * (value != 1)}"


def per_mac(cycles: int | None, macs: int) -> str:
    """Return cycles per multiply-accumulate.

    >>> per_mac(25, 10), per_mac(25, 0)
    ('2.50', '–')
    """
    return ABSENT if cycles is None or macs == 0 else f"{cycles / macs:,.2f}"


def percent(share: float) -> str:
    """Return a fraction as a percentage with one decimal.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def kib(value: int) -> str:
    """Return a size in KiB, rounded half up, as the scripts of the pages round it.

    >>> kib(5746), kib(12), kib(300 * 1024), kib(9856)
    ('5.61 KiB', '0.01 KiB', '300 KiB', '9.63 KiB')
    """
    if value >= 100 * 1024:
        return f"{(value + 512) // 1024:,} KiB"
    return f"{(100 * value + 512) // 1024 / 100:,.2f} KiB"


def change(value: int, than: int) -> str:
    """Return the difference of two sizes, in bytes or KiB.

    >>> change(13312, 1024), change(1000, 3048), change(9, 10)
    ('+12.0 KiB', '-2.0 KiB', '-1 bytes')
    """
    found = value - than
    return f"{found:+,} bytes" if abs(found) < 1024 else f"{found / 1024:+,.1f} KiB"


def relative(value: int, than: int) -> str:
    """Return the relative difference of two counts in per cent.

    >>> relative(1032, 1000), relative(999, 1000), relative(5, 0), relative(32400, 1000)
    ('+3.2 %', '-0.1 %', '+0 %', '+3,140 %')
    """
    percent = 100 * (value / than - 1) if than else 0.0
    return f"{percent:+,.0f} %" if percent >= 1000 else f"{percent:+.3g} %"


def share_or_none(part: float | None) -> str:
    """Return a fraction as a percentage, or a dash for None.

    >>> share_or_none(0.5), share_or_none(None)
    ('50.0 %', '–')
    """
    return ABSENT if part is None else percent(part)


def extents(shape: tuple[int, ...]) -> str:
    """Return a shape with its extents separated by multiplication signs.

    >>> extents((1, 48, 48, 8)), extents(())
    ('1×48×48×8', 'scalar')
    """
    return "×".join(map(str, shape)) if shape else "scalar"


def duration(cycles: int, clock_hz: int | None) -> str:
    """Return the duration of an inference and inferences per second at a clock; empty if it is not
    known.

    >>> duration(4_823_148, 168_000_000), duration(0, 1_000), duration(1_000, None)
    ('28.7 ms at 168 MHz, 34.8 inferences/s', '', '')
    """
    if not clock_hz or not cycles:
        return ""
    rate = rounded(clock_hz / cycles)
    return f"{milliseconds(cycles, clock_hz)} ms at {clock_hz / 1e6:g} MHz, {rate} inferences/s"


def milliseconds(cycles: int | None, clock_hz: int) -> str:
    """Return cycles as milliseconds with three significant digits.

    >>> milliseconds(4_823_148, 168_000_000), milliseconds(2_000_000_000, 1_000_000)
    ('28.7', '2,000,000')
    """
    return ABSENT if cycles is None else rounded(1000 * cycles / clock_hz)


def rounded(value: float) -> str:
    """Return a number with three significant digits, or all digits before the decimal point.

    >>> rounded(0.012345), rounded(1234.5)
    ('0.0123', '1,234')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# Escape control characters and lone surrogates, which XML and terminals do not accept.
printable = escaped


def shorten_middle(text: str, letters: int) -> str:
    """Return the text, shortened in the middle if it is longer than `letters`; most of its end is
    kept.

    >>> shorten_middle("short", 5), shorten_middle("activation_17", 10)
    ('short', 'ac..ion_17')
    """
    if len(text) <= letters:
        return text
    kept = max(0, letters - 2)
    begin = kept // 3
    return f"{text[:begin]}..{text[len(text) - kept + begin :]}" if kept else text[-letters:]


def first_name(name: str) -> str:
    """Return the first of several names that a converter joined by semicolons.

    >>> first_name("conv/Relu;conv/bias")
    'conv/Relu'
    """
    return printable(name.split(";")[0] or name)


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return a short name for each name: the shortest part of its path that is unique (the last one
    of equal length), or else its whole first name.

    >>> short_names(["net/act_1/Relu;net/bias", "net/act_2/Relu"])["net/act_1/Relu;net/bias"]
    'act_1'
    """
    firsts = {name: first_name(name) for name in names}
    runs = {first: _runs(first) for first in firsts.values()}
    counts = Counter(run for found in runs.values() for run in set(found))
    return {
        name: next((run for run in runs[first] if run and counts[run] == 1), first)
        for name, first in firsts.items()
    }


def full_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that `name` denotes: itself, one with this short name (`short_names`), or the
    only one that has it in its path; None if there is none.

    >>> full_name("act", ["net/act/Relu;net/bias", "net/other"])
    'net/act/Relu;net/bias'
    """
    known = tuple(dict.fromkeys(names))
    if name in known:
        return name
    short = {text: full for full, text in short_names(known).items()}
    found = [full for full in known if f"/{name}/" in f"/{full.replace(';', '/;/')}/"]
    return short.get(name, found[0] if len(found) == 1 else None)


def _runs(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    return tuple(
        "/".join(parts[start : start + length])
        for length in range(1, min(len(parts), 3) + 1)
        for start in range(len(parts) - length, -1, -1)
    )
