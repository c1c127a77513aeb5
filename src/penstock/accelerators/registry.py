"""registry: finds accelerators and opens them by name.

An accelerator is found if it is defined in one of these places:

    this process          a backend on which `register()` has been called
    this folder           a module or folder with the name of the accelerator; in a folder with
                          several accelerators, one module for each, such as ethos_u/ethos_u55.py
    installed packages    an entry point of the group "penstock.backends"

The user names an accelerator and its attributes as NAME[:attr=value,...], for example
ultra_trail:dimension=16.  Only requested accelerators are imported, so a broken package does not
affect others.
"""

from __future__ import annotations

import difflib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

import penstock.accelerators as folder
from penstock.backends.accelerator import Accelerator
from penstock.backends.target_attributes import bad_setting, values
from penstock.backends.uma.backend import UMABackend, registered
from penstock.backends.uma.checks import name_clash
from penstock.errors import BackendError, PenstockError, UsageError
from penstock.hardware.target import Target

GROUP = "penstock.backends"
OPTION = "--accelerator"


@dataclass(frozen=True, slots=True)
class Source:
    """A place that defines an accelerator, such as a bundled module or an installed package.

    name: the name of the accelerator.
    origin: the place, as messages state it.
    load: creates the backend, which describes the accelerator; raises BackendError if that
        fails."""

    name: str
    origin: str
    load: Callable[[], UMABackend]


@dataclass(frozen=True, slots=True)
class ListedAccelerator:
    """An accelerator as the command `penstock backend list` shows it.

    origin: the places that define it, such as "penstock" or an installed package.
    attributes: the default values of its attributes, by name.
    patterns: the names of its patterns.
    operators: the names of the operators and patterns that have a strategy.
    problem: why it cannot be loaded; "" if it can be loaded.  If it cannot, the fields
        `attributes`, `patterns` and `operators` are empty."""

    name: str
    origin: str
    attributes: Mapping[str, str | int | bool | float]
    patterns: tuple[str, ...]
    operators: tuple[str, ...]
    problem: str = ""


def open_accelerators(texts: Sequence[str], chip: Target) -> tuple[Accelerator, ...]:
    """Return the accelerators that a user has requested.

    texts: the requests, each of the form "NAME[:attr=value,...]".
    chip: the target to which the accelerators are attached.

    Raises UsageError if there is no such accelerator, attribute or value, or if an accelerator is
    named twice, and BackendError if the definition of an accelerator is invalid."""
    found: dict[str, Accelerator] = {}
    for text in texts:
        accelerator = _open(text, chip)
        if accelerator.name in found:
            raise bad_setting(
                f"accelerator {accelerator.name} is named twice",
                f"{OPTION} {text}",
                f"write all its attributes in one {OPTION}, separated by commas",
            )
        found[accelerator.name] = accelerator
    return tuple(found.values())


def check_is_target(text: str) -> None:
    """Raise UsageError if `text`, the value of --target, names an accelerator."""
    name = text.partition(":")[0]
    if name in names():
        raise UsageError(
            "usage-058",
            f"{name} is an accelerator, not a target",
            where=f"--target {text}",
            why="it is attached to a processor, which starts it and runs the CPU fallbacks",
            help=f"name both: --target cortex-m55 {OPTION} {text}",
        )


def listed() -> tuple[ListedAccelerator, ...]:
    """Return all accelerators, sorted by name, including those that cannot be loaded."""
    return tuple(_listed_accelerator(name, sources) for name, sources in sorted(_sources().items()))


def names() -> tuple[str, ...]:
    """Return the names of all accelerators, sorted."""
    return tuple(sorted(_sources()))


def _open(text: str, chip: Target) -> Accelerator:
    """Return the accelerator that a user has requested; `open_accelerators` states the errors.

    text: the request, of the form "NAME[:attr=value,...]".
    chip: the target to which the accelerator is attached."""
    name, _, settings = text.partition(":")
    where = f"{OPTION} {text}"
    backend = _backend_named(name, where)
    given = _settings(name, settings, where)
    checked = values(name, backend.attributes, given, where)
    return backend.accelerator({name: checked[name] for name in given}, chip)


def _backend_named(name: str, where: str) -> UMABackend:
    """Return the backend of the accelerator `name`: the object that describes the accelerator.

    where: the location that an error message states, such as "--accelerator NAME".

    Raises UsageError if there is no such accelerator, and BackendError if several places define it
    or if it cannot be loaded."""
    every = _sources()
    if name not in every:
        raise _unknown(name, sorted(every), where)
    return _unique_source(name, every[name]).load()


def _unknown(name: str, known: Sequence[str], where: str) -> UsageError:
    """Return the error for an unknown accelerator.  It suggests the most similar name, if any is
    similar.

    known: the names of all accelerators.
    where: the location that the error message states."""
    near = difflib.get_close_matches(name, known, 1)
    return UsageError(
        "usage-014",
        f"there is no accelerator {name!r}",
        where=where,
        why=f"the accelerators are {', '.join(known)}" if known else "none is installed",
        help=(f"did you mean {near[0]}? " if near else "")
        + "install the package that provides it, or create one: `penstock backend new NAME`",
    )


def _settings(name: str, settings: str, where: str) -> dict[str, str]:
    """Return the attribute values that a user has set, as strings, by attribute name: "a=1,b=x"
    gives {"a": "1", "b": "x"}.

    name: the name of the accelerator, for error messages.
    settings: a string of the form "attr=value,...".
    where: the location that an error message states.

    Raises UsageError if `settings` is malformed or sets an attribute twice."""
    found: dict[str, str] = {}
    for setting in filter(None, settings.split(",")):
        attribute, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or attribute in found:
            problem = "is set twice" if equals else "is not of the form attr=value"
            raise bad_setting(
                f'"{attribute if equals else setting}" {problem}',
                where,
                f"write {OPTION} {name}:attr=value,attr=value",
            )
        found[attribute] = value
    return found


