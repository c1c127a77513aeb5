"""The browser of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser; skips if there is none."""
    found = Browser()
    yield found
    found.close()
