"""What a model or a repository says is never an option of git, a pattern without end, or a program that runs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from repoagent.agent.actions import Action
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.request import EditRequest, Target
from repoagent.edit.tools import look_up
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script
from tests.security.conftest import Attack, modify, snapshot

HOSTILE = [
    "--output=PWNED", "-O", "-Otouch PWNED", "--open-files-in-pager=touch PWNED", "--upload-pack=touch PWNED", "--ext-diff",
    "--no-index /etc/passwd", "-f/etc/passwd", "--all", "--", "", " ", "-e", "HEAD:a.txt", ":(top)a.txt", ":/a.txt", "../../etc/passwd",
    "/etc/passwd", ".git/config", "a.txt\0b", "a\nb", "--exec=touch PWNED", "$(touch PWNED)", "`touch PWNED`", "\udcff", "\ud800", "x" * 5000,
    "--end-of-options", "--textconv", "--git-dir=/tmp",
]  # fmt: skip


def bench(repo: GitRepo) -> EditSession:
    request = EditRequest("x", (Target("a.txt"),), scope="repo")
    return EditSession(
        open_worktree(repo.top), request, Draft({}), {"a.txt"}, off_limits_gate(repo.top, ("a.txt",))
    )


@pytest.mark.parametrize("name", ["read", "search", "outline", "history"])
def test_no_argument_of_a_tool_is_an_option(repo: GitRepo, name: str) -> None:
    tool = look_up(bench(repo), name)
    before = snapshot(repo.top)
    for text in HOSTILE:
        for args in ({"path": text}, {"pattern": text}, {"path": "a.txt", "lines": text}):
            seen = tool.perform(Action(tool.name, args))
            assert "root:" not in seen.text and "[core]" not in seen.text, (text, args, seen)
    assert snapshot(repo.top) == before


@pytest.mark.soak
def test_a_pattern_can_not_take_for_ever(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("long.txt", "a" * 40_000 + "!\n" + "ab" * 20_000 + "\n")
    repo.commit("long")
    monkeypatch.setattr("repoagent.edit.tools.SECONDS", 1.0)
    tool = look_up(bench(repo), "search")
    patterns = (r"(a+)+$", r"(a|aa)+b$", r"((a*)*)*\1\1c", r"(.*)(.*)(.*)x\3\2\1", "a{1,32000}b", "(" * 3000)
    for pattern in patterns:
        started = time.monotonic()
        seen = tool.perform(Action("search", {"pattern": pattern}))
        assert time.monotonic() - started < 8, pattern
        assert len(seen.text) < 20_000


NAMED = [
    ("--branch", "--upload-pack=x"), ("--branch", "-D"), ("--branch", "-dmain"), ("--branch", "a..b"), ("--branch", "x\ny"),
    ("--branch", "@{-1}"), ("--fixup", "--output=PWNED"), ("--fixup", "-p"), ("--fixup", "amend:HEAD"), ("--fixup", "--all"),
]  # fmt: skip


def test_names_of_a_person_are_no_options_either(repo: GitRepo, attack: Attack) -> None:
    refs = repo.git("for-each-ref")
    answers = [modify("a.txt", "line 1", "line one")] * len(NAMED)
    ended = attack(answers, "edit", "a.txt", "x", "--yes", each=NAMED)
    for given, end in zip(NAMED, ended, strict=True):
        assert "Traceback" not in end.err and end.code in {2, 3, 6}, (given, end)
    assert not (repo.top / "PWNED").exists()
    assert (repo.git("for-each-ref"), repo.status()) == (refs, "")


def test_an_edit_id_is_no_option(repo: GitRepo, attack: Attack) -> None:
    names = ["--all", "-f", "../../x", "x/../../y", "a b", "", "\x1b[31m"]
    each = [(verb, "--", name) for verb in ("undo", "redo") for name in names]
    ended = attack([""] * len(each), each=each)
    for end in ended:
        assert end.code in {1, 2, 3} and "Traceback" not in end.err and "\x1b" not in end.err, end


def test_configured_programs_are_not_run(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    """Filters and hooks are what a commit is made with, so git runs them; what only shows or watches it does not."""
    log = tmp_path / "ran"
    program = tmp_path / "program.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {log}\ncat 2>/dev/null\n')
    program.chmod(0o755)
    for key in (
        "diff.external", "diff.x.command", "diff.x.textconv", "core.pager", "core.fsmonitor", "core.sshCommand", "core.askPass",
        "core.editor", "sequence.editor", "pager.log", "interactive.diffFilter", "credential.helper", "core.gitProxy",
        "uploadpack.packObjectsHook", "alias.log", "alias.config", "log.showSignature", "gpg.program",
    ):  # fmt: skip
        repo.git("config", key, "true" if key == "log.showSignature" else str(program))
    repo.write(".gitattributes", "*.txt diff=x\n")
    repo.git("-c", "core.fsmonitor=false", "add", "-A")
    repo.git("-c", "core.fsmonitor=false", "commit", "-qm", "attributes")
    log.unlink(missing_ok=True)
    (repo.top / "a.txt").write_text((repo.top / "a.txt").read_text() + "more\n")  # uncommitted work
    asked = '<search pattern="line"/>\n<history path="a.txt"/>\n'
    script.replies(asked, modify("a.txt", "line 1", "line one"))
    run("edit", "a.txt", "x", "--yes", code=0)
    run("undo", code=0)
    assert len(script.prompts) == 2
    ran = log.read_text().splitlines() if log.exists() else []
    ran = [line for line in ran if not line.endswith((" 1", " 2")) and " 2 " not in line]
    assert [line for line in ran if "fsmonitor" not in line] == []


CONFIG = """\
model = "command:touch PWNED; cat"
check = "touch PWNED"
fallback = ["command:touch PWNED"]

[edit]
scope = "repo"
sensitive = []

[alias]
"anthropic/x" = "command:touch PWNED"

[providers.anthropic]
base_url = "http://127.0.0.1:1/"
"""


def test_a_cloned_configuration_runs_nothing(repo: GitRepo, attack: Attack) -> None:
    repo.write(".repoagent/config.toml", CONFIG)
    repo.git("add", "-f", ".repoagent")
    repo.git("commit", "-qm", "theirs")
    (end,) = attack([modify("a.txt", "line 1", "line one")], "edit", "a.txt", "x", "--yes")
    assert end.code == 0, end
    assert "may not set" in end.err and "check" in end.err
    (end,) = attack([""], "edit", "a.txt", "x", "--yes", env={"REPOAGENT_MODEL": "", "ANTHROPIC_API_KEY": ""})
    assert end.code == 4, end
    assert not (repo.top / "PWNED").exists()


def test_a_hook_reads_nothing_from_our_input(repo: GitRepo, attack: Attack, tmp_path: Path) -> None:
    repo.hook("pre-commit", f"cat > {tmp_path}/stdin\n")
    (end,) = attack([modify("a.txt", "line 1", "line one")], "edit", "a.txt", "x", "--yes")
    assert end.code == 0, end
    assert (tmp_path / "stdin").read_bytes() == b""


def test_git_runs_under_a_foreign_owner_only_when_allowed(repo: GitRepo, attack: Attack) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    subprocess.run(["chown", "-R", "65534:65534", str(repo.top)], check=True)
    (end,) = attack([modify("a.txt", "line 1", "line one")], "edit", "a.txt", "x", "--yes")
    assert end.code == 2 and "safe.directory" in end.err, end
