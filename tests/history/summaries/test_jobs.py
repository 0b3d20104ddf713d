"""Asking a model once, and never again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import LimitReached, ModelError
from repoagent.git.worktree import layout, open_worktree
from repoagent.history import commit_summaries
from repoagent.history.commit_details import Step
from repoagent.history.commit_summaries import Outcome, Plan, find_known, plan, summarize
from repoagent.history.file_history import read_history
from repoagent.llm.providers.command import CommandModel
from repoagent.llm.usage import Limits, Meter, Price
from repoagent.storage.layout import Layout
from tests.conftest import GitRepo
from tests.history.summaries.conftest import Program

GONE = CommandModel("false")


@pytest.fixture
def small_calls(monkeypatch: pytest.MonkeyPatch) -> int:
    """A call is about 2 commits."""
    monkeypatch.setattr(commit_summaries, "COMMITS", 2)
    return 2


def grow(repo: GitRepo, count: int) -> None:
    for number in range(count):
        repo.commit(f"change {number}", **{"a.txt": f"{number}\n", "b.txt": f"{number}\n"})


def found(repo: GitRepo, path: str = "a.txt") -> tuple[Step, ...]:
    return read_history(repo.top, path, seconds=20).steps


def place(repo: GitRepo) -> Layout:
    return layout(open_worktree(repo.top))


def planned(
    repo: GitRepo,
    path: str = "a.txt",
    *,
    share: bool = False,
    why_not: Callable[[str], str | None] = lambda p: None,
) -> Plan:
    steps = found(repo, path)
    known = find_known(repo.top, place(repo), steps, share=share, thorough=True)
    return plan(repo.top, steps, known, why_not=why_not)


def pay(repo: GitRepo, model: Program, path: str = "a.txt", **limits: float) -> Outcome:
    outcome = Outcome()
    meter = Meter(Limits(**limits), lambda spec: Price(1.0, 1.0))  # type: ignore[arg-type]
    summarize(
        planned(repo, path),
        CommandModel(model.spec.removeprefix("command:")),
        meter,
        place(repo),
        outcome=outcome,
    )
    return outcome


def test_one_call_for_several_commits_and_none_ever_again(repo: GitRepo, model: Program) -> None:
    grow(repo, 4)
    outcome = pay(repo, model)
    assert (len(model.prompts), len(outcome.summaries)) == (1, 5)
    steps = found(repo)
    known = find_known(repo.top, place(repo), steps)
    assert known.summaries == outcome.summaries
    assert known.summaries[steps[0].commit.commit].files["a.txt"] == "says 1.1 in call 0"
    assert planned(repo).commits == 0
    assert planned(repo, "b.txt").commits == 0  # the same commits, another of their files
    repo.git("mv", "a.txt", "c.txt")
    repo.commit("rename")
    assert planned(repo, "c.txt").commits == 1  # the rename itself


def test_a_rebase_that_kept_the_patch_is_not_paid_again(repo: GitRepo, model: Program) -> None:
    base = repo.head()
    grow(repo, 3)
    before = pay(repo, model)
    repo.git("checkout", "-q", "-b", "other", base)
    repo.commit("before", **{"z.txt": "z\n"})
    repo.git("cherry-pick", f"{base}..main")
    steps = found(repo)
    assert not {s.commit.commit for s in steps[:3]} & before.summaries.keys()
    assert planned(repo).commits == 0
    known = find_known(repo.top, place(repo), steps)  # now by their own ids
    assert [known.summaries[s.commit.commit].line for s in steps] == [
        s.line for s in before.summaries.values()
    ]


@pytest.mark.soak
def test_a_new_clone_has_them_from_the_notes(repo: GitRepo, model: Program, tmp_path: Path) -> None:
    from repoagent.history.summary_store import write_notes

    grow(repo, 2)
    paid = pay(repo, model)
    write_notes(repo.top, paid.summaries.values())
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", repo.top.as_uri(), clone], check=True)
    other = GitRepo(clone)
    other.git("fetch", "-q", "origin", "refs/notes/repoagent:refs/notes/repoagent")
    assert planned(other).commits == 3
    assert planned(other, share=True).commits == 0
    assert planned(other).commits == 0  # they were taken over


@pytest.mark.soak
def test_a_failed_call_keeps_nothing_and_what_was_before_stays(
    repo: GitRepo, model: Program, small_calls: int
) -> None:
    grow(repo, 2)
    model.answers("if count: sys.exit('out of order')")
    todo = planned(repo)
    assert [len(batch) for batch in todo.batches] == [2, 1]
    outcome = Outcome()
    with pytest.raises(ModelError):
        summarize(
            todo, CommandModel(model.spec.removeprefix("command:")), Meter(), place(repo), outcome=outcome
        )
    assert len(outcome.summaries) == small_calls
    assert planned(repo).commits == 1
    model.answers()
    assert len(pay(repo, model).summaries) == 1
    assert planned(repo).commits == 0


def test_missing_and_garbled_lines_are_not_kept(repo: GitRepo, model: Program) -> None:
    grow(repo, 3)
    model.answers(
        "lines = [line for line in lines if not line.startswith(('2.1', '3.0'))] + ['4.0: another']"
    )
    outcome = pay(repo, model)
    ids = [step.commit.commit for step in found(repo)]
    assert list(outcome.summaries) == [ids[0]]
    assert outcome.garbled == ids[1:]
    assert planned(repo).commits == 3


def test_limits_hold_before_the_call(repo: GitRepo, model: Program, small_calls: int) -> None:
    grow(repo, 3)
    with pytest.raises(LimitReached):
        pay(repo, model, cost=0.000001)
    assert model.prompts == []
    with pytest.raises(LimitReached):
        pay(repo, model, turns=1)
    assert (len(model.prompts), planned(repo).commits) == (1, 2)


def test_the_cost_is_known_before(repo: GitRepo) -> None:
    grow(repo, 3)
    todo = planned(repo)
    assert todo.cost(None) is None
    cost = todo.cost(Price(1.0, 2.0))
    assert cost is not None and cost == pytest.approx((todo.usage.input + 2 * todo.usage.output) / 1e6)
    assert todo.usage.input > 300


def test_what_may_not_be_sent_is_left_out(repo: GitRepo, model: Program) -> None:
    repo.commit("both", **{"a.txt": "public\n", ".env": "SECRET=1\n"})
    todo = planned(repo, why_not=lambda path: "no" if path == ".env" else None)
    text = todo.batches[0][0].text
    assert "public" in text and "SECRET" not in text and ".env" not in text
    hidden = planned(repo, ".env", why_not=lambda path: "no" if path == ".env" else None).batches[0][0]
    assert "SECRET" not in hidden.text and hidden.path == ""


def test_a_bulk_commit_shows_the_one_file(repo: GitRepo, model: Program) -> None:
    repo.commit("flood", **{f"many/{n}.txt": "x\n" for n in range(120)}, **{"a.txt": "flood\n"})
    asked = planned(repo).batches[0][0]
    assert asked.paths == ("a.txt",) and "+flood" in asked.text and "changes 121 files" in asked.text
    pay(repo, model)
    assert planned(repo, "many/7.txt").commits == 0


def test_directories_merges_and_partial_clones(repo: GitRepo, model: Program, tmp_path: Path) -> None:
    repo.commit("in src", **{"src/app.py": "x = 1\n"})
    pay(repo, model, "src")
    (step, *_) = found(repo, "src")
    assert (
        find_known(repo.top, place(repo), [step]).summaries[step.commit.commit].line == "says 1.0 in call 0"
    )
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit("change", **{"a.txt": "x\n"})
    clone = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", repo.top.as_uri(), clone], check=True)
    asked = planned(GitRepo(clone)).batches[0]
    assert ["omitted)" in one.text for one in asked] == [True, True]
    assert [one.paths for one in asked] == [("a.txt",), ("a.txt",)]
