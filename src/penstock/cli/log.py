"""What penstock logs, such as that it compiles the search, on stderr."""

from __future__ import annotations

import logging
import sys


class _StandardError(logging.Handler):
    """Prints on `sys.stderr`, which a progress bar replaces while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            print(record.getMessage(), file=sys.stderr, flush=True)


def show_details(wanted: bool) -> bool:
    """Also print what penstock logs for those who look for defects; returns the argument."""
    if wanted:
        logging.getLogger("penstock").setLevel(logging.DEBUG)
    return wanted


def show_log() -> None:
    """Print what penstock logs until the process ends."""
    logger = logging.getLogger("penstock")
    logger.addHandler(_StandardError())
    logger.setLevel(logging.INFO)
