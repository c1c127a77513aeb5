"""registry: finds accelerators and opens them by name.

    registered in this process      Backend().register()
    this folder                     a module with the name of the accelerator; for a family that
                                    shares a folder, modules whose names begin with the folder's
    installed packages              an entry point of the group "penstock.backends"

    NAME[:attr=value,...]           ultra_trail:dimension=16

Only requested accelerators are imported, so a broken package does not affect others.
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
    """The origin of an accelerator, and a function that creates its backend.  `load` raises
    BackendError."""

    name: str
    origin: str
    load: Callable[[], UMABackend]


@dataclass(frozen=True, slots=True)
class ListedAccelerator:
    """An accelerator as `backend list` shows it; `problem` states why it is broken, if it is."""

    name: str
    origin: str
    attributes: Mapping[str, str | int | bool | float]
    patterns: tuple[str, ...]
    operators: tuple[str, ...]
    problem: str = ""


def open_accelerators(texts: Sequence[str], chip: Target) -> tuple[Accelerator, ...]:
    """The accelerators of the specifications "NAME[:attr=value,...]", for a chip.

    Raises UsageError if there is no such accelerator, attribute or value, and BackendError if an
    accelerator's description is wrong."""
    found: dict[str, Accelerator] = {}
    for text in texts:
        accelerator = _open(text, chip)
        if accelerator.name in found:
            raise bad_setting(
                f"accelerator {accelerator.name} is named twice",
                f"{OPTION} {text}",
                f"write all its attributes behind one {OPTION}, with commas",
            )
        found[accelerator.name] = accelerator
    return tuple(found.values())


def check_is_target(text: str) -> None:
    """Raises UsageError if the name of a target is that of an accelerator."""
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
    """Every accelerator in order of names, including broken ones."""
    return tuple(_listed(name, sources) for name, sources in sorted(_sources().items()))


def names() -> tuple[str, ...]:
    """The names of all accelerators."""
    return tuple(sorted(_sources()))


def _open(text: str, chip: Target) -> Accelerator:
    name, _, settings = text.partition(":")
    where = f"{OPTION} {text}"
    backend = _loaded(name, where)
    given = _settings(name, settings, where)
    checked = values(name, backend.attributes, given, where)
    return backend.accelerator({name: checked[name] for name in given}, chip)


def _loaded(name: str, where: str) -> UMABackend:
    every = _sources()
    if name not in every:
        raise _unknown(name, sorted(every), where)
    return _only(name, every[name]).load()


def _unknown(name: str, known: Sequence[str], where: str) -> UsageError:
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
    """The values in "attr=value,...", as text."""
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


def _listed(name: str, sources: tuple[Source, ...]) -> ListedAccelerator:
    origin = ", ".join(source.origin for source in sources)
    try:
        backend = _only(name, sources).load()
        made = backend.accelerator()
    except PenstockError as error:
        return ListedAccelerator(name, origin, {}, (), (), str(error))
    patterns = tuple(pattern.name for pattern in made.patterns)
    operators = tuple(dict.fromkeys(strategy.op for strategy in made.strategies))
    return ListedAccelerator(name, origin, backend.attributes, patterns, operators)


def _only(name: str, sources: tuple[Source, ...]) -> Source:
    """The source of a name.  Raises BackendError if there are several."""
    first, *others = sources
    if others:
        raise name_clash(name, f"accelerator {name}", (first.origin, others[0].origin))
    return first


def _sources() -> dict[str, tuple[Source, ...]]:
    """The sources of all accelerators by name; a registration in this process hides others."""
    found: dict[str, tuple[Source, ...]] = {}
    for source in (*_own(), *_installed()):
        found[source.name] = (*found.get(source.name, ()), source)
    for name, backend in registered().items():
        origin = f"registered by {type(backend).__module__}"
        found[name] = (Source(name, origin, lambda backend=backend: backend),)
    return found


def _own() -> list[Source]:
    """The accelerators of this folder."""
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
        _source(
            name, "penstock", f"{folder.__name__}.{module}", lambda m: _class_of(import_module(m))
        )
        for name, module in found
    ]


def _class_of(module: ModuleType) -> object:
    """The backend class that a module defines."""
    classes = (
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, UMABackend)
        and f"{value.__module__}.".startswith(f"{module.__name__}.")
    )
    return next(classes, module)


def _installed() -> list[Source]:
    """The accelerators of installed packages."""
    return [
        _source(point.name, _package(point), point.module, lambda _, point=point: point.load())
        for point in entry_points(group=GROUP)
    ]


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _source(name: str, origin: str, module: str, load: Callable[[str], object]) -> Source:
    """A source whose class `load` returns, from the module that defines it."""
    return Source(name, origin, lambda: _made(name, f"{origin}, module {module}", module, load))


def _made(name: str, package: str, module: str, load: Callable[[str], object]) -> UMABackend:
    """The backend of a package.  Raises BackendError if its constructor fails."""
    try:
        loaded = load(module)
    except (Exception, SystemExit) as error:
        raise _broken(
            package,
            f"it cannot be imported: {type(error).__name__}: {error}",
            "import the module manually and correct the error, or uninstall the package",
        ) from error
    if not inspect.isclass(loaded) or not issubclass(loaded, UMABackend):
        raise _broken(
            package,
            f"it provides {loaded!r:.60}, which is not a UMABackend",
            f'name the class: {name} = "package.module:Class", where Class inherits from '
            "penstock.uma.UMABackend",
        )
    try:
        backend = loaded()
    except PenstockError as error:
        raise error.at(package) from error
    except (Exception, SystemExit) as error:
        raise _broken(
            package,
            f"{loaded.__name__}() raises {type(error).__name__}: {error}",
            "the class is instantiated without arguments; correct its __init__ and define "
            "target_name",
        ) from error
    if backend.target_name != name:
        raise _broken(
            package,
            f'its target_name is "{backend.target_name}", it is listed as "{name}"',
            "use the same name for both",
        )
    return backend


def _broken(package: str, why: str, help: str) -> BackendError:
    return BackendError(
        "backend-049", "the accelerator cannot be loaded", where=package, why=why, help=help
    )
