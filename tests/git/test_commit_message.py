"""The message of a commit is exactly the planned one, for any configuration of git."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.edit.commit import with_trailers
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.edits import edit, shout, worktree

SCISSORS = "# ------------------------ >8 ------------------------"
BODY = f"""Explain the format

---
# not a comment
; neither this
> quoted
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
{SCISSORS}
Do not touch this line, it is no comment.
{"long " * 60}end
    indented, and the last.
"""
TRAILER = [("Repoagent-Edit", "0a1b2c")]
CLEANUP = ["commit.cleanup=scissors", "core.commentChar=auto", "commit.verbose=2"]
SETTINGS = [
    *CLEANUP, "core.commentChar=;", "commit.template=template", "trailer.ifMissing=doNothing", "commit.cleanup=strip",
    "commit.cleanup=verbatim", "commit.verbose=true", "commit.status=false", "format.signoff=true",
    "notes.rewriteRef=refs/notes/commits", "log.showSignature=true",
]  # fmt: skip


def commit(repo: GitRepo, text: str, **options: object) -> str:
    """The message of an edit with this text."""
    with Transaction(worktree(repo), [shout(repo, 5)], Options(**options)) as transaction:
        transaction.write()
        transaction.commit(text)
    return message(repo)


def message(repo: GitRepo) -> str:
    return repo.git("cat-file", "commit", "HEAD").partition("\n\n")[2]


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_line_is_lost(repo: GitRepo, setting: str) -> None:
    repo.commit("template", template="Template\n# fill in\n")
    repo.git("config", *setting.split("="))
    text = with_trailers(BODY, [("Assisted-by", "repoagent:test/model"), *TRAILER], repo.top)
    assert text == BODY + "\nAssisted-by: repoagent:test/model\nRepoagent-Edit: 0a1b2c\n"
    assert commit(repo, text) == text
    assert undo(worktree(repo)).moved


@pytest.mark.parametrize("setting", CLEANUP)
def test_no_line_is_lost_in_an_editor(
    repo: GitRepo, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/^Explain/Say/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(editor))
    repo.git("config", *setting.split("="))
    assert commit(repo, BODY, edit_message=True) == BODY.replace("Explain", "Say")


CONFIGURED = [
    ["trailer.sign.command=echo ran >> RAN"],
    ["trailer.sign.key=Signed-off-by: ", "trailer.sign.cmd=echo ran >> RAN", "trailer.sign.ifmissing=add"],
    ["trailer.where=start"],
    ["trailer.separators==%"],
    ["trailer.ifexists=doNothing", "trailer.ifmissing=doNothing"],
    ["trailer.repoagent-edit.key=Edit #"],
    ["trailer.repoagent-edit.ifmissing=doNothing"],
    ["core.commentChar=R"],
]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("settings", CONFIGURED, ids="; ".join)
@pytest.mark.parametrize("scope", ["--local", "--global", "environment"])
def test_the_trailers_are_ours_whatever_is_configured(
    repo: GitRepo, settings: list[str], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's trailers are for commits by the user with `--trailer`, so they are not run."""
    for number, setting in enumerate(settings):
        name, _, value = setting.partition("=")
        if scope == "environment":
            monkeypatch.setenv("GIT_CONFIG_COUNT", str(number + 1))
            monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
            monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
        else:
            repo.git("config", scope, name, value)
    monkeypatch.chdir(repo.top)
    text = with_trailers("Subject\n\nBody.\n\nFixes: #1\n", TRAILER, repo.top)
    assert text == "Subject\n\nBody.\n\nFixes: #1\nRepoagent-Edit: 0a1b2c\n"
    assert not (repo.top / "RAN").exists()


def test_trailers_with_a_signoff_and_with_git_dir(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    text = with_trailers("Subject\n\nBody.\n", TRAILER, repo.top)
    assert commit(repo, text, signoff=True) == text + "Signed-off-by: Ada Tester <ada@example.com>\n"
    repo.git("config", "trailer.ifmissing", "doNothing")
    monkeypatch.setenv("GIT_DIR", str(repo.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.top))
    assert with_trailers("Subject\n", [("A", "b")], repo.top) == "Subject\n\nA: b\n"


@pytest.mark.parametrize(
    "text", ["", "why " * 50_000, "word\n\n" * 40_000, f"{BODY}\nRepoagent-Edit: 0a1b2c"]
)
def test_fixup(repo: GitRepo, text: str) -> None:
    """An argument of a program cannot be longer than 128 KiB."""
    repo.git("config", "commit.verbose", "true")
    text = f"{text.strip()}\n".lstrip()
    assert commit(repo, text, fixup="HEAD") == f"fixup! first commit\n\n{text}".rstrip() + "\n"


def test_a_revert_and_a_fixup_are_encoded_as_configured(repo: GitRepo) -> None:
    edit(repo, shout(repo, 5), message="Größe 漢字")
    repo.git("branch", "other")
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    for step, expected in ((undo, 'Revert "Größe ??"\n'), (redo, "Größe ??\n")):
        step(worktree(repo))
        assert repo.git("log", "-1", "--format=%s", "--encoding=UTF-8") == expected
    repo.git("config", "i18n.logOutputEncoding", "UTF-16")
    edit(repo, shout(repo, 6), message="Maß", fixup="HEAD")
    assert repo.git("log", "-1", "--format=%B", "--encoding=UTF-8") == "fixup! Größe ??\n\nMaß\n\n"


def test_redo_keeps_the_message_that_the_commit_had_in_the_end(repo: GitRepo) -> None:
    repo.hook("commit-msg", 'echo "Change-Id: I0" >> "$1"\n')
    edit(repo, shout(repo, 5), message="edit\n\nRepoagent-Edit: 0a1b2c")
    text = message(repo)
    undo(worktree(repo))
    (repo.top / ".git/hooks/commit-msg").unlink()
    repo.commit("later", **{"b.txt": "b\n"})
    redo(worktree(repo))
    assert message(repo) == text and "Change-Id" in text
