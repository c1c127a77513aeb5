"""contributions: what the packages of accelerators add to commands.

A package states it in the file `penstock.toml` beside its modules. Help texts read this file, which
imports neither the package nor NumPy:

    [formats.NAME]      compile --format NAME: a file in place of C
    [rungs.NAME]        verify --last-rung NAME: a rung after all others
    [kinds.NAME]        backend new --kind NAME: files to begin with

Each table has `help`, and may have an `example` of the command. Formats and rungs have an `object`,
"module:NAME", which is a `FileFormat` or a `FileRunner`. Kinds have `templates`, a folder of Jinja
templates in the package, and `next`, the command to run on their results. In `next`, "{folder}"
stands for the new folder, and "{name}" for what the user called it, as in names of templates.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.errors import BackendError
from penstock.frozen import frozen

if TYPE_CHECKING:
    from penstock.backends.accelerator import AcceleratorTarget
    from penstock.ir.foreign import ForeignModel
    from penstock.program.program import Program

_Loaded = TypeVar("_Loaded", "FileFormat", "FileRunner")
GROUP = "penstock.backends"  # Of the entry points of accelerators.
FILE = "penstock.toml"
FORMATS, RUNGS, KINDS = "formats", "rungs", "kinds"
# By section, the keys that each table has.
_KEYS = {
    FORMATS: {"help", "object"},
    RUNGS: {"help", "object"},
    KINDS: {"help", "templates", "next"},
}


@frozen
class ModelFile:
    """The file of a network that is compiled.

    where: the file, as messages state it.
    raw: its contents.
    tflite: the model in a TFLite file whose operators are those of the network; None for other
        files, and for networks without a file."""

    where: str
    raw: bytes
    tflite: ForeignModel | None


@frozen
class FileFormat:
    """A file that `compile --format` writes in place of C.

    file_name: its name, in which "{prefix}" stands for the name of the model's library.
    write: returns the contents for a program; raises UnsupportedError if the format cannot state
        it.  The programs of other schedules are then tried."""

    file_name: str
    write: Callable[[Program, ModelFile], bytes]


@frozen
class FileRunner:
    """The vendor's own software as a judge, on a rung of `verify`: it runs a network as a file.

    format: the name of the file's format.
    networks: what it runs, in messages, such as "networks on an NPU".
    outputs: what is compared with the reference, for the report.
    require: raises ToolError unless everything that `run` needs is installed.
    run: receives the file, its inputs one after another, the size of its outputs in bytes, and the
        target; returns the outputs one after another."""

    format: str
    networks: str
    outputs: str
    require: Callable[[], object]
    run: Callable[[bytes, bytes, int, AcceleratorTarget], bytes]


@frozen
class Contribution:
    """Something that a package adds to a command.

    texts: the values of its table, by key.
    folder: the folder of the package's modules.
    accelerators: the names of the package's accelerators, sorted."""

    name: str
    texts: Mapping[str, str]
    folder: Path
    accelerators: tuple[str, ...]

    def load(self, kind: type[_Loaded]) -> _Loaded:
        """Import the object of a format or a rung.  Raises BackendError if that fails."""
        place = self.texts["object"]
        module, _, name = place.partition(":")
        try:
            found = getattr(import_module(module), name)
        except Exception as error:
            raise _invalid(self.folder, f"{place} cannot be imported: {error}") from error
        if not isinstance(found, kind):
            raise _invalid(self.folder, f"{place} is no {kind.__name__}")
        return found


def contributions(section: str) -> dict[str, Contribution]:
    """Return what installed packages add to a command, by name; packages with an invalid file add
    nothing.

    section: `FORMATS`, `RUNGS` or `KINDS`."""
    return {found.name: found for found in sorted(_every(section), key=lambda found: found.name)}


def contribution(section: str, name: str) -> Contribution:
    """Return the contribution of a name that `contributions` lists.

    Raises BackendError if several packages have one of this name."""
    found, *others = (found for found in _every(section) if found.name == name)
    if others:
        raise _invalid(
            found.folder,
            f"{others[0].folder.name} contributes {section}.{name}, too",
            "remove one of the packages",
        )
    return found


def declared(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Return the tables in the file of a package, by section and name; none without a file.

    Raises BackendError if the file is invalid."""
    path = folder / FILE
    try:
        text = path.read_text("utf-8") if path.is_file() else ""
        return {section: _tables(section, of) for section, of in tomllib.loads(text).items()}
    except (OSError, ValueError) as error:
        raise _invalid(folder, str(error)) from error


def _tables(section: str, tables: object) -> dict[str, dict[str, str]]:
    """The tables of a section, by name.  Raises ValueError."""
    if section not in _KEYS or not isinstance(tables, dict):
        raise ValueError(f"there is no section {section}")
    found: dict[str, dict[str, str]] = {}
    for name, table in cast(dict[str, object], tables).items():
        items = cast(dict[str, object], table).items() if isinstance(table, dict) else ()
        found[name] = {key: text for key, text in items if isinstance(text, str)}
        if len(items) != len(found[name]) or found[name].keys() - {"example"} != _KEYS[section]:
            keys = ", ".join(sorted(_KEYS[section]))
            raise ValueError(f"{section}.{name} does not consist of the texts {keys}")
    return found


def broken(place: str, why: str, help: str) -> BackendError:
    """Return the error for a package that does not work."""
    return BackendError(
        "backend-049", "the accelerator cannot be loaded", where=place, why=why, help=help
    )


def package_folder(module: str) -> Path | None:
    """Return the folder of the package in which a module is, without importing it; None if it is
    in none."""
    try:
        spec = find_spec(module.partition(".")[0])
    except ValueError:  # of a module that has no specification
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def _every(section: str) -> Iterator[Contribution]:
    by_folder: dict[Path, list[str]] = {}
    for point in entry_points(group=GROUP):
        folder = package_folder(point.module)
        if folder is not None:
            by_folder.setdefault(folder, []).append(point.name)
    for folder, names in sorted(by_folder.items()):
        try:
            tables = declared(folder).get(section, {})
        except BackendError:  # stated when one of its accelerators is requested
            continue
        for name, texts in tables.items():
            yield Contribution(name, texts, folder, tuple(sorted(names)))


def _invalid(
    folder: Path, why: str, help: str = "correct the file, or uninstall the package"
) -> BackendError:
    return broken(f"package {folder.name}, {FILE}", why, help)
