"""The record of a transaction on disk, the lock of the index, and what is kept of the user's bytes."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Busy, Refused
from repoagent.git.file_writer import FilesChanged, FileStep
from repoagent.git.files import Content
from repoagent.git.index import Entry, Staged
from repoagent.git.process import GitError
from repoagent.git.transaction import finish, hook_changes, journal, other_files
from repoagent.git.transaction.commit import encode_message
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.transaction.journal import (
    COMMITTING,
    EditJournal,
    JournalRecord,
    PlannedPath,
    SavedFile,
    load_record,
)
from repoagent.git.transaction.results import HookFailed, OtherChanges, UnfinishedTransaction, restored_notes
from repoagent.git.undo_log import list_edits
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.storage.folders import SystemFailed
from repoagent.storage.journal import Journal
from tests.conftest import GitRepo
from tests.git.edits import edit, journals, lines, refused, shell, shout, staged, worktree
from tests.git.snapshot import nothing_left, seen, unchanged

texts = st.text("abc/é\n", min_size=1, max_size=6)
contents = st.none() | st.builds(
    Content, st.binary(max_size=9), st.sampled_from(["100644", "100755", "120000"])
)
entries = st.none() | st.builds(Entry, st.sampled_from(["100644", "120000"]), texts)
bits = st.none() | st.builds(Staged, st.builds(Entry, texts, texts), st.booleans(), st.booleans())
maybe = st.none() | texts
records = st.builds(
    JournalRecord, texts, texts, texts, st.booleans(), maybe, maybe, maybe, maybe,
    steps=st.lists(
        st.builds(FileStep, texts, contents, contents, texts, st.none() | st.integers(0, 511), contents, contents, contents)
    ).map(tuple),
    folders=st.lists(texts).map(tuple),
    planned=st.lists(
        st.builds(PlannedPath, texts, entries, entries, entries, entries, entries, entries, bits, maybe)
    ).map(tuple),
    saved=st.lists(st.builds(SavedFile, texts, contents, texts)).map(tuple),
    uncommitted=st.lists(texts).map(tuple),
    started=st.none() | st.integers(0, 1 << 62), commit=maybe, message=maybe, in_place=st.booleans(),
)  # fmt: skip


def test_a_complete_record_is_read_as_it_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # most of the time
    numbers = count()

    @settings(max_examples=30)
    @given(record=records)
    def check(record: JournalRecord) -> None:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        opened = EditJournal(Journal(folder, -1), WorkTree(folder, folder, folder), record)
        opened.store_contents(record.steps)
        opened.store_contents(record.saved)
        opened.store()
        assert load_record(folder) == record
        document = json.loads((folder / "journal.json").read_text())
        earlier_version = replace(record, in_place=False)
        for name, expected in (("steps", None), ("uncommitted", None), ("in_place", earlier_version)):
            rest = {key: value for key, value in document.items() if key != name}
            (folder / "journal.json").write_text(json.dumps(rest))
            assert load_record(folder) == expected
        for file in folder.glob("*-0"):  # the record refers to it
            file.unlink()
            assert load_record(folder) is None

    check()


@pytest.mark.parametrize(
    ("versions", "other"),
    [("aaabb", False), ("abbbb", True), ("aacbb", True), ("aaacb", True), ("abaab", True)],
)
def test_other_work_in_a_planned_path(versions: str, other: bool) -> None:
    """The letters are the blobs of HEAD, index, base, work tree and commit."""
    head, index, base, work, commit = (Entry("100644", letter) for letter in versions)
    planned = PlannedPath("a", head, index, base, work, commit, commit)
    assert planned.has_other_work is other
    assert (planned.in_head, planned.staged_here) == (head, index)
    renamed = PlannedPath("a", head, index, base, work, commit, commit, renamed="b")
    assert (renamed.in_head, renamed.staged_here) == (None, None)


@pytest.mark.parametrize("links", [True, False])
def test_the_lock_names_its_holder(repo: GitRepo, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    tree = worktree(repo)
    records = [JournalRecord(name, "edit", COMMITTING, True) for name in ("first", "second")]
    first, second = (journal.create(tree, record) for record in records)
    if not links:
        monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EPERM, "no links")))
    lock = tree.git_dir / "index.lock"
    first.lock_index()
    assert first.has_lock() and not second.has_lock()
    with pytest.raises(Busy, match=rf"exists: an edit is being committed by process {os.getpid()}; try"):
        second.lock_index()
    second.unlock_index()
    assert lock.read_text().startswith("repoagent first: an edit")
    first.unlock_index()
    assert not lock.exists()
    lock.write_text("")
    with pytest.raises(Busy, match=r"another git command is running.*remove that file"):
        first.lock_index()
    lock.unlink()
    lock.symlink_to("/etc/passwd")
    assert not first.has_lock()
    monkeypatch.setattr(journal, "lock_path", lambda tree: tree.git_dir / "none" / "index.lock")
    with pytest.raises(SystemFailed, match=r"cannot create .*index\.lock: No such file"):
        first.lock_index()
    first.close()
    second.close()


STALE = [
    # the text of a lock, whether git has started before it, and whether it is removed
    ("", True, True),
    ("HEAD", True, True),
    ("TARGET", True, True),
    ("CHILD", True, True),
    ("ref: refs/heads/topic", True, True),
    ("", False, False),
    ("OTHER", True, False),
    ("something else", True, False),
]


def test_stale_locks_of_references(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of HEAD, its branch and the new one, never of another branch."""
    head, tree = repo.head(), "HEAD^{tree}"
    child = repo.git("commit-tree", "-m", "child", "-p", head, tree).strip()
    ids = {"HEAD": head, "TARGET": "f" * 40, "CHILD": child}
    ids["OTHER"] = repo.git("commit-tree", "-m", "other", "-p", child, tree).strip()
    names = ["HEAD", "refs/heads/main", "refs/heads/topic", "refs/heads/other"]
    for text, after, removed in STALE:
        locks = [repo.write(f".git/{name}.lock", ids.get(text, text)) for name in names]
        started = time.time_ns() + (0 if after else 60 * 10**9)
        record = JournalRecord(
            "id", "edit", COMMITTING, True, head, "main", "topic", "f" * 40, started=started
        )
        opened = EditJournal(Journal(repo.top, -1), worktree(repo), record)
        opened.remove_stale_ref_locks()
        assert [lock for lock in locks if lock.exists()] == (locks[3:] if removed else locks), text

    # one that is held for a moment, then taken again
    lock = locks[0]
    lock.write_text("")

    def released_and_taken_again(_: float) -> None:
        lock.rename(lock.with_name("other"))  # its inode is not reused
        lock.write_text("")

    monkeypatch.setattr(time, "sleep", released_and_taken_again)
    for started in (time.time_ns(), None):
        opened.change(started=started)
        opened.remove_stale_ref_locks()
        assert lock.exists()


