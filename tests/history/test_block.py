from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history import FileCommit, FileHistory, history_block, render, to_dict
from repoagent.history.parse import parse_log, renamed_from

COMMIT = FileCommit(
    "a" * 40, "aaaaaaa", "Ada", "2026-01-02T03:04:05+01:00", "fix: it", 3, 1, "x.py", "M", ("b" * 40,)
)


def test_block() -> None:
    other = replace(COMMIT, added=None, removed=None, subject="")
    assert history_block([COMMIT, other]) == (
        "2026-01-02 aaaaaaa Ada: fix: it, +3 −1\n2026-01-02 aaaaaaa Ada: (no subject)\n"
    )
    assert history_block([]) == ""
    assert history_block([COMMIT], partial=True).endswith("\n(older commits left out)\n")
    assert history_block([COMMIT] * 30, limit=2).count("\n") == 3


def test_render_names_the_old_file() -> None:
    history = FileHistory("x.py", (COMMIT, replace(COMMIT, path="old\x1b.py")), partial=True)
    assert render(history).split("\n")[1:] == [
        "as old�.py:",
        "2026-01-02 aaaaaaa Ada: fix: it, +3 −1",
        "(older commits left out)",
        "",
    ]


def test_to_dict_is_json() -> None:
    data = json.loads(json.dumps(to_dict(FileHistory("caf\udce9.py", (COMMIT,)))))
    assert data["version"] == 1
    assert data["path"] == "caf\udce9.py"
    assert data["commits"][0]["added"] == 3


@given(author=st.text(max_size=300), subject=st.text(max_size=2000))
def test_foreign_text_is_one_short_printable_line(author: str, subject: str) -> None:
    block = history_block([replace(COMMIT, author=author, subject=subject)])
    assert block.endswith("\n")
    assert block[:-1].isprintable()
    assert len(block) < 200


@given(data=st.binary(max_size=400))
def test_any_output_is_survived(data: bytes) -> None:
    for commit in parse_log(data, "x"):
        assert len(commit.commit) in (40, 64)
    renamed_from(data, "x")


WORDS = st.binary(max_size=20).map(lambda word: word.replace(b"\0", b""))


@given(
    rows=st.lists(
        st.tuples(WORDS, WORDS, st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)), WORDS)
    ),
    cut=st.integers(0, 50),
)
def test_what_git_prints_is_read_back(
    rows: list[tuple[bytes, bytes, tuple[int, int] | None, bytes]], cut: int
) -> None:
    output = b""
    for n, (author, subject, counts, path) in enumerate(rows):
        commit = f"{n:040x}".encode()
        output += b"\0".join([commit, b"", b"%x" % n, author, b"2026-01-01", subject]) + b"\0"
        output += b"\n:100644 100644 1234567 89abcde M\0p" + path + b"\0"
        output += (b"-\t-" if counts is None else b"%d\t%d" % counts) + b"\tp" + path + b"\0"
    found = parse_log(output, "x")
    assert [(c.commit, c.author, c.subject) for c in found] == [
        (f"{n:040x}", author.decode(errors="replace"), subject.decode(errors="replace"))
        for n, (author, subject, _, _) in enumerate(rows)
    ]
    assert [(c.added, c.removed) for c in found] == [counts or (None, None) for _, _, counts, _ in rows]
    shorter = parse_log(output[: len(output) - cut], "x") if cut else found
    assert [c.commit for c in shorter] == [c.commit for c in found][: len(shorter)]
