"""The fixture of the reports' tests."""

import pytest
from small_compilation import Example, make_example


@pytest.fixture
def example() -> Example:
    return make_example()
