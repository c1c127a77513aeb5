"""Guides that messages refer to exist under the titles that they state."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.guides import INSTALLED_FOLDER, TITLES, guide

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", TITLES)
def test_a_message_names_title_and_path_of_a_guide(page: str) -> None:
    title, _, path = guide(page).partition(": ")
    (first, *_) = Path(path).read_text("utf-8").splitlines()
    assert title == f'guide "{first.removeprefix("# ")}"'


def test_wheels_contain_the_guides_where_messages_look_for_them() -> None:
    assert f'"{INSTALLED_FOLDER}" = ' in (ROOT / "pyproject.toml").read_text("utf-8")
