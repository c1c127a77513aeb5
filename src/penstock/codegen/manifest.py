"""Manifest: the files that an earlier command has written to a folder, with their digests.

A later command may replace these files if they are unchanged.  Build systems compile every
file of a folder, so it must also remove those that it does not write. The format is that of
`sha256sum`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

MANIFEST = ".penstock-files"
_SEPARATOR = "  "
MOST_BYTES = 2**31
"""Of a manifest, or of a file whose digest is computed: no package has larger files."""


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
    """Whether a path is a file of at most `MOST_BYTES`, no link."""
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= MOST_BYTES


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
