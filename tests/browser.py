"""A headless Chromium that renders a page and runs its scripts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(_PROGRAM is None, reason="Chromium is not installed")


def rendered(page: Path, *, width: int = 1280) -> str:
    """Return the HTML of `page` after two virtual seconds. The browser's profile is a folder next to it."""
    done = subprocess.run(
        [str(_PROGRAM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},800",
         "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.decode()
