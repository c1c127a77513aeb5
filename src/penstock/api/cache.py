"""Results of earlier compilations, by everything that they depend on.

A search takes seconds; its result depends on nothing but the content of the model and of other
files that a request names, the words of the request, and the programs that compute it.  The digest
of all of these is the key of a file in the user's cache folder, which holds the files of a bundle.

The cache is an optimisation: an entry that cannot be read is dropped and computed again, and a
folder that cannot be written, or that others can write, is not used.  Entries are data (JSON with
a digest), as the files of strangers are; nothing in them is executed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import os
import platform
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import Enum
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.codegen.bundle import Bundle, is_relative
from penstock.frozen import frozen
from penstock.reports.codec import NotDecodedError
from penstock.revision import identity
from penstock.scheduling.options import Options
from penstock.toolchains.command import user_cache

if TYPE_CHECKING:
    from penstock.reports.report import Report

LOGGER: Final = logging.getLogger("penstock.cache")
VARIABLE: Final = "PENSTOCK_CACHE"
"""The environment variable that names another folder; empty: no cache."""
MOST_BYTES: Final = 256 * 2**20
"""Maximum size of all entries; those that have not been used for longest are removed."""
MOST_ENTRY_BYTES: Final = MOST_BYTES // 4
REPORT: Final = "report.json"
_BEGUN: Final = time.time()
_SUFFIX = ".json"
_SUFFIX_OF_NEW = ".new"
_BACKENDS = "penstock.backends"  # The group of entry points, see `backends.discovery`.
_REGISTERED = "penstock.backends.uma.backend"  # The module that knows backends of this process.
_TFLITE = b"TFL3"
_GZIP = b"\x1f\x8b"
_LOCATION = b"location"  # The key in an ONNX file of the name of another file.


class _NotKeptError(Exception):
    """The result depends on something that the key does not contain."""


@frozen
class Key:
    """What a result depends on.

    words: of the request.
    digest: of these words, and of everything else.
    request: the key of the request, if the result depends on more words."""

    words: str
    digest: str
    request: Key | None = None

    def of_bundle(self, packages: str | Sequence[str], format: str) -> Key:
        """The key of all files of a result, in the layouts of some packages or in a format."""
        texts = (packages,) if isinstance(packages, str) else tuple(packages)
        return Key(self.words, _digest(json.dumps([self.digest, texts, format]).encode()), self)

    def is_current(self) -> bool:
        """Return whether no file has changed since the key was made."""
        return _digest_of(self.words) == (self.request or self).digest


def key_of(model: object, target: object, settings: Mapping[str, object]) -> Key | None:
    """The key of a request; None if its result is not kept: a model or schedule built in Python, an
    accelerator registered in this process, an evaluation, which runs other programs."""
    try:
        is_named = isinstance(model, str | Path) and isinstance(target, str)
        if not is_named or settings.get("evaluate") is not None:
            return None
        stated = {name: _plain(settings[name]) for name in sorted(settings)}
        words = json.dumps([str(model), target, stated])
    except _NotKeptError:
        return None
    digest = _digest_of(words)
    return Key(words, digest) if digest else None


def _digest_of(words: str) -> str:
    """The digest of a request and of everything else that its result depends on; empty if that is
    not known."""
    model, _, settings = request = json.loads(words)
    try:
        facts = [
            [identity(), sys.version, platform.machine(), _installed()],
            _folder_digest(Path(__file__).parents[1]),  # of penstock: versions are too coarse
            _accelerator_sources(settings.get("accelerators") or ()),
            request,
            [(name, _file_digest(name)) for name in _named_files(request)],
            [(name, _file_digest(name)) for name in _external_files(Path(model))],
        ]
    except (_NotKeptError, OSError, EOFError):
        return ""
    return _digest(json.dumps(facts).encode())


def _plain(value: object) -> object:
    """The value of a setting in JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Options):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    raise _NotKeptError


def _named_files(words: object) -> Iterator[str]:
    """Yield the files that the words of a request name, alone or as NAME=FILE, or as the value of
    an attribute of an accelerator."""
    if isinstance(words, str):
        parts = re.split("[,:]", words)
        names = {words, *parts, *(one.partition("=")[2] for one in (words, *parts))}
        yield from sorted(name for name in names if name and os.path.isfile(name))
    elif isinstance(words, list | dict):
        for one in words.values() if isinstance(words, dict) else words:
            yield from _named_files(one)


def _external_files(model: Path) -> Iterator[str]:
    """Yield the files beside an ONNX model to which its tensors refer."""
    if not model.is_file():
        return
    with model.open("rb") as file:
        head = file.read(8)
        if head.startswith(_GZIP):
            with gzip.open(model) as unpacked:
                head = unpacked.read(8)
            if not head.endswith(_TFLITE):
                raise _NotKeptError  # it may refer to other files
        if head.endswith(_TFLITE):
            return
        content = head + file.read()
    if _LOCATION not in content:
        return
    from penstock.frontends.onnx.file import external_files  # takes long to import

    found = external_files(content, model.parent)
    if found is None:
        raise _NotKeptError  # the importer refuses it
    yield from map(str, found)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_digest(path: str | Path) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _installed() -> list[str]:
    """The installed packages with their versions: the names of the folders that describe them."""
    found: set[str] = set()
    for folder in sys.path:
        with suppress(OSError):
            names = os.listdir(folder or ".")
            found |= {name for name in names if name.endswith((".dist-info", ".egg-info"))}
    return sorted(found)


