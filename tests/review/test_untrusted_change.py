"""A change cannot relax its own review: the attempt has no effect and is a finding."""

from __future__ import annotations

import json

import pytest

from repoagent.config.layers import load_settings
from repoagent.errors import Refused
from repoagent.git.worktree import layout_of, open_at_head
from repoagent.review.finding import Finding
from repoagent.review.read_diff import ChangeSelector, How, read_change
from repoagent.review.review import ReviewSession, review
from repoagent.review.untrusted_change import settings_before
from tests import program
from tests.conftest import GitRepo

RULE = "review-relaxed"


@pytest.fixture
def base(repo: GitRepo) -> GitRepo:
    """A main branch whose configuration is strict, and a leftover of debugging on `topic`."""
    repo.write(
        ".repoagent/config.toml", '[review]\nfail_on = "warning"\n[review.rules]\ndebug-leftover = "error"\n'
    )
    repo.write(".repoagent/.gitignore", "*\n!config.toml\n!.gitignore\n!reviews/\n!reviews/dismissed.jsonl\n")
    repo.write(".github/workflows/ci.yml", "steps:\n  - run: repoagent review --base origin/main\n")
    repo.write("lib.py", "a = 1\n")
    repo.git("add", "-fA")
    repo.commit("begin")
    repo.git("checkout", "-qb", "topic")
    repo.write("lib.py", "a = 1\nbreakpoint()\n")
    return repo


def report(
    repo: GitRepo, how: How = "base", value: str = "main", *paths: str, diff: bytes = b""
) -> dict[str, list[Finding]]:
    """The findings by rule, with the settings that the command reviews with."""
    worktree, head = open_at_head(repo.top)
    change, unseen = read_change(worktree, head, ChangeSelector(how, value, paths, repo.top, diff))
    settings = settings_before(
        change, worktree, layout_of(worktree), load_settings(layout_of(worktree), repo.top)
    )
    report = review(change, ReviewSession(worktree, layout_of(worktree), settings), unseen)
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    return by_rule


def titles(by_rule: dict[str, list[Finding]]) -> str:
    return "\n".join(finding.title for finding in by_rule.get(RULE, ()))


def test_levels_are_those_of_the_merge_base(base: GitRepo) -> None:
    base.commit("Edit it")
    by_rule = report(base)
    assert RULE not in by_rule
    assert [finding.level.word for finding in by_rule["debug-leftover"]] == ["error"]
    config = '[review]\nfail_on = "never"\nmax_calls = 1\n[review.rules]\ndebug-leftover = "off"\n'
    base.write(".repoagent/config.toml", config + 'review-relaxed = "off"\ntests = "error"\n')
    base.commit("Relax it")
    by_rule = report(base)
    assert program.run(["review", "--base", "main"], base.top).returncode == 1
    assert [finding.level.word for finding in by_rule["debug-leftover"]] == ["error"]
    text = titles(by_rule)
    for words in (
        "review.rules.debug-leftover from error to off", "review.rules.review-relaxed from warning to off",
        "review.fail_on from warning to never", "review.max_calls from 20 to 1",
    ):  # fmt: skip
        assert words in text
    assert "rules.tests" not in text  # which is raised
    ways: list[tuple[How, str, str]] = [
        ("commit", "HEAD", "."), ("range", "main..topic", "."), ("range", "main...topic", "src"),
    ]  # fmt: skip
    for how in ways:
        assert "debug-leftover from error to off" in titles(report(base, *how)), how


def test_a_removed_configuration_is_reported(base: GitRepo) -> None:
    (base.top / ".repoagent/config.toml").unlink()
    base.commit("Remove it")
    by_rule = report(base)
    assert program.run(["review", "--base", "main"], base.top).returncode == 1
    assert by_rule["debug-leftover"][0].level.word == "error"
    assert "review.fail_on from warning to error" in titles(by_rule)
    assert "debug-leftover from error to warning" in titles(by_rule)


def test_dismissals_of_the_change_do_not_count(base: GitRepo) -> None:
    base.commit("Edit it")
    (finding,) = report(base)["debug-leftover"]
    record = {"version": 1, "id": finding.id, "state": "dismissed"}
    record |= dict.fromkeys(("rule", "path", "title", "reason", "time"), "")
    base.write(".repoagent/reviews/dismissed.jsonl", json.dumps(record) + "\n")
    base.write("src/app.py", base.read("src/app.py") + b"# repoagent: ignore[*]\nx = 1\n")
    base.commit("More\n\nReview-Ignore: *\n")
    by_rule = report(base)
    assert [finding.id for finding in by_rule["debug-leftover"]] == [finding.id]
    text = titles(by_rule)
    assert "Review-Ignore: *" in text and "ignore[*]" in text and finding.id in text
    base.git("checkout", "-q", "main")  # dismissals on main count
    record["reason"] = "I know"
    base.write(".repoagent/reviews/dismissed.jsonl", json.dumps(record) + "\n")
    assert "debug-leftover" not in report(base, "range", "main..topic")


def test_a_change_with_learned_data_is_refused(base: GitRepo) -> None:
    base.write(".repoagent/reviews/last.json", "{}")
    base.git("add", "-fA")
    base.commit("Learned")
    with pytest.raises(Refused, match="remove it from the change"):
        report(base)


def test_hidden_files_are_reported_and_reviewed(base: GitRepo) -> None:
    base.write(".gitattributes", "*.py -diff\nvendor/** -linguist-vendored\n*.c linguist-generated\n")
    base.write(".repoagentignore", "# secret\nsrc/\n")
    base.write("src/app.py", "# repoagent: ignore[security]\n" + base.read("src/app.py").decode())
    base.commit("Hide it")
    by_rule = report(base)
    text = titles(by_rule)
    assert "*.py -diff, *.c linguist-generated in .gitattributes" in text
    assert "src/ in .repoagentignore" in text
    assert "ignore[security]" in text  # its lines are read, although git treats it as binary now
    assert "debug-leftover" in by_rule


@pytest.mark.parametrize("gone", [True, False])
def test_changes_of_files_that_run_the_review_are_reported(base: GitRepo, *, gone: bool) -> None:
    path = base.top / ".github/workflows/ci.yml"
    path.unlink() if gone else path.write_text(path.read_text() + "    continue-on-error: true\n")
    base.commit("Quicker")
    assert ("removes" if gone else "changes") + " what runs this review" in titles(report(base))


def test_the_staged_change_is_not_foreign(base: GitRepo) -> None:
    base.write(".repoagent/config.toml", '[review.rules]\ndebug-leftover = "off"\n')
    base.git("add", "-fA")
    assert report(base, "staged", "") == {}


def test_a_diff_cannot_dismiss_findings(base: GitRepo) -> None:
    base.write(".repoagent/config.toml", '[review.rules]\ndebug-leftover = "off"\n')
    base.write("src/app.py", base.read("src/app.py") + b"# repoagent: ignore[*]\n")
    diff = base.git("diff", "HEAD").encode()
    base.git("checkout", "-q", ".")
    by_rule = report(base, "diff", "", diff=diff)
    assert "debug-leftover" in by_rule and len(by_rule[RULE]) >= 3
