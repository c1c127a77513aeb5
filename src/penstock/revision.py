"""revision: which penstock this is: its version, and its commit if that is known.

The commit is that of the Git checkout that contains the sources, or the one that pip has recorded
when it installed from a repository (PEP 610).  Changes that are not committed do not show.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

DIGITS = 12  # Digits of a commit that are stated.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_LINKS = 5  # Maximum length of a sequence of symbolic references.
_ROOT = Path(__file__).resolve().parents[2]


@cache
def identity() -> str:
    """Return version and commit, such as "0.1.0 (commit 27d466468b3a)"."""
    from importlib.metadata import version

    return described(version("penstock"), commit())


def described(version: str, commit: str) -> str:
    """Return a version and a commit, which may be empty, as a phrase.

    >>> described("0.1.0", "27d466468b3a"), described("0.1.0", "")
    ('0.1.0 (commit 27d466468b3a)', '0.1.0')
    """
    return f"{version} (commit {commit})" if commit else version


@cache
def commit() -> str:
    """Return the first digits of the commit; empty if it is not known."""
    found = commit_of_checkout(_ROOT) if _is_checkout(_ROOT) else _recorded_commit()
    return found[:DIGITS]


def commit_of_checkout(root: Path) -> str:
    """Return the commit that is checked out in a folder; empty if there is none.

    Reads the files of Git itself: HEAD, references and packed references."""
    try:
        folder = _git_folder(root / ".git")
        common = folder / "commondir"  # of a linked worktree
        shared = folder / _text(common) if common.is_file() else folder
        found = _text(folder / "HEAD")
        for _ in range(_MAX_LINKS):
            if not found.startswith("ref: "):
                break
            found = _reference((folder, shared), found.removeprefix("ref: "))
    except (OSError, ValueError):
        return ""
    return found if _COMMIT.fullmatch(found) else ""


def _git_folder(path: Path) -> Path:
    return path.parent / _text(path).removeprefix("gitdir: ") if path.is_file() else path


def _reference(folders: tuple[Path, ...], name: str) -> str:
    """The contents of a reference, which is a file of its own or a line of `packed-refs`."""
    for folder in folders:
        if (folder / name).is_file():
            return _text(folder / name)
    lines = _text(folders[-1] / "packed-refs").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _text(path: Path) -> str:
    return path.read_text("utf-8").strip()


def _is_checkout(root: Path) -> bool:
    """Whether a folder is the repository of penstock, not one into which it is installed."""
    try:
        return (root / ".git").exists() and 'name = "penstock"' in _text(root / "pyproject.toml")
    except (OSError, ValueError):
        return False


def _recorded_commit() -> str:
    """The commit that pip has recorded; empty unless it installed from a repository."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = json.loads(distribution("penstock").read_text("direct_url.json") or "{}")
        found = str(record["vcs_info"]["commit_id"])
    except (PackageNotFoundError, ValueError, LookupError, TypeError):
        return ""
    return found if _COMMIT.fullmatch(found) else ""
