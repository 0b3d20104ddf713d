"""The reference says what the code does."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_what_the_code_says() -> None:
    made = runpy.run_path(str(DOCS / "reference.py"))["page"]()
    assert (DOCS / "reference.md").read_text(encoding="utf-8") == made, "run `make reference`"
