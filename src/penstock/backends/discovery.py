"""discovery: finds accelerators and opens them by name.

An accelerator is found if it is defined in one of these places:

    this process          a backend on which `register()` has been called
    installed packages    an entry point of the group "penstock.backends"

The user names an accelerator and its attributes as NAME[:attr=value,...], for example
ultra_trail:dimension=16.  Only requested accelerators are imported, so a broken package does not
affect others.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from penstock.backends.accelerator import Accelerator
from penstock.backends.contributions import GROUP, broken, declared, package_folder
from penstock.backends.uma.backend import UMABackend, registered
from penstock.backends.uma.checks import name_clash
from penstock.backends.uma.registrations import bad_setting, values
from penstock.errors import PenstockError, UsageError
from penstock.frozen import frozen
from penstock.hardware.load import target_names
from penstock.hardware.target import Target

# The accelerators whose packages are in penstock's repository, for messages.
#
# Nothing else in the core names an accelerator.


# By the name of an accelerator, the extra of penstock that installs its package. The extra "x"
# installs the package penstock-x, which is in the folder accelerators/penstock-x.
PUBLISHED: Mapping[str, str] = {
    "dot4": "dot4",
    "ethos_u55": "ethos-u",
    "ethos_u65": "ethos-u",
    "ethos_u65_256": "ethos-u",
    "ethos_u85": "ethos-u",
    "nvdla": "nvdla",
    "pe_array": "pe-array",
    "smv": "smv",
    "ultra_trail": "ultra-trail",
    "vanilla": "vanilla",
}


OPTION = "--accelerator"


@frozen
class Source:
    """A place that defines an accelerator, such as an installed package.

    name: the name of the accelerator.
    origin: the place, as messages state it.
    load: creates the backend, which describes the accelerator; raises BackendError if that
        fails."""

    name: str
    origin: str
    load: Callable[[], UMABackend]


@frozen
class ListedAccelerator:
    """An accelerator as the command `penstock backend list` shows it.

    origin: the places that define it, such as an installed package.
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
    """Return the accelerators that texts of the form "NAME[:attr=value,...]" request.

    Raises UsageError if there is no such accelerator, attribute or value, or if an accelerator
    is named twice, and BackendError if the definition of an accelerator is invalid."""
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
    if name not in target_names() and is_taken(name):  # to find what is installed takes long
        raise UsageError(
            "usage-058",
            f"{name} is an accelerator, not a target",
            where=f"--target {text}",
            why="it is attached to a processor, which starts it and runs the CPU fallbacks",
            help=f"name both: --target cortex-m55 {OPTION} {text}",
        )


def listed() -> tuple[ListedAccelerator, ...]:
    """Return the accelerators that are found, sorted by name, including those that cannot be
    loaded."""
    return tuple(_listed_accelerator(name, sources) for name, sources in sorted(_sources().items()))


def missing() -> tuple[str, ...]:
    """Return the names of the accelerators of `PUBLISHED` that are not installed."""
    return tuple(sorted(PUBLISHED.keys() - _sources().keys()))


def names() -> tuple[str, ...]:
    """Return the names of the accelerators that are found, sorted."""
    return tuple(sorted(_sources()))


def is_taken(name: str) -> bool:
    """Return whether there is an accelerator called `name`, installed or not."""
    return name in PUBLISHED or name in _sources()


def _open(text: str, chip: Target) -> Accelerator:
    """The accelerator that a user has requested; `open_accelerators` states the errors."""
    name, _, settings = text.partition(":")
    where = f"{OPTION} {text}"
    backend = _backend_named(name, where)
    given = _settings(name, settings, where)
    checked = values(name, backend.attributes, given, where)
    return backend.accelerator({name: checked[name] for name in given}, chip)


def _backend_named(name: str, where: str) -> UMABackend:
    every = _sources()
    if name not in every:
        raise _unknown(name, where)
    return _unique_source(name, every[name]).load()


def _unknown(name: str, where: str) -> UsageError:
    if name in PUBLISHED:
        extra = PUBLISHED[name]
        return UsageError(
            "usage-166",
            f"accelerator {name} is not installed",
            where=where,
            why=f"the package penstock-{extra} provides it",
            help=f"pip install 'penstock[{extra}]'; in a clone of penstock's repository, "
            f"pip install -e accelerators/penstock-{extra}",
        )
    known = names()
    near = difflib.get_close_matches(name, {*known, *PUBLISHED}, 1)
    return UsageError(
        "usage-014",
        f"there is no accelerator {name!r}",
        where=where,
        why=f"the accelerators are {', '.join(known)}" if known else "none is installed",
        help=(f"did you mean {near[0]}? " if near else "")
        + "install the package that provides it (`register()` counts within its process only), "
        "or create one: `penstock backend new NAME`",
    )


def _settings(name: str, settings: str, where: str) -> dict[str, str]:
    """The attribute values that a user has set, as strings, by attribute name: "a=1,b=x"
    gives {"a": "1", "b": "x"}."""
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
    first, *others = sources
    if others:
        raise name_clash(name, f"accelerator {name}", (first.origin, others[0].origin))
    return first


def _sources() -> dict[str, tuple[Source, ...]]:
    # If a backend of a name is registered in this process, it is the only place for this name.
    # Several places for one name are an error, which `_unique_source` raises.
    found: dict[str, tuple[Source, ...]] = {}
    for source in map(_installed_source, entry_points(group=GROUP)):
        found[source.name] = (*found.get(source.name, ()), source)
    for name, backend in registered().items():
        origin = f"registered by {type(backend).__module__}"
        found[name] = (Source(name, origin, lambda backend=backend: backend),)
    return found


def _installed_source(point: EntryPoint) -> Source:
    origin = f"package {point.dist.name} {point.dist.version}" if point.dist else "a package"
    return Source(
        point.name, origin, lambda: _instantiate(point, f"{origin}, module {point.module}")
    )


def _instantiate(point: EntryPoint, place: str) -> UMABackend:
    folder = package_folder(point.module)
    if folder is not None:
        declared(folder)
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        raise broken(
            place,
            f"it cannot be imported: {type(error).__name__}: {error}",
            "import the module manually and correct the error, or uninstall the package",
        ) from error
    if not inspect.isclass(loaded) or not issubclass(loaded, UMABackend):
        raise broken(
            place,
            f"it provides {loaded!r:.60}, which is not a UMABackend",
            f'name the class: {point.name} = "package.module:Class", where Class inherits from '
            "penstock.uma.UMABackend",
        )
    try:
        backend = loaded()
    except PenstockError as error:
        raise error.at(place) from error
    except (Exception, SystemExit) as error:
        raise broken(
            place,
            f"{loaded.__name__}() raises {type(error).__name__}: {error}",
            "the class is instantiated without arguments; correct its __init__ and define "
            "target_name",
        ) from error
    if backend.target_name != point.name:
        raise broken(
            place,
            f'its target_name is "{backend.target_name}", it is listed as "{point.name}"',
            "use the same name for both",
        )
    return backend
