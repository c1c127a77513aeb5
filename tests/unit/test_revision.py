"""The commit of penstock: read from the files of Git, which Git itself writes here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import penstock
from penstock import exploration, revision
from penstock.api import compiling
from penstock.pipeline import emission

SAYS_NOTHING = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a"}


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name, value in {**SAYS_NOTHING, "GIT_COMMITTER_EMAIL": "a"}.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "checkout"
    root.mkdir()
    run(root, "init", "--quiet", "--initial-branch", "feature/a")
    run(root, "commit", "--quiet", "--allow-empty", "--message", "a")
    return root


def run(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_branches_packed_branches_detached_heads_and_worktrees(git: Path) -> None:
    head = run(git, "rev-parse", "HEAD")
    assert revision.commit_of_checkout(git) == head
    run(git, "worktree", "add", "--quiet", "-b", "b", "../linked")
    linked = git.parent / "linked"
    assert revision.commit_of_checkout(linked) == head
    run(git, "pack-refs", "--all")
    assert not (git / ".git/refs/heads/feature/a").exists()
    assert revision.commit_of_checkout(git) == head
    run(linked, "commit", "--quiet", "--allow-empty", "--message", "b")
    assert revision.commit_of_checkout(linked) == run(linked, "rev-parse", "HEAD") != head
    run(git, "checkout", "--quiet", "--detach")
    assert revision.commit_of_checkout(git) == head


def test_folders_without_a_commit(tmp_path: Path) -> None:
    assert revision.commit_of_checkout(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    assert revision.commit_of_checkout(tmp_path) == ""
    for text in ("ref: refs/heads/missing", "ref: HEAD", "not a commit"):
        (tmp_path / ".git" / "HEAD").write_text(text, "utf-8")
        assert revision.commit_of_checkout(tmp_path) == ""


def test_reports_and_generated_files_state_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emission, "identity", lambda: "9.9 (commit 0123456789ab)")
    for module in (compiling, exploration):
        monkeypatch.setattr(module, "commit", lambda: "0123456789ab")
    done = penstock.compile(Path(__file__).parents[1] / "models" / "two_heads.tflite")
    for name in ("two_heads.h", "two_heads.c"):
        assert b"Written by penstock 9.9 (commit 0123456789ab);" in done.bundle()[name]
    assert json.loads(done.bundle()["report.json"])["commit"] == "0123456789ab"
    words = f"by penstock {penstock.__version__} (commit 0123456789ab)"
    assert words.encode() in done.bundle()["report.html"]
    explored = penstock.explore(Path(__file__).parents[1] / "models" / "two_heads.tflite")
    assert words.encode() in explored.bundle()["frontier.html"]
    assert json.loads(explored.bundle()["frontier.json"])["commit"] == "0123456789ab"
