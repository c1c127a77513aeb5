"""Registry: discovers the networks of this folder and opens them by name.

The modules of this folder define networks: subclasses of `Network` with a `NAME`.

    zoo:NAME[:option=value,...]         zoo:mobilenet_v1:alpha=0.25,resolution=128
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import cast

import penstock.zoo as folder
from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.ir.graph import Graph
from penstock.zoo.network import Network, Number, Option, described_option, option_error

PREFIX = "zoo:"


@frozen
class Exhibit:
    """Description of a network."""

    name: str
    summary: str
    source: str
    options: tuple[Option, ...]


def open_zoo(text: str) -> Graph:
    """The network that "zoo:NAME[:option=value,...]" names.

    Raises UsageError for an unknown network, option or value."""
    name, _, settings = text.removeprefix(PREFIX).partition(":")
    found = networks().get(name)
    if found is None:
        raise _unknown(text, name)
    make = cast(Callable[..., Network], found)  # the values are checked when they are set
    return make(**_values(text, _exhibit(found), settings)).graph()


def zoo_networks() -> tuple[Exhibit, ...]:
    """Every network, by name, with its options and their defaults."""
    return tuple(_exhibit(network) for network in networks().values())


@cache
def networks() -> Mapping[str, type[Network]]:
    """Every network's class, by its name, in alphabetical order."""
    modules = (
        importlib.import_module(f"{folder.__name__}.{info.name}")
        for info in pkgutil.iter_modules(folder.__path__)
    )
    found = {
        value.NAME: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Network) and value.NAME
    }
    return dict(sorted(found.items()))


def _exhibit(network: type[Network]) -> Exhibit:
    lines = [line.strip() for line in (network.__doc__ or "").splitlines()]
    source = next(line for line in lines if line.startswith("Source: "))
    options = sorted(map(described_option, fields(network)), key=lambda o: o.name == "seed")
    return Exhibit(network.NAME, lines[0], source.removeprefix("Source: "), tuple(options))


def _values(text: str, exhibit: Exhibit, settings: str) -> dict[str, Number]:
    known = {option.name: option for option in exhibit.options}
    values: dict[str, Number] = {}
    for setting in filter(None, settings.split(",")):
        name, equals, value = (part.strip() for part in setting.partition("="))
        problem = (
            (not equals and f'"{setting}" is not of the form option=value')
            or (name not in known and f'there is no option "{name}"')
            or (name in values and f'option "{name}" is set twice')
        )
        if problem:
            raise _bad_setting(text, problem, exhibit)
        values[name] = _number(value, exhibit.name, known[name])
    return values


def _number(value: str, network: str, option: Option) -> Number:
    try:
        return type(option.default)(value)
    except ValueError:
        raise option_error(network, option, repr(value)) from None


def _unknown(text: str, name: str) -> UsageError:
    what = f'the zoo has no network "{name}"' if name else "no network of the zoo is named"
    near = difflib.get_close_matches(name, networks(), 1)
    hint = f"did you mean {PREFIX}{near[0]}? " if near else ""
    return UsageError(
        "usage-111",
        what,
        where=text,
        help=f"{hint}one of: {', '.join(PREFIX + known for known in networks())}",
    )


def _bad_setting(text: str, problem: str, exhibit: Exhibit) -> UsageError:
    shown = ", ".join(f"{o.name}={o.default}" for o in exhibit.options)
    return UsageError(
        "usage-112",
        problem,
        where=text,
        why=f"{exhibit.name} has the options (with defaults): {shown}",
        help=f"write {PREFIX}{exhibit.name}:option=value,option=value",
    )
