"""`repoagent review --fix`: a finding becomes an edit, with the guards, the commit and the undo of any edit."""

from __future__ import annotations

import re

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import Done, Run, Script, diff, run, script
from tests.review.llm.conftest import NOTHING, SHOP, WORSE, finding

__all__ = ["run", "script"]

BETTER = "replace:\n|     return result * (1 + tax)\n"


@pytest.fixture
def repo(repo: GitRepo) -> GitRepo:
    """The worse code is staged."""
    repo.commit("shop", **{"shop.py": SHOP})
    repo.write("shop.py", WORSE)
    repo.git("add", "-A")
    return repo


def ids(done: Done) -> list[str]:
    return re.findall(r"\[([0-9a-f]{12})\]", done.out)


@pytest.mark.soak
def test_a_suggestion_is_committed_without_a_model(repo: GitRepo, run: Run, script: Script) -> None:
    repo.git("commit", "-qam", "worse")
    script.replies(finding(more=BETTER) + NOTHING)
    done = run("review", "--commit", "HEAD", "--ask")
    assert done.code == 0, done.err
    (name,) = ids(done)
    assert run("review", "--fix", name[:5]).code == 2  # no terminal to confirm on
    assert run("review", "--fix", "00000000", "--yes").code == 2
    done = run("review", "--fix", name[:5], "--yes", "--json")
    assert done.code == 0, done.err
    (fix,) = done.json["fixes"]
    assert (fix["id"], fix["outcome"], fix["commit"]) == (name, "committed", repo.head())
    assert len(script.prompts) == 1  # no model was asked for it
    assert repo.read("shop.py") == SHOP.encode()
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("Tax is added\n\ntotal([100], 0.2) is 100.2.\n")
    assert "Repoagent-Edit:" in message
    assert run("undo").code == 0
    assert repo.read("shop.py") == WORSE.encode()
    repo.write("shop.py", SHOP)
    done = run("review", "--fix", name, "--yes")
    assert (done.code, repo.read("shop.py")) == (3, SHOP.encode())
    assert "are no longer in shop.py" in done.err


@pytest.mark.soak
def test_without_a_suggestion_the_model_edits(repo: GitRepo, run: Run, script: Script) -> None:
    repo.git("commit", "-qam", "worse")
    edit = diff("shop.py", "-    return result * 1 + tax", "+    return result * (1 + tax)")
    script.replies(finding() + NOTHING, "<commit>Multiply\n</commit>\n" + edit)
    done = run("review", "--commit", "HEAD", "--ask", "--fix", "--yes")
    assert done.code == 0, done.err
    assert repo.git("log", "-1", "--format=%s").strip() == "Multiply"
    assert repo.read("shop.py") == SHOP.encode()
    request = script.prompts[1].partition("Request:")[2]
    assert "total([100], 0.2) is 100.2." in request
    assert "lines 5-5 of shop.py" in request


@pytest.mark.soak
def test_uncommitted_code_is_fixed_in_the_work_tree(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(finding(more=BETTER) + NOTHING)
    head = repo.head()
    done = run("review", "--ask", "--fix", "--yes")
    assert done.code == 0, done.err
    assert (repo.head(), repo.read("shop.py")) == (head, SHOP.encode())
    assert repo.git("show", ":shop.py") == WORSE  # the index is not changed
    assert "git add" in done.err


@pytest.mark.soak
def test_nothing_to_fix_and_a_finding_that_is_rejected(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(NOTHING)
    done = run("review", "--ask", "--fix", "--yes")
    assert (done.code, repo.read("shop.py")) == (1, WORSE.encode())
    assert "nothing to fix" in done.err
    repo.write("other.py", "value = 100\n")
    repo.git("add", "-A")
    script.replies(finding("other.py", "1", "value = 100") + NOTHING, "<reject>There is no fault.</reject>\n")
    done = run("review", "--ask", "--fix", "--yes", "--refresh")
    assert done.code == 1
    assert "There is no fault." in done.err


@pytest.mark.soak
def test_strict_fails_without_a_model(repo: GitRepo, run: Run) -> None:
    done = run("review", "--model", "command:exit 3")
    assert done.code == 0
    assert "command:exit" in done.err
    assert "shop.py:5" in done.err
    done = run("review", "--model", "command:exit 3", "--strict")
    assert done.code == 4


@pytest.mark.soak
def test_show_prompt_and_a_recording(repo: GitRepo, run: Run, script: Script) -> None:
    done = run("review", "--show-prompt")
    assert done.code == 0, done.err
    assert "     5 +|     return result * 1 + tax" in done.out
    assert "total tokens" in done.err
    assert script.prompts == []
    script.replies(finding() + NOTHING)
    assert run("review", "--ask", "--record", "tape").code == 0
    again = run("review", "--model", "replay:tape")
    assert again.code == 0
    assert len(ids(again)) == 1
