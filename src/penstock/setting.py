"""Setting: what users can state about a compilation, declared once.

A setting is a field of `pipeline.request.Request`, or of a record in it; its declaration is the
metadata of that field.  Options of the command line with their help, keywords of Python functions
with their types and descriptions, the page of search options, and the commands that reports offer
derive from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload

from penstock.choices import one_of
from penstock.errors import UsageError, did_you_mean
from penstock.frozen import frozen
from penstock.hardware.quantities import frequency_text, parse_clock, size_bytes, size_text
from penstock.quoting import each_quoted

# The commands that plan a schedule.
PLANNING = ("compile", "explore", "compare-partitions", "run", "verify", "profile", "scan")
READING = (*PLANNING, "show")  # The commands that read a model and assign its nodes to engines.

COMMON, MEMORY, MODEL, ACCELERATORS = "Common options", "Memory", "Model", "Accelerators"
SEARCH = "Advanced search (the defaults suit most models)"
# Groups of settings, in the order of help texts.
GROUPS = (COMMON, MEMORY, MODEL, ACCELERATORS, SEARCH)


_Value = TypeVar("_Value")  # The values of a setting, as its field holds them.
_Given = TypeVar("_Given")
_Member = TypeVar("_Member", bound=Enum)


def _same(value: _Given, *_: object) -> _Given:
    return value


@frozen(kw_only=True)
class Kind(Generic[_Value]):
    """How the values of a setting are written.

    python: the type in Python, as in a program.
    shell: the type of a value on the command line.
    metavar: what help texts show for a value; empty: the type.
    is_one_way: whether a switch has no option --no-NAME.
    is_repeated: whether the option is repeated for several values.
    is_checked: whether Python values are compared with `python`; otherwise, `read` checks them.
    given: the Python value for the values of a repeated option, and that option; may raise
        UsageError.
    read: the value of the field for a Python value, and the option, or what `api.request` makes one
        of; may raise UsageError.
    default: the default in Python for that of the field.
    shown: the default on the command line for that in Python.
    words: the values of the option that state a value of the field.
    """

    python: str
    shell: type = str
    metavar: str = ""
    is_one_way: bool = False
    is_repeated: bool = False
    is_checked: bool = True
    given: Callable[[Sequence[str], str], object] = _same
    read: Callable[[Any, str], object] = _same
    default: Callable[[_Value], object] = _same
    shown: Callable[[Any], object] = _same
    words: Callable[[_Value], Sequence[str]] = lambda value: (str(value),)


@frozen
class Setting(Generic[_Value]):
    """The declaration of a setting.

    help: description on the command line; empty: there is no option.
    python: description in Python; empty: there is no keyword.
    name: the keyword in Python; empty: the name of the field.
    option: the option, without its dashes; empty: derived from the keyword.
    metavar: what help texts show for a value; empty: that of the kind.
    commands: the commands that take the option.
    example: a value in Python, for errors; empty: there is none.
    names: the allowed values of a text.
    least: the least value of a number.
    default, path: the default of the field, and the names of the fields that lead to it;
        `settings_of` states them.
    """

    kind: Kind[_Value]
    help: str
    python: str = ""
    name: str = ""
    option: str = ""
    group: str = COMMON
    metavar: str = ""
    commands: tuple[str, ...] = PLANNING
    example: str = ""
    names: tuple[str, ...] = ()
    least: float | None = None
    default: _Value | None = None
    path: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option as users write it, such as `--max-stripe`."""
        return f"--{self.option}"

    @property
    def python_default(self) -> object:
        return None if self.default is None else self.kind.default(self.default)

    @property
    def shell_default(self) -> object:
        """The default on the command line; None if there is none, or if the option is repeated."""
        default = self.python_default
        return None if default is None or self.kind.is_repeated else self.kind.shown(default)

    def given(self, value: object) -> object:
        """Return the value in Python for that of the option.  Raises UsageError."""
        if not self.kind.is_repeated:
            return value
        return self.kind.given(cast("Sequence[str]", value or ()), self.flag)

    def read(self, value: object) -> object:
        """Return the value of the field for one in Python.  Raises UsageError."""
        return None if value is None and self.default is None else self.kind.read(value, self.flag)

    def stated(self, record: object) -> Iterator[str]:
        """Yield the words with which a command states the value in a record; none for the
        default."""
        value = record
        for name in self.path:
            value = getattr(value, name)
        if value == self.default:
            return
        if isinstance(value, bool):
            yield self.flag if value else f"--no-{self.option}"
            return
        for word in self.kind.words(cast(_Value, value)):
            yield from (self.flag, word)

    def check(self, value: _Value) -> None:
        """Raises UsageError unless a value is one of `names`, if there are any, and at least
        `least`."""
        if self.names and value not in self.names:
            raise UsageError(
                "usage-056",
                f"there is no {self.name} {value!r}",
                where=self.flag,
                help=f"{did_you_mean(str(value), self.names)}use one of {', '.join(self.names)}",
            )
        if self.least is None:
            return
        if not isinstance(value, int | float) or not self.least <= value < math.inf:
            raise UsageError(
                "usage-016",
                f"the limit is {value!r}, must be at least {self.least}",
                where=self.flag,
                help="`penstock options` lists the options with their defaults",
            )


