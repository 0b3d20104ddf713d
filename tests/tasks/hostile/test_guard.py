"""Protected in every mode: files that act when a folder is opened, and mass deletions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.agent.sandbox.confine import find_sandbox
from tests.cli.apply_patch import apply
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, User, committed, confined, go, nobody


def refuse_or_not(request: ApprovalRequest) -> Verdict:
    return Verdict(request.kind not in {"delete", "sensitive"}, reason="no", by="person")


@pytest.mark.skipif(
    (found := find_sandbox()) is None or not found.mounting, reason="no sandbox with mounts works here"
)
def test_files_that_act_on_opening_are_write_protected(repo: GitRepo) -> None:
    """Existing or not, at the top and below; the placeholders of the sandbox are removed."""
    repo.commit(**{".idea/x.xml": "1\n", "src/AGENTS.md": "1\n", "lib/.envrc": "1\n", "CLAUDE.md": "1\n"})
    before = sorted(path.name for path in repo.top.iterdir())
    tries = "mkdir -p .vscode/a; echo x >.vscode/tasks.json; echo x >.envrc; rm -r .idea; mv lib/.envrc lib/e; mkdir ok"
    more = "for f in .idea/x.xml src/AGENTS.md lib/.envrc CLAUDE.md; do echo 2 >$f; done; echo 2 >src/app.py"
    go(repo, f"<run>{tries}; {more}; true</run>", FINISH, mode="auto")
    assert committed(repo) == ["src/app.py"]
    assert sorted({path.name for path in repo.top.iterdir()} - {".repoagent"}) == sorted([*before, "ok"])
    run = "<run>echo 2 >CLAUDE.md; echo x >.envrc</run>"
    go(repo, run, FINISH, FINISH, mode="auto", allow_sensitive=True)
    assert (repo.read("CLAUDE.md"), repo.read(".envrc")) == (b"2\n", b"x\n")


def test_files_that_act_on_opening_are_removed_after_a_command(repo: GitRepo) -> None:
    """Without a sandbox that prevents it, with ignored files, and a repository in a folder."""
    repo.commit(**{".gitignore": ".vscode/\n", "CLAUDE.md": "1\n"})
    user = User(allows=refuse_or_not)
    made = "mkdir .vscode; echo x >.vscode/tasks.json; echo x >AGENTS.md; echo 2 >CLAUDE.md; git init -q src; echo 2 >a.txt"
    _, model, _ = go(repo, f"<run>{made}</run>", FINISH, FINISH, mode="ask", confine=False, user=user)
    assert "restored the previous content" in model.last_prompt
    assert not any((repo.top / path).exists() for path in (".vscode/tasks.json", "AGENTS.md", "src/.git"))
    assert (repo.read("CLAUDE.md"), repo.read("a.txt")) == (b"1\n", b"2\n")


def many(repo: GitRepo, number: int) -> None:
    repo.commit(**{f"old/f{n}.txt": f"{n}\n" for n in range(number)})


@confined
@pytest.mark.parametrize("answer", [nobody, refuse_or_not, None])
def test_a_mass_deletion_needs_approval_in_auto(
    repo: GitRepo, answer: Callable[[ApprovalRequest], Verdict] | None
) -> None:
    many(repo, 12)
    user = User(allows=answer) if answer else User()
    _, model, _ = go(repo, "<run>rm -r old; echo 2 >a.txt</run>", FINISH, FINISH, mode="auto", user=user)
    assert [request.kind for request in user.requests] == ["delete"]  # asked about once
    if answer:
        assert "ommands deleted 12 files" in model.last_prompt
        assert any("restored" in said for said in user.messages)
        assert len(list((repo.top / "old").iterdir())) == 12 and committed(repo) == ["a.txt"]
    else:
        assert len(committed(repo)) == 13


@confined
def test_deletions_add_up_and_a_rename_is_not_a_deletion(repo: GitRepo) -> None:
    many(repo, 40)
    user = User(allows=nobody)
    move = "<run>mkdir new; mv old/f1?.txt new</run>"
    first, last = "<run>rm old/f21.txt old/f22.txt old/f23.txt old/f24.txt</run>", "<run>rm old/f3.txt</run>"
    go(repo, move, first, last, '<keep path="new"/>' + FINISH, FINISH, FINISH, mode="auto", user=user)
    assert [request.what.count("old/") for request in user.requests] == [5]  # a tenth of 43
    assert (repo.top / "old/f3.txt").exists() and (repo.top / "new/f11.txt").exists()
    assert not (repo.top / "old/f21.txt").exists()


def test_a_mass_deletion_by_an_edit_needs_separate_approval(repo: GitRepo) -> None:
    many(repo, 11)
    gone = "".join(
        f"diff --git a/old/f{n}.txt b/old/f{n}.txt\ndeleted file mode 100644\n--- a/old/f{n}.txt\n+++ /dev/null\n"
        f"@@ -1 +0,0 @@\n-{n}\n"
        for n in range(11)
    )
    done = apply(repo.top, gone, "--yes")
    assert done.code == 3 and "is one of 11 files that this change deletes" in done.err
    assert apply(repo.top, gone, "--yes", "--allow-sensitive").code == 0
    repo.git("reset", "-q", "--hard", "HEAD^")
    go(repo, f"```diff\n{gone}```\n", FINISH, FINISH, mode="auto")
    assert len(list((repo.top / "old").iterdir())) == 11
