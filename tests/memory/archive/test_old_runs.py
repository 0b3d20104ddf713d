"""Cleanup of past runs: their text is removed, their records and running ones stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from repoagent.llm.conversation import Turn, append
from repoagent.memory.gc import forget_conversations
from repoagent.storage.atomic import write_whole
from repoagent.storage.locks import locked
from tests.memory.archive.conftest import fail
from tests.memory.conftest import Desk

NOW = time.time()


def run_of(desk: Desk, name: str, days: float) -> Path:
    """What a run has left that ended so many days ago."""
    home = desk.layout.runs / name
    (home / "output").mkdir(parents=True)
    (home / "inbox").mkdir()
    (home / "changes").mkdir()
    for path in ("output/1.txt", "plan.md", "run.json", "lock", "changes/1"):
        (home / path).write_text("words")
    append(desk.layout.conversations / f"{name}.md", Turn("user", "words"))
    age(NOW - days * 86_400, home, *home.iterdir(), *desk.layout.conversations.glob(f"{name}.md*"))
    return home


def age(moment: float, *paths: Path) -> None:
    for path in sorted(paths, reverse=True):  # a folder after what is in it
        os.utime(path, (moment, moment))


def test_the_words_of_old_runs_go(desk: Desk) -> None:
    old, new, mine = run_of(desk, "run-old", 40), run_of(desk, "run-new", 3), run_of(desk, "mine", 40)
    said = desk.layout.conversations
    append(said / "chat-alone.md", Turn("user", "words"))
    age(NOW - 40 * 86_400, *said.glob("chat-alone.md*"))
    gone = desk.layout.runs / ".gone-1"
    gone.mkdir()
    (gone / "x").write_text("half")
    would = forget_conversations(desk.layout, 30, apply=False, now=NOW, warn=fail)
    assert would.runs == 4 and would.bytes > 0 and gone.exists() and (old / "output/1.txt").exists()
    assert forget_conversations(desk.layout, 30, now=NOW, warn=fail) == would
    assert {path.name for path in old.iterdir()} == {"run.json", "lock", "changes"}
    assert {path.name for path in mine.iterdir()} == {"run.json", "lock", "changes"}
    assert {path.name for path in said.glob("*.md")} == {"run-new.md", "mine.md"}
    assert (new / "output/1.txt").exists() and not gone.exists()
    assert not forget_conversations(desk.layout, 30, now=NOW, warn=fail)


def test_a_run_at_work_keeps_all(desk: Desk) -> None:
    home = run_of(desk, "run-old", 40)
    with locked(home / "lock", what="the run"):
        age(NOW - 40 * 86_400, home, *home.iterdir())
        for apply in (False, True):
            assert forget_conversations(desk.layout, 30, apply=apply, now=NOW, warn=fail).runs == 0
    assert (home / "output/1.txt").exists()
    write_whole(home / "run.json", b"it has ended just now")
    assert forget_conversations(desk.layout, 30, now=NOW, warn=fail).runs == 0
    age(NOW - 40 * 86_400, home)
    (home / "plan.md").write_text("changed by hand just now")
    assert forget_conversations(desk.layout, 30, now=NOW, warn=fail).runs == 0


def test_links_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("words")
    age(NOW - 40 * 86_400, outside, outside / "precious")
    home = run_of(desk, "run-old", 40)
    (home / "inbox").rmdir()
    (home / "inbox").symlink_to(outside)
    (desk.layout.runs / "link").symlink_to(outside)
    os.utime(home / "inbox", (0, 0), follow_symlinks=False)
    age(NOW - 40 * 86_400, home)
    assert forget_conversations(desk.layout, 30, now=NOW, warn=fail).runs == 1
    assert (outside / "precious").exists() and not (home / "inbox").is_symlink()
