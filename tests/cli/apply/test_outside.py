"""`repoagent apply` outside a repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git import file_writer
from repoagent.git.file_writer import Step
from tests.cli.applying import TWO, Here, apply, diff, made, snapshot

EVERY_KIND = (
    TWO
    + made("deep/er/new.txt", "new")
    + "diff --git a/old.txt b/moved/old.txt\nrename from old.txt\nrename to moved/old.txt\n"
    + "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    + "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"line 1\r\nline 2\r\nline 3\r\n")
    (folder / "a.txt").chmod(0o640)
    for name in ("old", "gone"):
        (folder / f"{name}.txt").write_text("x\n")
    (folder / "run.sh").write_text("echo\n")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("a.txt")
    (folder / "away").symlink_to(tmp_path)
    return folder


def test_every_kind_of_change_is_written_and_nothing_else(folder: Path) -> None:
    saved = snapshot(folder)
    done = apply(folder, EVERY_KIND, "-y", "--check", "test -x run.sh")
    assert done.code == 0, done.err
    assert done.out.startswith("written, not committed · 5 files +2 -2 · ")
    now = snapshot(folder)
    assert now.pop("a.txt") == (saved.pop("a.txt")[0], b"line 1\r\nline two\r\nline 3\r\n")
    assert now.pop("deep/er/new.txt")[1] == b"new\n"
    assert now.pop("moved/old.txt") == saved.pop("old.txt")
    assert now.pop("run.sh")[1] == saved.pop("run.sh")[1] and os.access(folder / "run.sh", os.X_OK)
    del saved["gone.txt"], now["deep"], now["deep/er"], now["moved"]
    assert now == saved  # no .repoagent, no temporary files
    again = apply(folder, EVERY_KIND, "-y")
    assert (again.code, "is already applied" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("patch", "options", "code", "message"),
    [
        (EVERY_KIND, ("-y", "--check", "false"), 6, "Nothing was changed"),
        (EVERY_KIND, ("-n",), 0, "nothing was written"),
        (TWO, (), 2, "cannot ask for confirmation without a terminal"),
        (TWO, ("-y", "--branch", "x"), 2, "--branch needs a git repository"),
        (TWO, ("-y", "-m", "words"), 2, "--message needs a git repository"),
        (TWO, ("-y", "--source", "a.txt=1234567"), 2, "--source needs a git repository"),
        (made("../out.txt", "x"), ("-y",), 3, "'..'"),
        (made("/tmp/out-of-the-folder", "x"), ("-y",), 3, "absolute"),
        (made("away/out.txt", "x"), ("-y",), 3, "leads through away, a symbolic link"),
        (made("sub", "x"), ("-y",), 3, "sub is a folder"),
        (made(".git/config", "x"), ("-y",), 3, "belongs to git"),
        (made("id_rsa", "x"), ("-y",), 3, "--allow-sensitive"),
        (
            diff("link", "@@ -1,2 +1,2 @@", " line 1", "-line 2", "+line two"),
            ("-y",),
            3,
            "is a symbolic link",
        ),
        (diff("x/a.txt", "@@ -1 +1 @@", "-line 1", "+line"), ("-y",), 3, "x/a.txt"),
        ("@@ -1 +1 @@\n-line 1\n+line\n", ("-y",), 2, "--path FILE"),
    ],
)
def test_a_refused_patch_changes_nothing(
    folder: Path, here: Here, *, patch: str, options: tuple[str, ...], code: int, message: str
) -> None:
    before = snapshot(folder.parent)
    done = here(patch, *options, cwd=folder)
    assert (done.code, message in done.err) == (code, True), done.err
    (folder.parent / "fix.patch").unlink()
    assert snapshot(folder.parent) == before


@pytest.mark.parametrize("number", range(6))
def test_a_failed_write_restores_the_other_files(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Simulates a full disk: each write in turn fails."""
    done: list[Step] = []

    def take(top: Path, step: Step) -> None:
        if len(done) == number:
            raise Refused(f"{step.path} could not be written: No space left on device")
        done.append(step)
        real(top, step)

    real = file_writer.write_step
    monkeypatch.setattr(file_writer, "write_step", take)
    before = snapshot(folder)
    failed = here(EVERY_KIND, "-y", cwd=folder)
    assert failed.code == 3 and "No space left" in failed.err, failed.err
    assert len(done) == number and snapshot(folder) == before


def test_a_save_during_the_check_is_not_lost(folder: Path, here: Here) -> None:
    done = here(EVERY_KIND, "-y", "--check", "echo mine > a.txt; false", cwd=folder)
    assert done.code == 3 and "another program has changed a.txt, which was left alone" in done.err
    assert "as a draft" not in done.err  # without text for a model
    assert (folder / "a.txt").read_text() == "mine\n"
    assert (folder / "gone.txt").exists() and not (folder / "deep").exists()
