"""Bundle: the files of a compiled model, written atomically."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.brief import Brief
from penstock.errors import OutputError


@dataclass(frozen=True, slots=True, repr=False)
class Bundle(Brief):
    """Contents of the files of a compiled model, by path relative to the bundle's folder."""

    files: tuple[tuple[str, bytes], ...]

    def __getitem__(self, name: str) -> bytes:
        return dict(self.files)[name]

    def with_files(self, *more: tuple[str, bytes]) -> Bundle:
        """The bundle with additional files."""
        return Bundle((*self.files, *more))


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Writes the files to a new folder, completely or not at all.

    Raises OutputError if the folder exists and is not empty, or cannot be written."""
    folder = Path(os.path.realpath(folder))  # replaces the target of a symbolic link, not the link
    try:
        _require_free(folder)
        with _new_parents(folder):
            staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                _write_files(bundle, staging)
                staging.chmod(0o755)
                os.replace(staging, folder)
            except BaseException:
                shutil.rmtree(staging, ignore_errors=True)
                raise
    except OSError as error:
        raise OutputError(
            "output-002",
            f"the output folder cannot be written: {error.strerror or error}",
            where=str(folder),
            help="use a folder in an existing, writable location",
        ) from error


def _require_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(
            "output-001",
            "the output folder exists" if folder.is_dir() else "the output is a file",
            where=str(folder),
            help="name a folder that does not exist yet, or remove it first",
        )


@contextmanager
def _new_parents(folder: Path) -> Generator[None]:
    """Creates the missing parents of a folder, and removes them if the context fails."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    made: list[Path] = []
    try:
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            made.append(parent)
        yield
    except BaseException:
        for parent in reversed(made):
            with suppress(OSError):  # it is no longer empty
                parent.rmdir()
        raise


def _write_files(bundle: Bundle, folder: Path) -> None:
    for name, content in bundle.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
