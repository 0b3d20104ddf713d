"""The page on the architecture names what is there, and leaves out no room."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "repoagent"
PAGE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_room_is_in_the_house() -> None:
    """The folders of single commands are what the line on `cli/` says of them."""
    named = re.findall(r"^((?:[a-z_/]+/ +)+)", PAGE.split("```")[1], re.MULTILINE)
    rooms = {room.rstrip("/") for names in named for room in names.split()}
    there = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")} - {"."}
    assert {room for room in there if not room.startswith("cli/")} == rooms


def test_every_file_that_is_named_is_there() -> None:
    there = [
        f"/{path.relative_to(TOP).as_posix()}" for path in (*PACKAGE.rglob("*"), *TOP.glob("tests/**/*"))
    ]
    named = re.findall(r"`([a-z_][\w/]*(?:/|\.(?:py|c)))`", PAGE)
    elsewhere = {"repoagent/edits/"}  # in the git directory
    assert len(named) > 50
    missing = [name for name in named if not any(path.endswith("/" + name.rstrip("/")) for path in there)]
    assert set(missing) == elsewhere
