from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.authors import Author, Authors, authors_of
from repoagent.history.commit_details import Step, Touched
from repoagent.history.file_history import HistoryReport
from repoagent.history.log import FileCommit, counts_of, parse_log, renamed, split_log
from repoagent.history.render import authors_line, history_block, to_dict

COMMIT = FileCommit(
    "a" * 40, "aaaaaaa", "Ada", "2026-01-02T03:04:05+01:00", "fix: it", 3, 1, "x.py", "M", ("b" * 40,)
)


def test_block() -> None:
    other = replace(COMMIT, added=None, removed=None, subject="")
    assert history_block([COMMIT, other]) == (
        "2026-01-02 aaaaaaa Ada: fix: it, +3 −1\n2026-01-02 aaaaaaa Ada: (no subject)\n"
    )
    assert history_block([]) == ""
    assert history_block([COMMIT], partial=True).endswith("\n(older commits omitted)\n")
    assert history_block([COMMIT] * 30, limit=2).count("\n") == 3


def many(count: int) -> list[Step]:
    return [Step(replace(COMMIT, short=f"c{n}", subject=f"number {n}"), files=1) for n in range(count)]


def shown(block: str) -> list[str]:
    return [line.split()[1] for line in block.splitlines() if line.startswith("2026")]


def test_a_step_says_what_it_did() -> None:
    step = Step(COMMIT, Touched(changed=("load",)), files=140)
    assert history_block([step]) == (
        "2026-01-02 aaaaaaa Ada: fix: it — changes load; one of 140 files, +3 −1\n"
    )
    assert "— a model's line, +3 −1" in history_block([replace(step, files=2, summary="a model's line")])


def test_people_come_first_in_one_line() -> None:
    people = authors_of(
        [replace(COMMIT, author="Ada\x1b[31m"), replace(COMMIT, author="x[bot]")], partial=True
    )
    block = history_block([COMMIT], people=people)
    first = "the last 2 commits by Ada�[31m 1; by programs: x[bot] 1; last 2026-01-02\n"
    assert block.startswith(first)
    assert history_block([], people=people) == ""
    nobody = Authors((), (Author("x[bot]", 1, "2026-01-01", "2026-01-01", True),), 1)
    assert history_block([COMMIT], people=nobody).startswith("1 commit; by programs: x[bot] 1; last")


def test_who_left_and_who_came_lately() -> None:
    authors = ["Old"] * 9 + ["Ada"] * 4 + ["Bob"] * 3 + ["Carl"] * 2 + ["New", "Gone"]
    days = {"Old": "2020-05-05", "Gone": "2019-01-01", "New": "2026-03-03"}
    people = authors_of(replace(COMMIT, author=name, date=days.get(name, "2026-01-02")) for name in authors)
    assert authors_line(people) == (
        "20 commits by 6 people: Old 9 (until 2020), Ada 4, Bob 3, Carl 2; lately New; last 2026-03-03"
    )


def test_a_budget_keeps_the_newest_and_the_most_telling() -> None:
    steps = many(20)
    steps[10] = replace(steps[10], touched=Touched(changed=("load",)))
    steps[1] = replace(steps[1], files=400)
    steps[2] = replace(steps[2], touched=Touched(spaces=True))
    block = history_block(steps, budget=100)
    assert len(block.encode()) <= 400
    names = shown(block)
    assert names[0] == "c0"
    assert "c10" in names and "c1" not in names and "c2" not in names
    assert names == sorted(names, key=lambda name: int(name[1:]))
    assert block.endswith("(other commits omitted)\n")
    assert shown(history_block(steps, budget=1)) == ["c0"]
    assert shown(history_block(steps, budget=10_000)) == [f"c{n}" for n in range(20)]
    assert shown(history_block(steps, budget=10_000, limit=3)) == ["c0", "c3", "c10"]
    assert history_block(steps, limit=0) == ""


@given(budget=st.integers(1, 2000), count=st.integers(1, 40), author=st.text(max_size=100))
def test_a_block_fits_its_budget(budget: int, count: int, author: str) -> None:
    steps = [replace(step, commit=replace(step.commit, author=author)) for step in many(count)]
    people = authors_of(step.commit for step in steps)
    block = history_block(steps, budget=budget, people=people)
    lines = block.splitlines()
    least = sum(len(line.encode()) + 1 for line in lines[:2])  # the people and the newest are always there
    assert len(block.encode()) <= max(4 * budget, least + len("(older commits omitted)\n"))


def test_to_dict_is_json() -> None:
    people = authors_of([COMMIT])
    past = HistoryReport("caf\udce9.py", "a" * 40, (Step(COMMIT, Touched(added=("f",))),), people)
    data = json.loads(json.dumps(to_dict(past)))
    assert data["version"] == 1
    assert data["path"] == "caf\udce9.py"
    assert data["commits"][0]["added"] == 3
    assert data["commits"][0]["did"] == "adds f"
    assert data["people"]["persons"] == [
        {"name": "Ada", "commits": 1, "first": "2026-01-02", "last": "2026-01-02"}
    ]


@given(author=st.text(max_size=300), subject=st.text(max_size=2000))
def test_foreign_text_is_one_short_printable_line(author: str, subject: str) -> None:
    block = history_block([replace(COMMIT, author=author, subject=subject)])
    assert block.endswith("\n")
    assert block[:-1].isprintable()
    assert len(block) < 200


@given(data=st.binary(max_size=400))
def test_any_output_is_survived(data: bytes) -> None:
    assert all(commit.path == "x" for commit in parse_log(b"\x01" + data, "x"))
    renamed(data, "x")


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
        commit = f"\x01{n:040x}".encode()
        output += b"\0".join([commit, b"", b"%x" % n, author, b"2026-01-01", subject, b"a@b"]) + b"\0"
        output += b"\n:100644 100644 1234567 89abcde M\0p" + path + b"\0"
        output += (b"-\t-" if counts is None else b"%d\t%d" % counts) + b"\tp" + path + b"\0"
    found = list(split_log(output, 7))
    assert [header for header, _ in found] == [
        [f"{n:040x}".encode(), b"", b"%x" % n, author, b"2026-01-01", subject, b"a@b"]
        for n, (author, subject, _, _) in enumerate(rows)
    ]
    assert [[names for _, names in changes] for _, changes in found] == [
        [[b"p" + row[3]]] * 2 for row in rows
    ]
    assert [counts_of(changes[1][0]) for _, changes in found] == [row[2] or (None, None) for row in rows]
    shorter = list(split_log(output[: len(output) - cut], 7)) if cut else found
    assert [header for header, _ in shorter] == [header for header, _ in found][: len(shorter)]
