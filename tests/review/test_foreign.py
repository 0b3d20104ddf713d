"""A change cannot relax its own review: the attempt has no effect and is a finding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.review.test_review import review
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
    repo.git("commit", "-qm", "begin")
    repo.git("branch", "-m", "main")
    repo.git("checkout", "-qb", "topic")
    repo.write("lib.py", "a = 1\nbreakpoint()\n")
    return repo


def report(repo: GitRepo, message: str, *how: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings by rule, after committing all files."""
    repo.git("add", "-A")
    repo.git("commit", "--allow-empty", "-qm", message)
    done = review(repo.top, "--json", *(how or ("--base", "main")))
    assert done.returncode in (0, 1), done.stderr
    by_rule: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        by_rule.setdefault(finding["rule"], []).append(finding)
    return done.returncode, by_rule


def titles(by_rule: dict[str, list[dict[str, Any]]]) -> str:
    return "\n".join(entry["title"] for entry in by_rule.get(RULE, ()))


def test_levels_are_those_of_the_merge_base(base: GitRepo) -> None:
    code, by_rule = report(base, "Edit it")
    assert code == 1 and RULE not in by_rule
    assert [entry["level"] for entry in by_rule["debug-leftover"]] == ["error"]
    config = '[review]\nfail_on = "never"\nmax_calls = 1\n[review.rules]\ndebug-leftover = "off"\n'
    base.write(".repoagent/config.toml", config + 'review-relaxed = "off"\ntests = "error"\n')
    code, by_rule = report(base, "Relax it")
    assert code == 1 and [entry["level"] for entry in by_rule["debug-leftover"]] == ["error"]
    text = titles(by_rule)
    for words in (
        "review.rules.debug-leftover from error to off", "review.rules.review-relaxed from warning to off",
        "review.fail_on from warning to never", "review.max_calls from 20 to 1",
    ):  # fmt: skip
        assert words in text
    assert "rules.tests" not in text  # which is raised
    for how in (["--commit", "HEAD~"], ["main..topic"], ["main...topic", "--", "src"]):
        _, by_rule = report(base, "Nothing more", *how)
        assert "debug-leftover from error to off" in titles(by_rule), how


def test_a_removed_configuration_is_reported(base: GitRepo) -> None:
    (base.top / ".repoagent/config.toml").unlink()
    code, by_rule = report(base, "Remove it")
    assert code == 1 and by_rule["debug-leftover"][0]["level"] == "error"
    assert "review.fail_on from warning to error" in titles(by_rule)
    assert "debug-leftover from error to warning" in titles(by_rule)


def test_dismissals_of_the_change_do_not_count(base: GitRepo) -> None:
    _, by_rule = report(base, "Edit it")
    finding = by_rule["debug-leftover"][0]
    record = {"version": 1, "id": finding["id"], "state": "dismissed"}
    record |= dict.fromkeys(("rule", "path", "title", "reason", "time"), "")
    base.write(".repoagent/reviews/dismissed.jsonl", json.dumps(record) + "\n")
    base.write("src/app.py", base.read("src/app.py") + b"# repoagent: ignore[*]\nx = 1\n")
    code, by_rule = report(base, "More\n\nReview-Ignore: *\n")
    assert code == 1 and [entry["id"] for entry in by_rule["debug-leftover"]] == [finding["id"]]
    text = titles(by_rule)
    assert "Review-Ignore: *" in text and "ignore[*]" in text and finding["id"] in text
    base.git("checkout", "-q", "main")  # dismissals on main count
    record["reason"] = "I know"
    base.write(".repoagent/reviews/dismissed.jsonl", json.dumps(record) + "\n")
    done = review(base.top, "--json", "main..topic")
    assert finding["id"] not in [entry["id"] for entry in json.loads(done.stdout)["findings"]]


def test_a_change_with_learned_data_is_refused(base: GitRepo) -> None:
    base.write(".repoagent/reviews/last.json", "{}")
    base.git("add", "-fA")
    base.git("commit", "-qm", "Learned")
    done = review(base.top, "--base", "main")
    assert done.returncode not in (0, 1) and "remove it from the change" in done.stderr


def test_hidden_files_are_reported_and_reviewed(base: GitRepo) -> None:
    base.write(".gitattributes", "*.py -diff\nvendor/** -linguist-vendored\n*.c linguist-generated\n")
    base.write(".repoagentignore", "# secret\nsrc/\n")
    base.write("src/app.py", "# repoagent: ignore[security]\n" + base.read("src/app.py").decode())
    _, by_rule = report(base, "Hide it")
    text = titles(by_rule)
    assert "*.py -diff, *.c linguist-generated in .gitattributes" in text
    assert "src/ in .repoagentignore" in text
    assert "ignore[security]" in text  # its lines are read, although git treats it as binary now
    assert "debug-leftover" in by_rule


@pytest.mark.parametrize("gone", [True, False])
def test_changes_of_files_that_run_the_review_are_reported(base: GitRepo, *, gone: bool) -> None:
    path = base.top / ".github/workflows/ci.yml"
    path.unlink() if gone else path.write_text(path.read_text() + "    continue-on-error: true\n")
    _, by_rule = report(base, "Quicker")
    assert ("removes" if gone else "changes") + " what runs this review" in titles(by_rule)


def test_the_staged_change_is_not_foreign(base: GitRepo) -> None:
    base.write(".repoagent/config.toml", '[review.rules]\ndebug-leftover = "off"\n')
    base.git("add", "-fA")
    done = review(base.top, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["findings"] == []


def test_a_diff_cannot_dismiss_findings(base: GitRepo) -> None:
    base.write(".repoagent/config.toml", '[review.rules]\ndebug-leftover = "off"\n')
    base.write("src/app.py", base.read("src/app.py") + b"# repoagent: ignore[*]\n")
    diff = base.git("diff", "HEAD").encode()
    base.git("checkout", "-q", ".")
    findings = json.loads(review(base.top, "--json", "-", stdin=diff).stdout)["findings"]
    assert {entry["rule"] for entry in findings} >= {"debug-leftover", RULE}
    assert len([entry for entry in findings if entry["rule"] == RULE]) >= 3