def _accelerator_sources(stated: str | Sequence[str]) -> list[tuple[str, str]]:
    """The digests of the packages of accelerators that a request names."""
    wanted = {one.partition(":")[0] for one in ([stated] if isinstance(stated, str) else stated)}
    if not wanted:
        return []
    if _REGISTERED in sys.modules and sys.modules[_REGISTERED].registered():
        raise _NotKeptError
    modules = {
        e.module.partition(".")[0] for e in entry_points(group=_BACKENDS) if e.name in wanted
    }
    return [(name, _module_digest(name)) for name in sorted(modules)]


def _module_digest(name: str) -> str:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise _NotKeptError
    folders = spec.submodule_search_locations
    if folders is None:
        return _file_digest(Path(spec.origin))
    return _digest("".join(_folder_digest(Path(folder)) for folder in folders).encode())


def _folder_digest(folder: Path) -> str:
    """The digest of the files of a package, without those that Python and Numba derive.

    Raises _NotKeptError if one has changed since this process began, which may run the old one."""
    found = hashlib.sha256()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(place, name)
            if path.stat().st_mtime > _BEGUN:
                raise _NotKeptError
            found.update(f"{path.relative_to(folder).as_posix()}\0{_file_digest(path)}\n".encode())
    return found.hexdigest()


def find(key: Key | None) -> Bundle | None:
    """The files under a key; None if there are none, or if they cannot be read."""
    if key is None or (folder := _folder()) is None:
        return None
    path = folder / f"{key.digest}{_SUFFIX}"
    try:
        found = _decoded(path.read_bytes() if path.stat().st_size <= MOST_ENTRY_BYTES else b"")
        os.utime(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        LOGGER.info("a result of an earlier run cannot be read: %s", error)
        return None
    if found is None:
        LOGGER.info("a result of an earlier run is damaged, and is computed again: %s", path)
        with suppress(OSError):
            path.unlink()
        return None
    return found


def report_of(found: Bundle | None) -> Report | None:
    """The report among files that were kept; None if it cannot be read, or if there are none."""
    if found is None:
        return None
    from penstock.reports.report import Report  # takes long to import

    try:
        return Report.from_json(json.loads(found[REPORT]))
    except (NotDecodedError, KeyError, ValueError) as error:
        LOGGER.info("a result of an earlier run is damaged, and is computed again: %s", error)
        return None


def keep(key: Key | None, files: Bundle) -> None:
    """Keep files under a key, for later processes; old ones are removed if there are too many."""
    if key is None or not key.is_current() or (folder := _folder()) is None:
        return
    content = _encoded(files)
    if len(content) > MOST_ENTRY_BYTES:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=folder, suffix=_SUFFIX_OF_NEW, delete=False) as new:
            try:
                new.write(content)
                new.close()
                os.replace(new.name, folder / f"{key.digest}{_SUFFIX}")
            except BaseException:
                with suppress(OSError):
                    os.unlink(new.name)
                raise
        _remove_oldest(folder)
    except OSError as error:
        LOGGER.debug("the result is not kept for later runs: %s", error)


def _remove_oldest(folder: Path) -> None:
    """Remove entries until the others fit into `MOST_BYTES`; another process may do the same."""
    entries: list[tuple[float, int, str]] = []
    with os.scandir(folder) as found:
        for one in found:
            with suppress(FileNotFoundError):
                if one.name.endswith((_SUFFIX, _SUFFIX_OF_NEW)):
                    entries.append((one.stat().st_mtime, one.stat().st_size, one.path))
    excess = sum(size for _, size, _ in entries) - MOST_BYTES
    for _, size, path in sorted(entries):
        if excess <= 0:
            break
        with suppress(FileNotFoundError):
            os.unlink(path)
        excess -= size


def _folder() -> Path | None:
    """The folder of the entries; None if there is none that only this user can write."""
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    folder = Path(named) if named else user_cache() / "penstock" / "results"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        LOGGER.debug("no results of earlier runs: %s", error)
        return None
    is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if not is_own or (os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        LOGGER.info("results of earlier runs are not used: others can write to %s", folder)
        return None
    return folder


def _encoded(files: Bundle) -> bytes:
    pairs = [[name, base64.b64encode(content).decode()] for name, content in files.files]
    content = json.dumps(pairs).encode()
    return f"{_digest(content)}\n".encode() + content


def _decoded(entry: bytes) -> Bundle | None:
    """The files of an entry; None if it is damaged."""
    digest, _, content = entry.partition(b"\n")
    if digest.decode("ascii", "replace") != _digest(content):
        return None
    try:
        pairs = [(str(name), base64.b64decode(text)) for name, text in json.loads(content)]
    except (ValueError, TypeError):
        return None
    return Bundle(tuple(pairs)) if all(is_relative(name) for name, _ in pairs) else None
