"""Bundle: the files of a compiled model, written atomically, with a manifest.

The manifest, in the format of `sha256sum`, lists the files that a command has written to a folder.
A later one may replace these if they are unchanged.  Build systems compile every file of a folder,
so it must also remove those that it does not write.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from penstock.brief import Brief
from penstock.errors import OutputError
from penstock.frozen import frozen
from penstock.interruption import delayed
from penstock.ir.text.attributes import ConstantTable, data_lines
from penstock.quoting import quoted

MANIFEST = ".penstock-files"
_SEPARATOR = "  "
# Of a manifest, or of a file whose digest is computed: no package has larger files.
MOST_BYTES = 2**31


def manifest(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """Return the manifest of files, given as pairs of path and content.

    >>> manifest((("a.c", b""),))[:16], manifest((("a.c", b""),))[-6:]
    (b'e3b0c44298fc1c14', b'  a.c\\n')
    """
    return "".join(f"{_digest(content)}{_SEPARATOR}{name}\n" for name, content in files).encode()


def listed_files(folder: Path) -> Mapping[str, bool]:
    """Return the files of a folder's manifest that exist, and whether each is unchanged since."""
    return dict(_listed(folder))


def _listed(folder: Path) -> Iterator[tuple[str, bool]]:
    if not _is_plain_file(folder / MANIFEST):
        return
    try:
        lines = (folder / MANIFEST).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        digest, _, name = line.partition(_SEPARATOR)
        if not is_relative(name):
            continue
        place = folder / PurePosixPath(name)
        if os.path.lexists(place):
            yield name, _is_plain_file(place) and _file_digest(place) == digest


def is_relative(name: str) -> bool:
    """Whether a path leads to a file in the folder to which it is relative, on every system.

    >>> [is_relative(name) for name in ("src/a.c", "", "../a", "/a", "C:a", "a\\\\b", "a\\0")]
    [True, False, False, False, False, False, False]
    """
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] != "/" and not set(name) & set("\\:\0")


def _is_plain_file(path: Path) -> bool:
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= MOST_BYTES


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


NAMED_FILES = 4  # Maximum number of changed files that a message names.


@frozen(repr=False)
class Bundle(Brief, Mapping[str, bytes]):
    """Contents of the files of a compiled model, by path relative to the bundle's folder."""

    files: tuple[tuple[str, bytes], ...]

    def __getitem__(self, name: str) -> bytes:
        return dict(self.files)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.files)

    def __len__(self) -> int:
        return len(self.files)

    def with_files(self, *more: tuple[str, bytes]) -> Bundle:
        """The bundle with additional files."""
        return Bundle((*self.files, *more))

    def with_manifest(self) -> Bundle:
        """The bundle with a list of its files, which lets `write_bundle` replace it later."""
        return self.with_files((MANIFEST, manifest(self.files)))


class Bundled(ABC):
    """What is written as a bundle."""

    __slots__ = ()

    @abstractmethod
    def bundle(self) -> Bundle:
        """Its files."""

    def write(self, folder: str | Path, *, force: bool = False) -> None:
        """Write the bundle into a new folder, or over an unchanged earlier bundle; with `force`,
        replace files of the same names in any folder.  Raises OutputError."""
        write_bundle(self.bundle().with_manifest(), Path(folder), force=force)


