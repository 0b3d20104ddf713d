"""`repoagent review --fix`: a finding becomes an edit, with the guards, the commit and the undo of any edit."""

from __future__ import annotations

import re

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import Done, Run, Script, diff, run, script
from tests.review.llm.conftest import NOTHING, SHOP, WORSE, finding

__all__ = ["run", "script"]

pytestmark = pytest.mark.soak
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
    (name,) = ids(run("review", "--commit", "HEAD", "--ask", code=0))
    run("review", "--fix", name[:5], code=2)  # no terminal to confirm on
    run("review", "--fix", "00000000", "--yes", code=2)
    (fix,) = run("review", "--fix", name[:5], "--yes", "--json", code=0).json["fixes"]
    assert (fix["id"], fix["outcome"], fix["commit"]) == (name, "committed", repo.head())
    assert len(script.prompts) == 1  # no model was asked for it
    assert repo.read("shop.py") == SHOP.encode()
    message = repo.git("log", "-1", "--format=%B")
    assert (
        message.startswith("Tax is added\n\ntotal([100], 0.2) is 100.2.\n") and "Repoagent-Edit:" in message
    )
    run("undo", code=0)
    assert repo.read("shop.py") == WORSE.encode()
    repo.write("shop.py", SHOP)
    assert "are no longer in shop.py" in run("review", "--fix", name, "--yes", code=3).err
    assert repo.read("shop.py") == SHOP.encode()


@pytest.mark.soak
def test_without_a_suggestion_the_model_edits(repo: GitRepo, run: Run, script: Script) -> None:
    repo.git("commit", "-qam", "worse")
    edit = diff("shop.py", "-    return result * 1 + tax", "+    return result * (1 + tax)")
    script.replies(finding() + NOTHING, "<commit>Multiply\n</commit>\n" + edit)
    run("review", "--commit", "HEAD", "--ask", "--fix", "--yes", code=0)
    assert repo.git("log", "-1", "--format=%s").strip() == "Multiply"
    assert repo.read("shop.py") == SHOP.encode()
    request = script.prompts[1].partition("Request:")[2]
    assert "total([100], 0.2) is 100.2." in request and "lines 5-5 of shop.py" in request


@pytest.mark.soak
def test_uncommitted_code_is_fixed_in_the_work_tree(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(finding(more=BETTER) + NOTHING)
    head = repo.head()
    assert "git add" in run("review", "--ask", "--fix", "--yes", code=0).err
    assert (repo.head(), repo.read("shop.py")) == (head, SHOP.encode())
    assert repo.git("show", ":shop.py") == WORSE  # the index is not changed


@pytest.mark.soak
def test_nothing_to_fix_and_a_finding_that_is_rejected(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(NOTHING)
    assert "nothing to fix" in run("review", "--ask", "--fix", "--yes", code=1).err
    assert repo.read("shop.py") == WORSE.encode()
    repo.write("other.py", "value = 100\n")
    repo.git("add", "-A")
    script.replies(finding("other.py", "1", "value = 100") + NOTHING, "<reject>There is no fault.</reject>\n")
    assert "There is no fault." in run("review", "--ask", "--fix", "--yes", "--refresh", code=1).err


@pytest.mark.soak
def test_strict_fails_without_a_model(repo: GitRepo, run: Run) -> None:
    done = run("review", "--model", "command:exit 3", code=0)
    assert "command:exit" in done.err and "shop.py:5" in done.err
    run("review", "--model", "command:exit 3", "--strict", code=4)


@pytest.mark.soak
def test_show_prompt_and_a_recording(repo: GitRepo, run: Run, script: Script) -> None:
    done = run("review", "--show-prompt", code=0)
    assert "     5 +|     return result * 1 + tax" in done.out and "total tokens" in done.err
    assert script.prompts == []
    script.replies(finding() + NOTHING)
    run("review", "--ask", "--record", "tape", code=0)
    assert len(ids(run("review", "--model", "replay:tape", code=0))) == 1