def test_copies_and_their_folders(tmp_path: Path, repo: GitRepo) -> None:
    tree = worktree(repo)
    opened = journal.create(tree, JournalRecord("x", "edit", COMMITTING, True))
    one, two = Content(b"one"), Content(b"two")
    names = [other_files.keep_copy(opened, "found", content) for content in (one, two, one, two)]
    assert names == ["found-0", "found-1", "found-0", "found-1"]
    kept = layout_of(tree).private / "kept"
    assert finish.folder_after(opened, done=True) == finish.edit_folder(tree, "x")
    for number, name in enumerate(("x-edit", "x-edit-2", "x-edit-3")):
        for folder in [kept / other for other in ("x-edit", "x-edit-2")[:number]]:
            folder.mkdir(parents=True, exist_ok=True)
        assert finish.folder_after(opened, done=False) == kept / name
    opened.change(event="undo")
    assert finish.folder_after(opened, done=True).parent == kept
    opened.close()


def test_only_the_last_hundred_edits_are_kept(repo: GitRepo) -> None:
    folder = layout_of(worktree(repo)).private / "edits"
    for number in range(101):
        (folder / f"old{number:03}").mkdir(parents=True)
        os.utime(folder / f"old{number:03}", (number, number))
    edit(repo, shout(repo, 5))
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 100 and {"old002", "old100"} <= {*names} and not {"old000", "old001"} & {*names}
    kept = folder / list_edits(worktree(repo))[0].id
    assert sorted(path.name for path in kept.iterdir() if path.name != "owner") == [
        "journal.json", "message", "new-0", "old-0",
    ]  # fmt: skip


def test_a_message_that_waits_for_the_users_commit_is_restored(repo: GitRepo) -> None:
    files = [repo.write(f".git/{name}", f"{name}\n") for name in ("MERGE_MSG", "AUTO_MERGE")]
    modes = [file.stat().st_mode for file in files]
    repo.hook("pre-commit", "rm .git/MERGE_MSG; exit 1\n")
    refused(repo, HookFailed, "", shout(repo, 5))
    assert [file.read_text() for file in files] == ["MERGE_MSG\n", "AUTO_MERGE\n"]
    repo.hook("pre-commit", "rm .git/MERGE_MSG .git/AUTO_MERGE\n")
    edit(repo, shout(repo, 5))
    assert [file.read_text() for file in files] == ["MERGE_MSG\n", "AUTO_MERGE\n"] and journals(repo) == []
    assert [file.stat().st_mode for file in files] == modes


