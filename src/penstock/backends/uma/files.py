"""Reading of an accelerator's source files from the folder of its backend's module."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from penstock.backends.uma.registrations import Files
from penstock.errors import BackendError


def read_sources(files: Files, bases: tuple[type, ...], where: str) -> tuple[tuple[str, str], ...]:
    """Return the (name, contents) pairs of `files`, reading files that are given by name only.

    bases: the backend's class and its base classes.  The folders of the modules that define these
        classes are searched in order.

    Raises BackendError, with `where` as the location, if a file cannot be read."""
    if isinstance(files, Mapping):
        return tuple(files.items())
    names = (files,) if isinstance(files, str) else files
    return tuple((name, _read(name, bases, where)) for name in names)


def _read(name: str, bases: tuple[type, ...], where: str) -> str:
    reason = "the class is in no file"
    for folder in _folders(bases):
        try:
            return (folder / name).read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise BackendError(
        "backend-045",
        f'source file "{name}" cannot be read',
        where=where,
        why=reason,
        help="name files in the folder of the backend's module, or pass {name: text}; a package "
        "must list the files as package data",
    )


def _folders(bases: tuple[type, ...]) -> Iterator[Path]:
    """Yield the folders of the modules that define the classes.

    Classes that are defined in no file, such as those typed into an interpreter, are skipped."""
    for base in bases:
        with suppress(OSError, TypeError):  # a class typed into an interpreter has no file
            yield Path(inspect.getfile(base)).parent
