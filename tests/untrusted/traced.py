"""Runs a penstock command and records what it opens, changes and starts, by Python's audit hook.

Usage: traced.py RECORD WORD ..
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.symlink", "os.link")
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")


def main() -> None:
    record, *words = sys.argv[1:]
    opened: list[tuple[str, str]] = []
    changed: list[tuple[str, ...]] = []
    started: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, _, flags = arguments
            is_written = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            opened.append((os.path.realpath(os.fsdecode(path)), "w" if is_written else "r"))
        elif event in CHANGES:
            paths = (x for x in arguments[:2] if isinstance(x, str | bytes))
            changed.append((event, *(os.path.abspath(os.fsdecode(x)) for x in paths)))
        elif event in STARTS:
            started.append(repr(arguments))

    from penstock.cli import run

    sys.addaudithook(hook)
    sys.argv = ["penstock", *words]
    try:
        run()
    finally:
        found = {"opened": list(opened), "changed": list(changed), "started": list(started)}
        with open(record, "w", encoding="utf-8") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
