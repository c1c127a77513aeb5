"""Fixtures and options of all tests: quick and long runs, model files, C compilers."""

from __future__ import annotations

import gc
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import beside
from errors.golden import Golden
from penstock import optional
from penstock.api import cache
from penstock.memory import place
from quick import QUICK_EXAMPLES, is_quick

# Packages of accelerators are tested as they are here, wherever they are installed from.
sys.path[:0] = sorted(map(str, Path(__file__).resolve().parent.glob("accelerators/*/src")))

C_COMPILERS = ("gcc", "clang", "cc")
MISSING: list[str] = []
"""The tests that were skipped because nothing is beside the repository."""

# The default profile draws the same examples every time; the long one draws many new ones.
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
settings.register_profile("quick", settings.get_profile("default"), max_examples=QUICK_EXAMPLES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="draw 1000 examples of each law instead of 20, and run the tests marked long",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="run the files in tests/quick.py only, with 3 examples of each law; a minute",
    )
    parser.addoption(
        "--layers",
        type=int,
        default=60,
        metavar="COUNT",
        help="random layers that each simulated core computes; 100000 take a night",
    )
    parser.addoption(
        "--list-missing",
        metavar="FILE",
        help="write the tests to a file that are skipped because nothing is beside the repository",
    )
    parser.addoption(
        "--only",
        metavar="FILE",
        help="run the tests in a file that --list-missing has written",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the messages in tests/errors; read the diff before committing it",
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--long") and config.getoption("--quick"):
        raise pytest.UsageError("--quick and --long exclude each other")
    chosen = [name for name in ("long", "quick") if config.getoption(f"--{name}")]
    settings.load_profile((*chosen, "default")[0])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempts modules and collected tests, which live to the end, from garbage collection.

    Each full collection would visit all of them, at about 7 % of the processor time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out test files that are not quick, if only quick ones are wanted."""
    return True if config.getoption("--quick") and not is_quick(collection_path) else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and beside.is_missing(report.longrepr):
        MISSING.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--list-missing")
    if path and not hasattr(session.config, "workerinput"):  # not in a process of pytest-xdist
        Path(path).write_text("".join(f"{name}\n" for name in sorted(MISSING)), "utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only"):
        wanted = set(Path(config.getoption("--only")).read_text("utf-8").splitlines())
        others = [item for item in items if item.nodeid not in wanted]
        items[:] = [item for item in items if item.nodeid in wanted]
        config.hook.pytest_deselected(items=others)
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes; runs only with --long"))


@pytest.fixture(scope="session", autouse=True)
def without_constraint_solver() -> Iterator[None]:
    """Places as an installation without the extra `optimal`, whose solver spends seconds on the
    few networks on which it runs.  See `constraint_solver`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "is_installed", lambda: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def strict_about_optional_work() -> Iterator[None]:
    """Raises the errors of alternatives and suggestions, which a compilation drops otherwise."""
    with optional.strict():
        yield


@pytest.fixture(scope="session", autouse=True)
def without_results_of_earlier_runs() -> Iterator[None]:
    """Computes every result, here and in processes that tests start, and keeps none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, "")
        yield


@pytest.fixture(scope="module")
def constraint_solver() -> Iterator[None]:
    """Lets the tests of a module place with the constraint solver; skips them without it."""
    if find_spec("ortools") is None:
        pytest.skip("the extra 'optimal' is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "is_installed", lambda: True)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    """What messages are compared with: those in the folder `messages` beside the test."""
    update = bool(request.config.getoption("--update-golden"))
    return Golden(update, tmp_path, request.path.parent / "messages")


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of model files beside the repository; skips if there is none."""
    return beside.needed(beside.MODELS)


@pytest.fixture(scope="session")
def host_compilers() -> tuple[str, ...]:
    """Paths of this machine's C compilers, each program once; skips if there is none."""
    found = [path for path in map(shutil.which, C_COMPILERS) if path]
    if not found:
        pytest.skip(f"there is no C compiler here (looked for {', '.join(C_COMPILERS)})")
    return tuple({Path(path).resolve(): path for path in found}.values())
