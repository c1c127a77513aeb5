"""The folder in which penstock caches build products that it can rebuild."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder, created if needed; a temporary folder if it is not writable."""
    folder = _user_cache() / "penstock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = None
    if folder is None or not os.access(folder, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="penstock-"))
    return folder


def _user_cache() -> Path:
    """The cache folder by the convention of the operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
