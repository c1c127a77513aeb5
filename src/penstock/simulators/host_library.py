"""Builds C files of this package as shared libraries, once per user."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from functools import cache
from pathlib import Path

from penstock.toolchains.command import cache_folder
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler, link_shared, shared_suffix


@cache
def host_library(source: Path) -> Path:
    """The shared library of a C file, built if it is not cached; safe with concurrent processes.

    The cache key is a hash of the text and of the kind of machine."""
    folder = cache_folder()
    text = source.read_text() + platform.machine() + platform.system()
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    built = folder / f"{source.stem}-{key}{shared_suffix()}"
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=folder) as name:
            objects = compile_objects(host_compiler(), [source], Path(name))
            os.replace(link_shared(host_compiler(), objects, Path(name) / built.name), built)
    return built
