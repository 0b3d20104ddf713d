"""Commits read from git: of one file, as a stream, and as text that is cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.git.process import GitError
from repoagent.history.file_log import FileHistory, file_log
from repoagent.history.log import LogRecord, counts_of, records, split_log, stream_log
from tests.conftest import GitRepo
from tests.git.edits import shell
from tests.history.histories import configure


def whole(top: Path, path: str, limit: int = 8) -> FileHistory:
    history = file_log(top, path, limit, seconds=20)
    return replace(history, commits=history.commits[:limit])


def grow(repo: GitRepo, path: str, times: int) -> None:
    for n in range(times):
        repo.commit(f"grow {n}", **{path: "".join(f"some {line}\n" for line in range(10 + n))})


def test_commits_of_a_file_with_lines_and_failures_of_git(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("a.txt", repo.read("a.txt").replace(b"line 3\n", b"") + b"x\ny\n")
    head = repo.commit("second: change\n\nbody")
    repo.commit("other file", **{"b.txt": "b\n"})
    newest, oldest = whole(repo.top, "a.txt").commits
    assert [(c.subject, c.added, c.removed, c.author, c.path, c.status) for c in (newest, oldest)] == [
        ("second: change", 2, 1, "Ada Tester", "a.txt", "M"),
        ("first commit", 10, 0, "Ada Tester", "a.txt", "A"),
    ]
    assert newest.commit == head and head.startswith(newest.short) and len(newest.short) < 40
    assert newest.date[:4].isdigit()
    with pytest.raises(GitError):
        whole(tmp_path, "a.txt")
    with pytest.raises(GitError, match="no-such-revision"):
        list(stream_log(repo.top, "no-such-revision"))


def test_merges_do_not_count_and_both_sides_do(repo: GitRepo) -> None:
    shell(repo, "git switch -qc side; sed -i '1i top' a.txt; git commit -qam 'on side'; git switch -q main")
    shell(repo, "echo end >> a.txt; git commit -qam 'on main'; git merge -q --no-ff -m 'the merge' side")
    subjects = [commit.subject for commit in whole(repo.top, "a.txt").commits]
    assert sorted(subjects) == ["first commit", "on main", "on side"]


def test_renames_are_followed_whatever_the_settings_of_the_user(repo: GitRepo) -> None:
    grow(repo, "old.txt", 2)
    shell(repo, "mkdir d; git mv old.txt d/mid.txt; echo more >> d/mid.txt; git commit -qam 'rename one'")
    shell(repo, "git mv d/mid.txt new.txt; git commit -qm 'rename two'")
    shell(repo, "echo last >> new.txt; git commit -qam last")
    history, streamed = whole(repo.top, "new.txt"), list(stream_log(repo.top, "HEAD"))
    assert [(c.subject, c.path, c.added, c.removed, c.status) for c in history.commits] == [
        ("last", "new.txt", 1, 0, "M"),
        ("rename two", "new.txt", 0, 0, "R"),
        ("rename one", "d/mid.txt", 1, 0, "R"),
        ("grow 1", "old.txt", 1, 0, "M"),
        ("grow 0", "old.txt", 10, 0, "A"),
    ]
    assert not history.partial and whole(repo.top, "new.txt", 3).commits == history.commits[:3]
    assert streamed[1].changes == [(b"R", b"new.txt", b"d/mid.txt")]
    configure(repo, renames="copies")
    assert whole(repo.top, "new.txt") == history
    assert list(stream_log(repo.top, "HEAD")) == streamed
    repo.git("config", "diff.renames", "false")
    assert list(stream_log(repo.top, "HEAD")) == streamed


def test_authors_and_encodings(repo: GitRepo) -> None:
    repo.write("a.txt", "one\n")
    repo.git("add", "-A")
    repo.git("-c", "user.name=A. Tester", "-c", "user.email=ada@old", "commit", "-qm", "by an old name")
    repo.commit("mailmap", **{".mailmap": "Ada Lovelace <ada@example.com> A. Tester <ada@old>\n"})
    assert whole(repo.top, "a.txt").commits[0].author == "Ada Lovelace"
    # a commit whose header claims UTF-8 and holds Latin-1
    raw = repo.git("cat-file", "commit", "HEAD").encode().replace(b"Ada Tester", b"Ad\xe9 T", 1)
    repo.write("a.txt", "two\n")
    repo.git("add", "-A")
    tree = repo.git("write-tree").strip().encode()
    raw = b"tree " + tree + b"\nparent " + repo.head().encode() + b"\n" + raw[raw.index(b"author") :]
    raw = raw.replace(b"mailmap", b"caf\xe9")
    commit = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw).strip()
    repo.git("update-ref", "HEAD", commit)
    newest = whole(repo.top, "a.txt").commits[0]
    assert (newest.author, newest.subject) == ("Ad\ufffd T", "caf\ufffd")
    repo.write("a.txt", "x\n")
    latin = ("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-qa", "-F", "-")
    repo.git(*latin, stdin="Prüfung".encode("latin-1"))
    repo.git("config", "i18n.logOutputEncoding", "ISO-8859-1")
    assert whole(repo.top, "a.txt").commits[0].subject == "Prüfung"


def test_binary_and_mode_changes(repo: GitRepo) -> None:
    repo.commit("binary", **{"b.bin": b"\0\1\2" * 100})
    shell(repo, "chmod +x b.bin; git commit -qam mode; ln -sf a.txt b.bin; git commit -qam link")
    link, *older = whole(repo.top, "b.bin").commits
    assert [(c.subject, c.status, c.added) for c in older] == [("mode", "M", None), ("binary", "A", None)]
    assert (link.subject, link.status) == ("link", "T")


paths = st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path)
plain_changes = st.tuples(st.sampled_from([b"A", b"M", b"D", b"T"]), paths, st.just(b""))
moved = st.tuples(st.sampled_from([b"R", b"C"]), paths, paths)
commits = st.builds(
    LogRecord,
    st.binary(min_size=20, max_size=20).map(lambda data: data.hex().encode()),
    st.integers(0, 1 << 40),
    st.binary(max_size=20).filter(lambda author: b"\0" not in author and b"\n" not in author),
    st.lists(st.one_of(plain_changes, moved), max_size=5),
)


@settings(max_examples=50)
@given(st.lists(commits, max_size=6), st.lists(st.integers(1, 40), max_size=30))
def test_a_stream_is_read_wherever_it_is_cut(commits: list[LogRecord], cuts: list[int]) -> None:
    data, chunks = b"", []
    for commit in commits:
        data += b"%s %d %s\0" % (commit.id, commit.time, commit.author)
        for place, (kind, path, old) in enumerate(commit.changes):
            status = kind + b"087" if old else kind
            data += (b"\n" if not place else b"") + b"\0".join([status, *([old] if old else []), path, b""])
    for cut in cuts:
        chunks.append(data[:cut])
        data = data[cut:]
    assert list(records(filter(None, [*chunks, data]))) == commits


def test_odd_names_and_authors_in_a_stream(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("odd")
    names = {
        b"caf\xe9", b"\nnewline first", b"a\nb", b"M", b"R100", b":100644 x", b"t\tab", b'"quoted"', b"\x01",
    }  # fmt: skip
    for name in names:
        (repo.top / name.decode("utf-8", "surrogateescape")).write_bytes(name)
    repo.git("add", "-A")
    tree = repo.git("write-tree").strip()
    for who, when, expected in (
        (b"J\xe9r\xf4me <j@x>", b"0 +0000", 0),
        (b"", b"4102444800 -1145", 4102444800),  # the year 2100
        (b"a <b> c <d>", b"2147483648 +1400", 2147483648),
    ):
        lines = (b"tree " + tree.encode(), b"author %s %s" % (who, when))
        head = b"\n".join([*lines, b"committer %s %s" % (who or b"a <b>", when), b"", b"x", b""])
        oid = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=head).strip()
        (record,) = stream_log(repo.top, oid)
        assert {path for _, path, _ in record.changes} == names
        assert record.time == expected and record.author.startswith(who[:3])


WORDS = st.binary(max_size=20).map(lambda word: word.replace(b"\0", b""))
COUNTS = st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99))


@settings(max_examples=50)
@given(rows=st.lists(st.tuples(WORDS, WORDS, COUNTS, WORDS)), cut=st.integers(0, 50))
def test_a_log_is_read_as_far_as_it_goes(
    rows: list[tuple[bytes, bytes, tuple[int, int] | None, bytes]], cut: int
) -> None:
    output, headers = b"", []
    for n, (author, subject, counts, path) in enumerate(rows):
        headers.append([f"{n:040x}".encode(), b"", b"%x" % n, author, b"2026-01-01", subject, b"a@b"])
        output += b"\x01" + b"\0".join(headers[-1]) + b"\0"
        output += b"\n:100644 100644 1234567 89abcde M\0p" + path + b"\0"
        output += (b"-\t-" if counts is None else b"%d\t%d" % counts) + b"\tp" + path + b"\0"
    found = list(split_log(output, 7))
    assert [header for header, _ in found] == headers
    names = [[names for _, names in changes] for _, changes in found]
    assert names == [[[b"p" + path]] * 2 for *_, path in rows]
    assert [counts_of(changes[1][0]) for _, changes in found] == [row[2] or (None, None) for row in rows]
    shorter = [header for header, _ in split_log(output[: len(output) - cut], 7)] if cut else headers
    assert shorter == headers[: len(shorter)]
