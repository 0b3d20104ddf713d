"""A file's history for prompts and JSON: its authors, its commits and what each did, within a time."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.git.process import GitError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.history.commit_details import HistoryStep, Touched
from repoagent.history.commit_summaries import CommitSummary, write_summary
from repoagent.history.file_history import Author, Authors, HistoryReport, authors_of, is_bot, prompt_block
from repoagent.history.log import FileCommit
from repoagent.history.render import authors_line, history_block, read_headers, to_dict
from tests.conftest import GitRepo

COMMIT = FileCommit(
    "a" * 40, "aaaaaaa", "Ada", "2026-01-02T03:04:05+01:00", "fix: it", 3, 1, "x.py", "M", ("b" * 40,)
)


def test_block() -> None:
    other = replace(COMMIT, added=None, removed=None, subject="")
    assert history_block([HistoryStep(COMMIT), HistoryStep(other)]) == (
        "2026-01-02 aaaaaaa Ada: fix: it, +3 −1\n2026-01-02 aaaaaaa Ada: (no subject)\n"
    )
    assert history_block([]) == ""
    assert history_block([HistoryStep(COMMIT)], partial=True).endswith("\n(older commits omitted)\n")
    assert history_block([HistoryStep(COMMIT)] * 30, limit=2).count("\n") == 3
    step = HistoryStep(COMMIT, Touched(changed=("load",)), files=140)
    shown = "2026-01-02 aaaaaaa Ada: fix: it — changes load; one of 140 files, +3 −1\n"
    assert history_block([step]) == shown
    assert "— a model's line, +3 −1" in history_block([replace(step, files=2, summary="a model's line")])


def test_people_come_first_in_one_line() -> None:
    commits = [replace(COMMIT, author=name) for name in ("Ada\x1b[31m", "x[bot]")]
    people = authors_of(commits, partial=True)
    assert ([each.name for each in people.bots], people.commits, people.partial) == (["x[bot]"], 2, True)
    first = "the last 2 commits by Ada�[31m 1; by programs: x[bot] 1; last 2026-01-02\n"
    assert history_block([HistoryStep(COMMIT)], people=people).startswith(first)
    assert history_block([], people=people) == ""
    nobody = Authors((), (Author("x[bot]", 1, "2026-01-01", "2026-01-01", True),), 1)
    lines = history_block([HistoryStep(COMMIT)], people=nobody)
    assert lines.startswith("1 commit; by programs: x[bot] 1; last")


def test_who_left_and_who_came_lately() -> None:
    authors = ["Old"] * 9 + ["Ada"] * 4 + ["Bob"] * 3 + ["Carl"] * 2 + ["New", "Gone"]
    days = {"Old": "2020-05-05", "Gone": "2019-01-01", "New": "2026-03-03"}
    people = authors_of(replace(COMMIT, author=name, date=days.get(name, "2026-01-02")) for name in authors)
    assert authors_line(people) == (
        "20 commits by 6 people: Old 9 (until 2020), Ada 4, Bob 3, Carl 2; lately New; last 2026-03-03"
    )


def test_to_dict_is_json() -> None:
    people = authors_of([COMMIT])
    past = HistoryReport("caf\udce9.py", "a" * 40, (HistoryStep(COMMIT, Touched(added=("f",))),), people)
    data = json.loads(json.dumps(to_dict(past)))
    assert (data["version"], data["path"]) == (1, "caf\udce9.py")
    assert (data["commits"][0]["added"], data["commits"][0]["did"]) == (3, "adds f")
    (person,) = data["people"]["persons"]
    assert person == {"name": "Ada", "commits": 1, "first": "2026-01-02", "last": "2026-01-02"}


@given(author=st.text(max_size=300), subject=st.text(max_size=2000))
def test_foreign_text_is_one_short_printable_line(author: str, subject: str) -> None:
    block = history_block([HistoryStep(replace(COMMIT, author=author, subject=subject))])
    assert block.endswith("\n") and block[:-1].isprintable() and len(block) < 200


def prompt(repo: GitRepo, path: str, commits: int = 8, summaries: Path | None = None) -> str:
    worktree = open_worktree(repo.top)
    return prompt_block(worktree, path, commits, lambda _: None, seconds=20, summaries=summaries)


def grow(repo: GitRepo, count: int) -> None:
    for number in range(count):
        repo.commit(f"change {number}", **{"app.py": f"def f():\n    return {number}\n"})


def test_people_then_the_newest_commits_and_what_they_did_or_the_line_of_a_model(repo: GitRepo) -> None:
    grow(repo, 2)
    folder = layout_of(open_worktree(repo.top)).summaries
    lines = prompt(repo, "app.py", summaries=folder).splitlines()
    assert lines[0].startswith("2 commits by Ada Tester 2; last 20")
    assert lines[1].endswith(": change 1 — changes f, +1 −1")
    assert lines[2].endswith(": change 0 — added; with f, +2 −0")
    write_summary(folder, CommitSummary(repo.head(), "changes all", {"app.py": "returns 1"}))
    assert "change 1 — returns 1, +1 −1" in prompt(repo, "app.py", summaries=folder)
    (file,) = folder.rglob("*.json")
    first = repo.git("rev-parse", "HEAD^").strip()
    write_summary(folder, CommitSummary(first, "begins", {"app.py": "returns 0"}))
    file.write_text('{"version": 99}')
    text = prompt(repo, "app.py", summaries=folder)
    assert "change 1 — changes f, +1 −1" in text and "change 0 — returns 0" in text


def test_nothing_to_say_and_a_failure_of_git(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    assert prompt(repo, "new.py") == prompt(repo, "a.txt", 0) == prompt(make_repo("empty"), "a.txt") == ""
    worktree = open_worktree(repo.top)
    (repo.top / ".git/HEAD").write_text("nonsense\n")
    with pytest.raises(GitError):
        prompt_block(worktree, "a.txt", 8, lambda _: None, seconds=20)


@pytest.mark.soak
def test_time_is_bounded(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(repo, 2)
    worktree = open_worktree(repo.top)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f'#!/bin/sh\n"{real}" "$@" || exit\ncase "$*" in *--no-walk*) ;; *" log "*) exec sleep 60;; esac\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    found = prompt_block(worktree, "app.py", 8, lambda _: None, seconds=1.0)
    assert time.monotonic() - began < 15
    assert found.startswith("the last 2 commits by") and "change 1 — changes f, +1 −1" in found


def test_all_are_told_in_one_go_whatever_they_say(repo: GitRepo) -> None:
    first = repo.head()
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repo.git("commit", "-q", "--allow-empty", "-F", "-", stdin=b"Caf\xe9\n")
    repo.git("config", "--unset", "i18n.commitEncoding")
    latin = repo.head()
    repo.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
    empty = repo.head()
    repo.commit("map", **{".mailmap": "Grace <ada@example.com>\n"})
    found = read_headers(repo.top, [empty, latin, first, latin])
    assert list(found) == [empty, latin, first] and read_headers(repo.top, []) == {}
    assert list(read_headers(repo.top, ["0" * 39 + "1", first])) == [first]
    assert found[latin].subject == "Café" and found[empty].subject == "" and found[first].author == "Grace"
    assert first.startswith(found[first].short) and found[first].date[:4].isdigit()


def commit(author: str, date: str, email: str = "a@b.org") -> FileCommit:
    return FileCommit("a" * 40, "aaaaaaa", author, date, "s", 1, 1, email=email)


BOTS = [
    ("dependabot[bot]", "49699333+dependabot[bot]@users.noreply.github.com"), ("dependabot-preview[bot]", ""),
    ("Renovate Bot", "bot@renovateapp.com"), ("renovate", "29139614+renovate[bot]@users.noreply.github.com"),
    ("WhiteSource Renovate", "bot@renovateapp.com"), ("github-actions", "github-actions@github.com"),
    ("GitHub Actions", "x@y"), ("GitHub Action", "action@github.com"), ("pre-commit.ci", "noreply@pre-commit.ci"),
    ("snyk-bot", "snyk-bot@snyk.io"), ("Copybara-Service", "copybara-worker@google.com"),
    ("release", "noreply@ci.example.org"), ("bot", ""),
]  # fmt: skip
PERSONS = [
    ("Ada Lovelace", "ada@example.com"), ("Jane", "1234+jane@users.noreply.github.com"),
    ("Someone", "noreply@github.com"), ("Abbot", "abbot@example.com"), ("Robot Smith", "smith@example.com"), ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "email"), BOTS + PERSONS)
def test_programs_and_persons(name: str, email: str) -> None:
    assert is_bot(name, email) is ((name, email) in BOTS)