AnySetting = Setting[Any]


@overload
def declared(default: None, setting: Setting[_Value]) -> _Value | None: ...
@overload
def declared(default: _Value, setting: Setting[_Value] | None = None) -> _Value: ...
def declared(default: object, setting: object = None) -> object:
    """Return a field of a dataclass that is a setting, with its default; without a declaration, the
    field of a record whose fields are settings."""
    return field(default=default, metadata={"setting": setting})


@cache
def settings_of(record: type) -> tuple[AnySetting, ...]:
    """Return the settings of a record and of the records in it, in the order of the fields."""
    return tuple(_settings(record, ()))


def _settings(record: type, outer: tuple[str, ...]) -> Iterator[AnySetting]:
    for one in fields(record):
        if "setting" not in one.metadata:
            continue
        path, found = (*outer, one.name), cast("AnySetting | None", one.metadata["setting"])
        if is_dataclass(one.default):
            yield from _settings(type(one.default), path)
        if found is not None:
            name = found.name or one.name
            option = found.option or name.replace("_", "-")
            yield replace(found, name=name, option=option, default=one.default, path=path)


SWITCH: Kind[bool] = Kind(python="bool", shell=bool)
FLAG: Kind[bool] = Kind(python="bool", shell=bool, is_one_way=True)
COUNT: Kind[int] = Kind(python="int", shell=int)
NUMBER: Kind[float] = Kind(python="float", shell=float)
TEXT: Kind[str] = Kind(python="str")
TEXTS: Kind[tuple[str, ...]] = Kind(
    python="Sequence[str]", is_repeated=True, read=lambda texts, _: tuple(texts), words=_same
)
FILE: Kind[Path] = Kind(
    python="str | Path", read=lambda file, _: Path(file), words=lambda file: (file.name,)
)  # commands in reports do not depend on folders
SIZE: Kind[int] = Kind(
    python="Size", metavar="SIZE", is_checked=False, read=size_bytes, shown=size_text
)
CLOCK: Kind[int] = Kind(
    python="int | str",
    metavar="FREQUENCY",
    is_checked=False,
    read=parse_clock,
    words=lambda clock_hz: (frequency_text(clock_hz),),
)


def choice(kind: type[_Member]) -> Kind[_Member]:
    """Return the kind of settings whose values are names of the members of an enumeration."""
    names = [str(one.value) for one in kind]
    quoted = each_quoted(names)
    return Kind(
        python=f"Literal[{quoted}]",
        is_checked=False,
        read=lambda name, option: kind(one_of(name, names, option)),
        default=lambda member: member.value,
        words=lambda member: (member.value,),
    )