def write_bundle(bundle: Bundle, folder: Path, *, force: bool = False) -> None:
    """Writes the files to a folder, completely or not at all, even if a signal interrupts it.

    Unchanged files of an earlier bundle are replaced or removed, other files are kept.

    force: files of the same names are replaced even if no earlier bundle contains them, or someone
        has changed them.

    Raises OutputError as `check_output`."""
    check_output(folder, [name for name, _ in bundle.files], force=force)
    folder = _real(folder)
    with _reported(folder), delayed() as check_interruption, _new_parents(folder):
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write_files(bundle, staging)
            check_interruption()
            if folder.exists() and any(folder.iterdir()):
                _replace_files(bundle, staging, folder)
            else:
                staging.chmod(0o755)
                os.replace(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def check_output(folder: Path, names: Collection[str] = (), *, force: bool = False) -> None:
    """Check that `write_bundle` can write to a folder, before the work begins.

    Raises OutputError if the folder cannot be written, if it is or contains a symbolic link, or if,
    without `force`, it is not empty.  It may contain an unchanged earlier bundle with one of the
    files `names`."""
    real = _real(folder)
    with _reported(real):
        if folder.is_symlink():
            raise _linked("the output folder is a link", folder, "name the folder that it leads to")
        folder = real
        if folder.exists() and not folder.is_dir():
            raise _occupied("the output is a file", folder)
        is_filled = folder.exists() and any(folder.iterdir())
        if is_filled and not force and not os.path.lexists(folder / MANIFEST):
            raise _occupied("the output folder exists", folder)
        _check_has_no_links(folder)
        if is_filled and not force:
            _check_is_earlier_bundle(folder, names)
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_has_no_links(folder: Path) -> None:
    """Raises OutputError if a folder contains a link, at any depth: someone else may have made it,
    so that files elsewhere are replaced or removed."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for path in (Path(place, name) for name in (*folders, *sorted(files))):
            if path.is_symlink():
                help = "remove the link, or name another folder"
                raise _linked("the output folder contains a link", path, help)


def _linked(what: str, link: Path, help: str) -> OutputError:
    why = f"it leads to {os.readlink(link)}; files there would be replaced or removed"
    return OutputError("output-005", what, where=str(link), why=why, help=help)


def _check_is_earlier_bundle(folder: Path, names: Collection[str]) -> None:
    """Raises OutputError unless the files that a bundle replaces are those of an earlier one."""
    listed = listed_files(folder)
    if not any(name in listed for name in names):
        raise _occupied("the output folder exists", folder)
    changed = [name for name, is_unchanged in listed.items() if not is_unchanged]
    others = (name for name in names if name not in listed and name != MANIFEST)
    changed += [name for name in others if os.path.lexists(folder / name)]
    if changed:
        named = ", ".join(changed[:NAMED_FILES])
        more = len(changed) - NAMED_FILES
        named += f" and {more} more" if more > 0 else ""
        raise _occupied(f"files in the output folder were changed or added: {named}", folder)


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


@contextmanager
def _reported(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            "output-002",
            f"the output folder cannot be written: {error.strerror or error}",
            where=str(folder),
            help="use a folder in a writable location; missing folders above it are created",
        ) from error


def _occupied(what: str, folder: Path) -> OutputError:
    is_folder = folder.is_dir()
    return OutputError(
        "output-001",
        what,
        where=str(folder),
        help="name a folder that does not exist yet"
        + (", or replace its files with --force" if is_folder else ", or remove the file first"),
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


def _replace_files(bundle: Bundle, staging: Path, folder: Path) -> None:
    before = Path(tempfile.mkdtemp(dir=staging))
    unchanged = {name for name, is_unchanged in listed_files(folder).items() if is_unchanged}
    obsolete = sorted(unchanged - {name for name, _ in bundle.files})
    with ExitStack() as undo:
        for number, name in enumerate(obsolete, len(bundle.files)):
            os.replace(folder / name, before / str(number))
            undo.callback(os.replace, before / str(number), folder / name)
        for number, (name, _) in enumerate(bundle.files):
            place, kept = folder / name, before / str(number)
            for parent in reversed([parent for parent in place.parents if not parent.exists()]):
                parent.mkdir()
                undo.callback(parent.rmdir)
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{os.strerror(errno.EISDIR)}: {name}")
            if os.path.lexists(place):
                os.replace(place, kept)
                undo.callback(os.replace, kept, place)
            else:
                undo.callback(place.unlink, missing_ok=True)
            os.replace(staging / name, place)
        undo.pop_all()
    for parent in (parent for name in obsolete for parent in (folder / name).parents):
        if parent.is_relative_to(folder) and parent != folder:
            with suppress(OSError):  # it is not empty, or already removed
                parent.rmdir()


def print_bundle(bundle: Bundle, *, with_data: bool = False) -> str:
    """The text of a bundle; `with_data` appends the contents of the files."""
    table = ConstantTable()
    lines = [
        f"file {quoted(name)} {len(content)} bytes {table.refer(content)}\n"
        for name, content in bundle.files
    ]
    text = f"bundle\n{''.join(lines)}"
    return text + data_lines(table.found) if with_data else text