@pytest.mark.parametrize("mine", [False, True])
def test_a_commit_of_a_hook_on_top_and_what_the_user_has_staged(repo: GitRepo, mine: bool) -> None:
    """The index follows the hook's commit, unless something else is staged there."""
    repo.commit("more", VERSION="1\n", OLD="x\n")
    if mine:
        repo.write("VERSION", "mine\n")
        repo.git("add", "VERSION")
    commit = 'test -n "$IN" && exit; export IN=1; git rm -qf OLD; echo 2 > VERSION; git add VERSION; git commit -qm 2'
    repo.hook("post-commit", f"{commit}\n")
    result = edit(repo, shout(repo, 5))
    assert staged(repo, "VERSION") == ("mine\n" if mine else "2\n") and repo.git("ls-files", "OLD") == ""
    names = "OLD" if mine else "OLD, VERSION"
    assert f"a hook made another commit on top, with changes to {names}" in result.notes
    assert repo.git("log", "-2", "--format=%s").split() == ["2", "edit"]
    nothing_left(repo)


def test_encoding_of_a_message(repo: GitRepo) -> None:
    for name in ("", "utf-8", "nonsense", "ISO-8859-1"):
        if name:
            repo.git("config", "i18n.commitEncoding", name)
        if name in ("", "utf-8"):
            assert encode_message(worktree(repo), "日本") == "日本".encode()
        else:
            with pytest.raises(Refused, match=rf"cannot encode the commit message as {name} .*: change i18n"):
                encode_message(worktree(repo), "日本")
        assert [encode_message(worktree(repo), text) for text in (b"\xff", "x")] == [b"\xff", b"x"]


@pytest.mark.parametrize("times", [1, 3])
def test_a_file_that_is_saved_while_it_is_restored(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    repo.write("README.md", "mine\n")
    repo.hook("pre-commit", "rm README.md\n")
    saved_first = Mock(wraps=other_files.write_file, side_effect=[*[FilesChanged({})] * times, DEFAULT])
    monkeypatch.setattr(other_files, "write_file", saved_first)
    result = edit(repo, shout(repo, 5))
    assert result.restored == (("README.md",) if times == 1 else ())
    if times == 1:
        assert repo.read("README.md") == b"mine\n"
    else:
        assert "README.md changed while git was committing, and its new content was kept" in result.notes[0]


@pytest.mark.parametrize("code", [-9, 1])
def test_git_that_is_killed_while_it_commits_again(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The lock that it has left is removed; one of another program stays."""
    repo.write("README.md", "mine\n")
    repo.hook("pre-commit", "git add README.md\n")

    def killed(*_: object) -> str:
        repo.write(".git/refs/heads/main.lock", "")
        raise GitError(("update-ref",), code, b"why")

    monkeypatch.setattr(hook_changes, "write_tree", killed)
    lock, head = repo.top / ".git/refs/heads/main.lock", repo.head()
    with pytest.raises(HookFailed if code < 0 else UnfinishedTransaction):
        edit(repo, shout(repo, 5))
    assert lock.exists() is (code == 1)
    lock.unlink(missing_ok=True)
    monkeypatch.undo()
    notes = recover_transactions(worktree(repo))
    assert (repo.status(), journals(repo)) == (" M README.md\n", [])
    if code < 0:
        assert (notes, repo.head(), repo.read("a.txt").decode()) == ([], head, lines())
    else:
        assert "is now complete" in notes[0] and repo.git("rev-parse", "HEAD^").strip() == head
        assert repo.git("show", "--format=", "--name-only", "HEAD") == "a.txt\n"


def test_sentences_about_other_changes() -> None:
    one = OtherChanges(("a", "b"), ("c",), ("d",), ("in \0/x",))
    both = one + OtherChanges(("b", "e"), ("c", "f"), ("g",), ("in \0/x", "y"))
    assert both == OtherChanges(("a", "b", "e"), ("c", "f"), ("d", "g"), ("in \0/x", "y"))
    lost = "your uncommitted changes to a, b were lost during `git commit`, and repoagent restored them"
    assert one.remarks(Path("/k")) == ("in /k/x", lost) and one.notes(Path("/k")) == ("in /k/x",)
    assert restored_notes(()) == ()
    assert "everything was restored: why" in re.sub(r"\s+", " ", str(HookFailed(b"why\n")))
    kept = HookFailed(b"", remarks=["r"])
    assert str(kept).startswith("git commit failed. r. Everything else was restored")
    assert "could not finish undo x (why)" in str(UnfinishedTransaction("undo", "x", ValueError("why")))


def test_files_not_copied_or_with_another_mode(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook's checkout reverts a mode; files above the budget, and folders in place of files, are not copied."""
    repo.hook("pre-commit", "git checkout -q -- README.md\n")
    (repo.top / "README.md").chmod(0o755)
    shell(repo, "rm src/app.py; mkdir src/app.py; echo mine > src/app.py/x")
    before = seen(repo, "a.txt")
    assert edit(repo, shout(repo, 5)).restored == ("README.md",)
    unchanged(repo, before, "a.txt")
    monkeypatch.setattr(other_files, "_MAX_BYTES", 3)
    repo.write("README.md", "mine\n")
    assert edit(repo, shout(repo, 6)).restored == () and b"Sample" in repo.read("README.md")
    assert repo.read("a.txt").decode() == lines({5: "LINE 5", 6: "LINE 6"})
