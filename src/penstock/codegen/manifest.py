"""Manifest: the files that an earlier command has written to a folder, with their digests.

Build systems compile every file of a folder, so --force must remove the files of
an earlier compilation. The format is that of `sha256sum`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MANIFEST = ".penstock-files"
_SEPARATOR = "  "


def manifest(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """Return the manifest of files, given as pairs of path and content.

    >>> manifest((("a.c", b""),))[:16], manifest((("a.c", b""),))[-6:]
    (b'e3b0c44298fc1c14', b'  a.c\\n')
    """
    return "".join(f"{_digest(content)}{_SEPARATOR}{name}\n" for name, content in files).encode()


def unchanged_files(folder: Path) -> Iterator[str]:
    """Yield the files of a folder's manifest that have not been changed since."""
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
        if place.is_file() and not place.is_symlink() and _digest(place.read_bytes()) == digest:
            yield name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
