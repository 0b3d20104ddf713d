"""Changes during a background command are found at the next snapshot, and never become the run's silently."""

from __future__ import annotations

from repoagent.llm.model import Request
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, audited, committed, diff, go

WAITS = "until [ -e go ]; do sleep 0.02; done; rm go"


def begin(repo: GitRepo) -> None:
    repo.commit("Begin", **{f"{name}.txt": f"{name}\n" for name in "abd"})


def test_changes_in_the_background_are_candidates(repo: GitRepo) -> None:
    begin(repo)

    def saves(_: Request) -> str:
        repo.write("d.txt", "the person's\n")
        repo.write("go", "")
        return '<wait command="b1"/>'

    run = f'<run background="yes">{WAITS}; echo new >b.txt; echo c >c.txt</run>'
    ends = ['<keep path="b.txt"/>', "<run>true</run>", FINISH, FINISH]
    _, _, user = go(repo, run, diff("a.txt", "a", "edited"), saves, *ends, mode="ask")
    result = next(one.text for one in user.observations if one.kind == "wait")
    assert "b.txt, c.txt (new), d.txt: that is not part of your change" in result and "a.txt" not in result
    assert any("in the background changed b.txt, c.txt (new), d.txt" in one for one in user.messages)
    assert committed(repo) == ["a.txt", "b.txt"]
    assert repo.git("status", "--porcelain").split() == ["M", "d.txt", "??", "c.txt"]
    written = {one["path"] for one in audited(repo, "write") if one.get("by") == "background"}
    assert written == {"b.txt", "c.txt", "d.txt"}


def test_the_runs_own_changes_are_not_candidates(repo: GitRepo) -> None:
    begin(repo)
    steps = ['<run background="yes">sleep 60</run>', diff("a.txt", "a", "one"), "<run>true</run>", '<restore path="a.txt"/>',
             "<run>echo z >d.txt</run>", diff("b.txt", "b", "two"), "<run>true</run>"]  # fmt: skip
    _, _, user = go(repo, *steps, FINISH, FINISH, mode="ask")
    assert not [one.text for one in user.observations if "background, " in one.text]
    assert not [one for one in user.messages if "in the background" in one]
    assert committed(repo) == ["b.txt", "d.txt"]


def test_a_later_change_of_the_runs_file_is_reported(repo: GitRepo) -> None:
    begin(repo)
    run = f'<run background="yes">{WAITS}; echo more >>a.txt</run>'

    def waits(_: Request) -> str:
        repo.write("go", "")
        return '<wait command="b1"/>'

    _, _, user = go(repo, run, diff("a.txt", "a", "one"), waits, FINISH, FINISH, mode="ask")
    assert "a.txt, which you had changed, changed again" in "".join(one.text for one in user.observations)
    assert repo.git("show", "HEAD:a.txt") == "one\n" and repo.read("a.txt") == b"one\nmore\n"
