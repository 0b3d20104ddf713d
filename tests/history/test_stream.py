"""Commits read from git's stream."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.git.process import GitError
from repoagent.history.log import Record, records, stream
from tests.conftest import GitRepo

paths = st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path)
plain = st.tuples(st.sampled_from([b"A", b"M", b"D", b"T"]), paths, st.just(b""))
moved = st.tuples(st.sampled_from([b"R", b"C"]), paths, paths)
headers = st.tuples(
    st.binary(min_size=20, max_size=20).map(lambda data: data.hex().encode()),
    st.integers(0, 1 << 40),
    st.binary(max_size=20).filter(lambda author: b"\0" not in author and b"\n" not in author),
)
wholes = st.builds(
    lambda head, changes: Record(*head, changes), headers, st.lists(st.one_of(plain, moved), max_size=5)
)


def as_git_prints(commits: list[Record]) -> bytes:
    data = b""
    for commit in commits:
        data += b"%s %d %s\0" % (commit.id, commit.time, commit.author)
        for place, (kind, path, old) in enumerate(commit.changes):
            status = kind + b"087" if old else kind
            data += (b"\n" if not place else b"") + b"\0".join([status, *([old] if old else []), path, b""])
    return data


@settings(deadline=None)
@given(st.lists(wholes, max_size=6), st.lists(st.integers(1, 40), max_size=30))
def test_what_was_printed_is_read_wherever_it_is_cut(commits: list[Record], cuts: list[int]) -> None:
    data, chunks = as_git_prints(commits), []
    for cut in cuts:
        chunks.append(data[:cut])
        data = data[cut:]
    assert list(records([*filter(None, chunks), data] if data else filter(None, chunks))) == commits


def test_a_failure_of_git_is_raised_at_the_end(repo: GitRepo) -> None:
    with pytest.raises(GitError, match="no-such-revision"):
        list(stream(repo.top, "no-such-revision"))


def test_settings_of_the_user_change_nothing(repo: GitRepo) -> None:
    repo.git("mv", "a.txt", "b.txt")
    repo.commit("second")
    before = list(stream(repo.top, "HEAD"))
    for key, value in (
        ("diff.renames", "false"), ("diff.noprefix", "true"), ("log.follow", "true"), ("log.date", "iso"),
        ("log.decorate", "full"), ("log.showRoot", "false"), ("log.mailmap", "false"), ("core.quotePath", "true"),
        ("diff.renameLimit", "1"), ("format.pretty", "fuller"), ("log.diffMerges", "combined"), ("color.ui", "always"),
        ("diff.relative", "true"), ("log.showSignature", "true"), ("diff.external", "false"), ("notes.displayRef", "*"),
        ("diff.ignoreSubmodules", "all"), ("diff.submodule", "log"), ("log.excludeDecoration", "x"),
        ("i18n.logOutputEncoding", "latin1"), ("diff.statNameWidth", "3"), ("core.commentChar", "%"),
    ):  # fmt: skip
        repo.git("config", key, value)
    assert list(stream(repo.top, "HEAD")) == before
    assert before[0].changes == [(b"R", b"b.txt", b"a.txt")]


def test_odd_names_and_authors(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("odd")
    names = [
        b"caf\xe9",
        b"\nnewline first",
        b"a\nb",
        b"M",
        b"R100",
        b":100644 x",
        b"t\tab",
        b'"quoted"',
        b"\x01",
    ]
    for name in names:
        (repo.top / name.decode("utf-8", "surrogateescape")).write_bytes(name)
    repo.git("add", "-A")
    tree = repo.git("write-tree").strip()
    for who, when, expected in (
        (b"J\xe9r\xf4me <j@x>", b"0 +0000", 0),
        (b"", b"4102444800 -1145", 4102444800),  # the year 2100
        (b"a <b> c <d>", b"2147483648 +1400", 2147483648),
    ):
        head = b"tree %s\nauthor %s %s\ncommitter %s %s\n\nx\n" % (
            tree.encode(),
            who,
            when,
            who or b"a <b>",
            when,
        )
        found = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=head).strip()
        (record,) = stream(repo.top, found)
        assert {path for _, path, _ in record.changes} == set(names)
        assert record.time == expected
        assert record.author.startswith(who[:3])
