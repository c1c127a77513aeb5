"""Where penstock keeps what it builds once for a user and can build again."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder, made if needed; a temporary one where the user's own cannot be written."""
    folder = _user_cache() / "penstock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = None
    if folder is None or not os.access(folder, os.W_OK):
        return Path(tempfile.mkdtemp(prefix="penstock-"))
    return folder


def _user_cache() -> Path:
    """The operating system's convention."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
