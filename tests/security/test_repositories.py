"""What a repository brings along names no program that runs, and chooses no model against the user's own choice."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.cli.ui.pager import choose, edit_text
from repoagent.cli.ui.terminal import Terminal
from repoagent.config.layers import load_settings
from repoagent.errors import UsageError
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script
from tests.program import run as program

OLD_GIT = """\
#!/usr/bin/env python3
import os, sys
args = sys.argv[1:]
while "safe.bareRepository=explicit" in args:
    at = args.index("safe.bareRepository=explicit")
    del args[at - 1 : at + 1]
os.execv({git!r}, ["git", *args])
"""


@pytest.fixture(params=["2.38 and newer", "an older git"])
def tracked(
    repo: GitRepo, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """`sub` of a clone: tracked files that git takes for a repository, whose programs write PWNED."""
    if request.param == "an older git":
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/git").write_text(OLD_GIT.format(git=shutil.which("git")))
        (tmp_path / "bin/git").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    pwned = f"touch {tmp_path}/PWNED;"
    for name in ("objects/x", "refs/x", "a.txt"):
        repo.write(f"sub/{name}", "x\n")
    repo.write("sub/HEAD", "ref: refs/heads/main\n")
    repo.write(
        "sub/config",
        f'[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\teditor = "{pwned}"\n\tpager = "{pwned}"\n'
        f'\tfsmonitor = "{pwned}"\n[repoagent]\n\tmodel = "command:{pwned} echo hi"\n\tcheck = "{pwned}"\n',
    )
    repo.git("add", "-f", ".")
    repo.git("commit", "-qm", "more")
    repo.git("clone", "-q", ".", str(tmp_path / "clone"))
    return tmp_path / "clone/sub"


def test_a_tracked_folder_that_is_a_git_directory_configures_nothing(
    tracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {"ask hello": 4, "edit a.txt x --yes": 2, "review": 2, "hook run pre-commit": 0}
    assert {args: program(args.split(), tracked).returncode for args in codes} == codes
    monkeypatch.chdir(tracked / "refs")
    assert load_settings(None).origin("model") == load_settings(None).origin("check") == "default"
    monkeypatch.setenv("PAGER", "mine")
    monkeypatch.delenv("GIT_PAGER", raising=False)
    assert choose() == "mine"
    assert edit_text(Terminal.open("never"), "x", ".txt") is None
    with pytest.raises(UsageError, match=r"clone/sub is a bare repository, possibly someone else's"):
        open_worktree(tracked)
    assert not (tmp_path / "PWNED").exists()


def test_a_bare_repository_that_is_named_configures_what_is_done_in_it(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    GitRepo(bare).git("config", "repoagent.model", "command:x")
    monkeypatch.chdir(bare)
    assert load_settings(None).text("model") != "command:x"
    monkeypatch.setenv("GIT_DIR", ".")
    assert load_settings(None).text("model") == "command:x"
    with pytest.raises(UsageError, match="is a bare repository: run repoagent in one of its work trees"):
        open_worktree(bare)


def test_a_folder_that_only_looks_like_a_git_directory_is_a_folder(repo: GitRepo) -> None:
    repo.write("sub/HEAD", "not what git takes for one\n")
    repo.write("sub/refs/x", "x\n")
    repo.git("config", "repoagent.model", "command:x")
    assert open_worktree(repo.top / "sub").top == repo.top
    assert load_settings(None, repo.top / "sub").text("model") == "command:x"


def test_the_model_of_a_repository_is_named_where_it_is_asked(
    repo: GitRepo, run: Run, monkeypatch: pytest.MonkeyPatch, clean_environment: Path
) -> None:
    repo.write(".repoagent/config.toml", 'model = "openai/theirs"\n')
    none = {"REPOAGENT_MODEL": ""}
    for command in ("edit a.txt x --yes", "ask x", "run x --mode read-only"):
        done = run(*command.split(), env=none, stdin="x")
        assert done.code == 4 and "using openai/theirs, as set in this repository's /" in done.err, command
        assert "/.repoagent/config.toml" in done.err
    own = clean_environment / ".config/repoagent/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('model = "command:echo mine"\n')
    done = run("ask", "x", env=none, stdin="x")
    assert (done.out, "using " in done.err) == ("mine\n", False)


def test_a_program_that_watches_files(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    """Our calls do not run it, nor does the user's own configuration of it reach the hooks of other repositories as another one."""
    repo.hook("pre-commit", f'echo "$(git config core.fsmonitor)" >> {tmp_path}/hooked\n')
    script.replies(GREET, GREET)
    run("edit", "src/app.py", "greet with a comma", "--yes", code=0)
    repo.git("reset", "-q", "--hard", "HEAD^")
    repo.git("config", "core.fsmonitor", f"touch {tmp_path}/PWNED; false")
    run("edit", "src/app.py", "greet with a comma", "--yes", code=0)
    assert not (tmp_path / "PWNED").exists()
    assert (tmp_path / "hooked").read_text() == "\nfalse\n"


def execute(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize("key", ["alive", "base"])
def test_what_a_history_index_calls_a_commit_is_no_option(repo: GitRepo, tmp_path: Path, key: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine\n")
    index = repo.top / ".repoagent/history.db"
    assert program(["mine"], repo.top).returncode == 0
    execute(index, f"UPDATE meta SET value = X'{f'--output={kept}'.encode().hex()}' WHERE key = '{key}'")
    execute(index, "UPDATE meta SET value = 0 WHERE key IN ('ended', 'done')")
    repo.commit("one more", x="1")
    done = program(["mine"], repo.top)
    assert kept.read_text() == "mine\n"
    assert done.returncode == 0 and b"is damaged" in done.stderr, done


def test_a_database_of_a_stranger_runs_no_statements(repo: GitRepo, run: Run) -> None:
    repo.commit("more", **{f"f{number}": "x\n" for number in range(10)})
    for number in range(10):
        run("memory", "note", f"f{number}", "a line", code=0)
    tables = (
        ("history", "mine", "tip"),
        ("memory", "memory list", "memory"),
        ("recall", "recall line", "source"),
    )
    for name, command, table in tables:
        run(*command.split(), code=0)
        database = repo.top / f".repoagent/{name}.db"
        execute(database, f"CREATE TRIGGER endless AFTER INSERT ON {table} BEGIN SELECT 1; END")
        repo.commit("one more", x=name)
        assert f"{name}.db.broken-1" in run(*command.split(), code=0).err


def test_a_run_of_a_stranger_deletes_no_branch(repo: GitRepo, run: Run) -> None:
    repo.git("branch", "mine")
    folder = repo.top / ".git/repoagent/worktrees/theirs"
    record = {"version": 1, "state": "done", "ended": "2026-01-01", "worktree": str(folder), "branch": "mine"}
    repo.write(".repoagent/runs/theirs/run.json", json.dumps(record))
    repo.git("add", "-f", ".repoagent")
    repo.git("commit", "-qm", "theirs")
    done = run("runs", "delete", "theirs", "--yes")
    assert done.code == 0 and "kept its branch mine" in done.out, done
    assert "mine" in repo.git("branch", "--list", "mine")
