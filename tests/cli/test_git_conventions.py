"""Conventions of git in all commands: -C, --, odd names, any folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo

ODD = ["-dash.py", "two\nlines.py", "ñandú.py", os.fsdecode(b"latin\xe9.py"), 'quo"te.py']


@pytest.fixture
def odd(repo: GitRepo) -> GitRepo:
    for n in range(3):
        for name in ODD:
            repo.write(f"src/{name}", f"{n}\n")
        repo.commit(f"change {n}")
    return repo


def test_names_are_exact_for_scripts_and_on_one_line_for_people(odd: GitRepo, in_process: Ask) -> None:
    odd.git("config", "core.quotepath", "true")
    result = in_process("-C", "src", "neighbors", "--json", "--", "-dash.py").json
    assert {row["path"] for row in result["neighbors"]} >= {f"src/{name}" for name in ODD[1:]}
    table = in_process("neighbors", "--", "src/-dash.py").out
    for shown in ("src/two^Jlines.py", "src/ñandú.py", "src/latin<E9>.py", 'src/quo"te.py'):
        assert f"\n{shown} " in table


def test_options_of_git_are_passed_in_the_environment(odd: GitRepo, in_process: Ask, tmp_path: Path) -> None:
    env = {"GIT_DIR": str(odd.top / ".git"), "GIT_WORK_TREE": str(odd.top)}  # `git --git-dir --work-tree`
    done = in_process("neighbors", f"{odd.top}/src/ñandú.py", cwd=tmp_path, **env)
    assert "\nsrc/latin<E9>.py " in done.out
    config = "'repoagent.maxturns'='4'"  # and `git -c`
    assert in_process("config", "max_turns", GIT_CONFIG_PARAMETERS=config).out == "4\n"
