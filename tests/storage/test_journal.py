"""The journal of a transaction: complete, durable, and locked as long as its owner lives."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repoagent.errors import Busy, Refused
from repoagent.storage import journal, json_files
from repoagent.storage.journal import abandoned_journals, create_journal, read_stored, record


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "git" / "repoagent" / "journal"


def killed_owner(root: Path, code: str = "os.kill(os.getpid(), 9)") -> subprocess.Popen[bytes]:
    program = (
        "import os, subprocess, sys\nfrom pathlib import Path\nfrom repoagent.storage.journal import create_journal as create\n"
        f"journal = create(Path({str(root)!r}), 'one', {{'state': 'x'}}, {{'bytes': b'before'}})\n{code}\n"
    )
    return subprocess.Popen([sys.executable, "-c", program])


def test_a_journal_keeps_its_files_and_is_retired_to_another_place(root: Path, tmp_path: Path) -> None:
    made = create_journal(root, "one", {"state": "first"}, {"mark": b"\0mark"})
    made.keep("bytes", b"before\r\n")
    made.save({"state": "second", "name": os.fsdecode(b"\xff")})
    assert record(made.folder) == {"version": 1, "state": "second", "name": os.fsdecode(b"\xff")}
    assert read_stored(made.folder, "mark") == b"\0mark"
    assert read_stored(made.folder, "bytes") == b"before\r\n"
    with pytest.raises(journal.IncompleteJournal, match="gone"):
        read_stored(made.folder, "gone")
    assert made.folder == root / "one" and made.name == "one"
    assert made.folder.stat().st_mode & 0o077 == 0
    made.retire(tmp_path / "kept" / "one")
    made.close()
    assert list(abandoned_journals(root)) == []
    assert read_stored(tmp_path / "kept" / "one", "bytes") == b"before\r\n"
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot create"):
        create_journal(tmp_path / "file" / "journal", "one", {}, {})


def test_a_journal_of_a_living_owner_is_left_alone(root: Path) -> None:
    assert list(abandoned_journals(root)) == []  # there is not even a folder
    made = create_journal(root, "one", {}, {})
    assert list(abandoned_journals(root)) == []
    with pytest.raises(Busy, match="try again when it is done"):
        create_journal(root, "one", {}, {})
    assert record(made.folder) is not None
    made.close()
    (found,) = abandoned_journals(root)
    assert found.name == "one"
    assert list(abandoned_journals(root)) == []  # it is ours now
    found.close()


def test_a_killed_owner_leaves_it(root: Path) -> None:
    killed_owner(root).wait()
    (found,) = abandoned_journals(root)
    assert record(found.folder) == {"version": 1, "state": "x"}
    assert read_stored(found.folder, "bytes") == b"before"
    found.retire()
    found.close()
    assert list(root.iterdir()) == []


@pytest.mark.soak
def test_a_child_with_the_descriptor_is_an_owner_too(root: Path) -> None:
    code = (
        "child = subprocess.Popen(['sleep', '0.6'], pass_fds=[journal.descriptor], stdout=subprocess.DEVNULL)\n"
        "os.kill(os.getpid(), 9)"
    )
    killed_owner(root, code).wait()
    assert list(abandoned_journals(root)) == []
    deadline = time.monotonic() + 20
    found = list(abandoned_journals(root))
    while not found and time.monotonic() < deadline:
        time.sleep(0.05)
        found = list(abandoned_journals(root))
    assert len(found) == 1
    found[0].close()


@pytest.mark.parametrize("seconds", [2 * journal._UNNAMED_SECONDS, -3600.0])
def test_half_made_ones_are_left_for_a_moment(root: Path, seconds: float) -> None:
    half = root / ".new-two"
    half.mkdir(parents=True)
    with (half / "owner").open("wb") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        assert list(abandoned_journals(root)) == [] and half.exists()
    (half / "folder").mkdir()  # a removal that fails half way is repeated
    assert list(abandoned_journals(root)) == [] and (half / "owner").exists()
    (half / "folder").rmdir()
    assert list(abandoned_journals(root)) == [] and not half.exists()  # its owner has ended
    half.mkdir()
    assert list(abandoned_journals(root)) == [] and half.exists()
    then = time.time() - seconds  # the clock may have been set back since
    os.utime(half, (then, then))
    assert list(abandoned_journals(root)) == [] and not half.exists()


def test_a_newer_record_and_a_broken_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = create_journal(root, "one", {}, {})
    (made.folder / "journal.json").write_text('{"version": 2}')
    with pytest.raises(json_files.NewerFormat):
        record(made.folder)
    assert (made.folder / "journal.json").read_text() == '{"version": 2}'
    (made.folder / "journal.json").write_text("[]")
    assert record(made.folder) is None
    assert "journal.json" in capsys.readouterr().err and (made.folder / "journal.json.broken-1").exists()
    made.close()