def _listed_accelerator(name: str, sources: tuple[Source, ...]) -> ListedAccelerator:
    """Return an accelerator as the command `penstock backend list` shows it.

    sources: all places that define an accelerator of this name."""
    origin = ", ".join(source.origin for source in sources)
    try:
        backend = _unique_source(name, sources).load()
        made = backend.accelerator()
    except PenstockError as error:
        return ListedAccelerator(name, origin, {}, (), (), str(error))
    patterns = tuple(pattern.name for pattern in made.patterns)
    operators = tuple(dict.fromkeys(strategy.op for strategy in made.strategies))
    return ListedAccelerator(name, origin, backend.attributes, patterns, operators)


def _unique_source(name: str, sources: tuple[Source, ...]) -> Source:
    """Return the only one of `sources`, the places that define the accelerator `name`.

    Raises BackendError if there are several."""
    first, *others = sources
    if others:
        raise name_clash(name, f"accelerator {name}", (first.origin, others[0].origin))
    return first


def _sources() -> dict[str, tuple[Source, ...]]:
    """Return the places that define accelerators, by name of the accelerator.

    If a backend of a name is registered in this process, it is the only place for this name.
    Several places for one name are an error, which `_unique_source` raises."""
    found: dict[str, tuple[Source, ...]] = {}
    for source in (*_bundled_sources(), *_installed_sources()):
        found[source.name] = (*found.get(source.name, ()), source)
    for name, backend in registered().items():
        origin = f"registered by {type(backend).__module__}"
        found[name] = (Source(name, origin, lambda backend=backend: backend),)
    return found


def _bundled_sources() -> list[Source]:
    """Return, for each accelerator that comes with penstock, the place that defines it."""
    here = __name__.rpartition(".")[2]
    root = Path(folder.__path__[0])
    found: list[tuple[str, str]] = []
    for info in pkgutil.iter_modules(folder.__path__):
        inner = (i.name for i in pkgutil.iter_modules([str(root / info.name)]))
        family = [name for name in inner if name.startswith(info.name)]
        found += [(name, f"{info.name}.{name}") for name in family]
        if not family and info.name != here:
            found.append((info.name, info.name))
    return [
        _checked_source(
            name,
            "penstock",
            f"{folder.__name__}.{module}",
            lambda m: _backend_class(import_module(m)),
        )
        for name, module in found
    ]


def _backend_class(module: ModuleType) -> object:
    """Return the backend class that a module or one of its submodules defines.

    If there is none, the result is the module itself, for which `_instantiate` raises an error."""
    classes = (
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, UMABackend)
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
    )
    return next(classes, module)


def _installed_sources() -> list[Source]:
    """Return, for each accelerator of an installed package, the place that defines it."""
    return [
        _checked_source(
            point.name, _package(point), point.module, lambda _, point=point: point.load()
        )
        for point in entry_points(group=GROUP)
    ]


def _package(point: EntryPoint) -> str:
    """Return a description of the package that provides an entry point: "package NAME VERSION", or
    "a package" if its name is unknown."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _checked_source(
    name: str, origin: str, module: str, import_class: Callable[[str], object]
) -> Source:
    """Return the `Source` of the accelerator `name`.  Its field `load` creates the backend and
    checks it (`_instantiate`).

    origin: the place that defines the accelerator, as messages state it.
    module: the name of the module that defines the backend.
    import_class: a function that takes `module`, imports the backend class and returns it."""
    return Source(
        name, origin, lambda: _instantiate(name, f"{origin}, module {module}", module, import_class)
    )


def _instantiate(name: str, place: str, module: str, load: Callable[[str], object]) -> UMABackend:
    """Return an instance of the backend class `load(module)`.

    name: the expected name of the accelerator.
    place: the location that an error message states.
    module: the name of the module that defines the class, the argument of `load`.

    Raises BackendError if the class cannot be imported or instantiated, or if its target_name is
    not `name`."""
    try:
        loaded = load(module)
    except (Exception, SystemExit) as error:
        raise _broken(
            place,
            f"it cannot be imported: {type(error).__name__}: {error}",
            "import the module manually and correct the error, or uninstall the package",
        ) from error
    if not inspect.isclass(loaded) or not issubclass(loaded, UMABackend):
        raise _broken(
            place,
            f"it provides {loaded!r:.60}, which is not a UMABackend",
            f'name the class: {name} = "package.module:Class", where Class inherits from '
            "penstock.uma.UMABackend",
        )
    try:
        backend = loaded()
    except PenstockError as error:
        raise error.at(place) from error
    except (Exception, SystemExit) as error:
        raise _broken(
            place,
            f"{loaded.__name__}() raises {type(error).__name__}: {error}",
            "the class is instantiated without arguments; correct its __init__ and define "
            "target_name",
        ) from error
    if backend.target_name != name:
        raise _broken(
            place,
            f'its target_name is "{backend.target_name}", it is listed as "{name}"',
            "use the same name for both",
        )
    return backend


def _broken(place: str, why: str, help: str) -> BackendError:
    """Return the error for an accelerator that cannot be loaded.

    place: the location that the error message states.
    why: the reason why it cannot be loaded.
    help: the advice to the user."""
    return BackendError(
        "backend-049", "the accelerator cannot be loaded", where=place, why=why, help=help
    )
