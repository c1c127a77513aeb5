"""What every test may ask for: the long run, model files, C compilers of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]
C_COMPILERS = ("gcc", "clang", "cc")

# The default draws the same examples every time; the long one draws new ones, and many.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=20,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=1000, derandomize=False
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="draw 1000 examples where 20 are drawn, and run the tests marked long",
    )
    parser.addoption(
        "--layers",
        type=int,
        default=60,
        metavar="COUNT",
        help="how many random layers each simulated core computes; 100000 for a night",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the messages in tests/errors anew; read the diff before you commit it",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; runs only with --long"))


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of model files beside the repository."""
    folder = REPOSITORY.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("there is no folder shared/models beside the repository")
    return folder


@pytest.fixture(scope="session")
def host_compilers() -> tuple[str, ...]:
    """Paths of this machine's C compilers, each program once."""
    found = [path for path in map(shutil.which, C_COMPILERS) if path]
    if not found:
        pytest.skip(f"there is no C compiler here (looked for {', '.join(C_COMPILERS)})")
    return tuple({Path(path).resolve(): path for path in found}.values())