def _by_name(
    pair: Callable[[str, str], tuple[str, _Given]],
) -> Callable[[Sequence[str], str], dict[str, _Given]]:
    def given(items: Sequence[str], option: str) -> dict[str, _Given]:
        found: dict[str, _Given] = {}
        for item in items:
            name, value = pair(item, option)
            if name in found:
                raise UsageError(
                    "usage-059",
                    f"{item!r} is the second value for {name!r}",
                    where=option,
                    why=f"the first one is {found[name]!r}",
                    help=f"give {option} once for each name",
                )
            found[name] = value
        return found

    return given


def _memory_and_size(item: str, option: str) -> tuple[str, str]:
    region, equals, size = item.partition("=")
    if not equals:
        raise UsageError(
            "usage-012", f"{item!r} has no size", where=option, help="write REGION=SIZE"
        )
    return region, size


def _name_and_extent(item: str, option: str) -> tuple[str, int]:
    name, _, extent = item.rpartition("=")
    if not name or not extent.isdecimal() or not 0 < int(extent) < 2**31:
        raise UsageError(
            "usage-032",
            f"{item!r} states no extent",
            where=option,
            help="write NAME=N, as in batch=1",
        )
    return name, int(extent)


def _input_and_output(item: str, option: str) -> tuple[str, str]:
    before, _, after = item.partition("=")
    if not before or not after:
        raise UsageError(
            "usage-115",
            f"{item!r} does not name an input and an output",
            where=option,
            help="write INPUT=OUTPUT, as in state_in=state_out",
        )
    return before, after


def _name_and_file(item: str, option: str) -> tuple[str, str]:
    name, _, file = item.partition("=")
    if not name or not file:
        raise UsageError(
            "usage-170",
            f"{item!r} does not name an input and a file",
            where=option,
            help="write NAME=FILE.npy, as in axes=axes.npy",
        )
    return name, file


INTEGER_TYPES = ("int8", "uint8", "int32")
"""Element types of inputs of networks of integers."""


def _name_and_type(item: str, option: str) -> tuple[str, str]:
    name, _, dtype = item.rpartition("=")
    if not name or dtype not in INTEGER_TYPES:
        raise UsageError(
            "usage-172",
            f"{item!r} does not name an input and its element type",
            where=option,
            help=f"write INPUT=TYPE, with one of {', '.join(INTEGER_TYPES)}",
        )
    return name, dtype


def _names_and_files(pairs: tuple[tuple[str, Path], ...]) -> Sequence[str]:
    return [f"{name}={file.name}" for name, file in pairs]


def _pairs(
    python: str,
    metavar: str,
    pair: Callable[[str, str], tuple[str, object]],
    read: Callable[[Any, str], _Given],
) -> Kind[tuple[tuple[str, _Given], ...]]:
    """The kind of settings that map names to values; their fields hold pairs."""
    return Kind(
        python=python,
        metavar=metavar,
        is_repeated=True,
        given=_by_name(pair),
        read=lambda values, option: tuple((k, read(v, option)) for k, v in values.items()),
        default=dict,
        words=lambda pairs: [f"{name}={value}" for name, value in pairs],
    )


EXTENTS: Kind[tuple[tuple[str, int], ...]] = _pairs(
    "Mapping[str, int]", "NAME=N", _name_and_extent, _same
)
CONSTANTS: Kind[tuple[tuple[str, Path], ...]] = replace(
    _pairs("Mapping[str, str | Path]", "NAME=FILE.npy", _name_and_file, lambda file, _: Path(file)),
    words=_names_and_files,
)
INTEGERS: Kind[tuple[tuple[str, str], ...]] = _pairs(
    "Mapping[str, str]", "INPUT=TYPE", _name_and_type, _same
)
STATES: Kind[tuple[tuple[str, str], ...]] = _pairs(
    "Mapping[str, str]", "INPUT=OUTPUT", _input_and_output, _same
)
MEMORIES: Kind[tuple[tuple[str, int], ...]] = _pairs(
    "Mapping[str, Size]", "REGION=SIZE", _memory_and_size, size_bytes
)
