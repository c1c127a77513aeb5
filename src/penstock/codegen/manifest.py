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
    try:
        lines = (folder / MANIFEST).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        digest, _, name = line.partition(_SEPARATOR)
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            continue
        place = folder / path
        if os.path.lexists(place):
            is_file = place.is_file() and not place.is_symlink()
            yield name, is_file and _digest(place.read_bytes()) == digest


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
