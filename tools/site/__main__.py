"""Builds the documentation site with Sphinx, offline; a warning or a broken link is an error.

python -m tools.site [-o FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.site.links import problems
from tools.site.sources import ROOT, write_sources

OUTPUT = ROOT / "build" / "site"
INSTALL = 'the documentation site needs Sphinx: pip install -e ".[docs]", or scripts/setup develop'


def main(arguments: Sequence[str]) -> int:
    """Build the site; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("-o", dest="output", type=Path, default=OUTPUT, metavar="FOLDER")
    output: Path = parser.parse_args(arguments).output
    try:
        import furo
        import myst_parser
        import sphinx
    except ModuleNotFoundError as error:
        print(f"error: {INSTALL} ({error})", file=sys.stderr)
        return 1
    del furo, myst_parser, sphinx
    with tempfile.TemporaryDirectory(prefix="penstock-site-") as folder:
        sources, built = Path(folder) / "sources", Path(folder) / "site"
        write_sources(sources)
        if (code := _run_sphinx(sources, built)) != 0:
            return code
        found = problems(built)
        for problem in found:
            print(f"error: {problem}", file=sys.stderr)
        if found:
            return 1
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(built, output)
    print(f"written to {output}/index.html")
    return 0


def _run_sphinx(sources: Path, output: Path) -> int:
    options = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(ROOT / "docs" / "site")]
    doctrees = ["-d", str(sources.parent / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, *doctrees, str(sources), str(output)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
