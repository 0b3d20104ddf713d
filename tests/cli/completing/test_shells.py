"""Completion in the real shells, typed on a terminal: bash, and zsh and fish where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.screens import Screen
from tests.conftest import GitRepo
from tests.program import run

GIT = Path("/usr/share/bash-completion/completions/git")


@pytest.fixture
def folder(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with odd names, and `repoagent` and `git-repoagent` on PATH."""
    repo.write("odd name.py", "")
    repo.write("it's.py", "")
    repo.git("branch", "topic/one")
    repo.git("tag", "we$ird")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("repoagent", "git-repoagent"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m repoagent "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return repo.top


@pytest.fixture
def bash(folder: Path, tmp_path: Path) -> Iterator[Screen]:
    script = tmp_path / "rc"
    own = run(["completion", "bash"], folder).stdout.decode()
    git = f". {GIT}\n" if GIT.exists() else ""
    script.write_text(f"PS1='$ '; bind 'set enable-bracketed-paste off'\n{git}{own}")
    with Screen(
        [shutil.which("bash") or "", "--noprofile", "--rcfile", str(script), "-i"], folder, width=200
    ) as screen:
        screen.expect("$ ")
        yield screen


def typed(screen: Screen, line: str, becomes: str) -> None:
    screen.send(f"{line}\t")
    screen.expect(becomes)
    screen.send("\x15")  # the line is forgotten


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash(bash: Screen) -> None:
    typed(bash, "repoagent nei", "repoagent neighbors ")
    typed(bash, "repoagent neighbors --at=topi", "--at=topic/one ")
    typed(bash, "repoagent neighbors odd", "neighbors odd\\ name.py ")
    typed(bash, 'repoagent neighbors "odd', 'neighbors "odd name.py" ')
    typed(bash, "repoagent -C . neighbors it", "neighbors it\\'s.py ")
    typed(bash, "repoagent neighbors --at 'we", "--at 'we$ird' ")


@pytest.mark.soak
@pytest.mark.skipif(
    shutil.which("bash") is None or not GIT.exists(), reason="needs git's completion for bash"
)
def test_bash_completes_it_as_a_command_of_git(bash: Screen, folder: Path) -> None:
    typed(bash, "git repoagent nei", "git repoagent neighbors ")
    typed(bash, f"git -C {folder}/src repoagent neighbors ap", "neighbors app.py ")
    typed(bash, "git repoagent neighbors --at topi", "--at topic/one ")


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh(folder: Path, tmp_path: Path) -> None:
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "_git-repoagent").write_bytes(run(["completion", "zsh"], folder).stdout)
    (tmp_path / ".zshrc").write_text(
        f"PS1='$ '; unset zle_bracketed_paste; fpath=({functions} $fpath)\n"
        f"autoload -U compinit; compinit -u -d {tmp_path}/dump; zstyle ':completion:*' use-cache off; echo rea''dy\n"
    )
    env = {"ZDOTDIR": str(tmp_path), "TERM": "xterm"}
    with Screen([shutil.which("zsh") or "", "-i"], folder, env=env, width=200) as screen:
        screen.expect("ready")
        for line, end in (
            ("repoagent nei", "ghbors"),
            ("git repoagent neighbors --at topi", "c/one"),
            ("repoagent neighbors --at topi", "c/one"),
        ):
            screen.send(f"{line}\t")
            screen.expect(end)
            screen.send("\x15")


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "own.fish"
    script.write_bytes(run(["completion", "fish"], folder).stdout)
    ask = f"source {script}; complete -C 'repoagent neighbors --at topi'; complete -C 'git repoagent neighbors odd'"
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [shutil.which("fish") or "", "--no-config", "-c", ask],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "topic/one\tbranch\n" in done.stdout
    assert "odd name.py\n" in done.stdout
