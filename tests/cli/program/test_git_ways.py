"""Conventions of git in all commands: -C, --, odd names, any folder."""

from __future__ import annotations

import json
import os

import pytest

from tests.conftest import GitRepo
from tests.program import run

ODD = ["-dash.py", "two\nlines.py", "ñandú.py", os.fsdecode(b"latin\xe9.py"), 'quo"te.py']


@pytest.fixture
def odd(repo: GitRepo) -> GitRepo:
    for n in range(3):
        for name in ODD:
            repo.write(f"src/{name}", f"{n}\n")
        repo.commit(f"change {n}")
    return repo


def test_names_for_scripts_are_exact_and_relative_to_the_top(odd: GitRepo) -> None:
    odd.git("config", "core.quotepath", "true")
    expected = {os.fsencode(f"src/{name}") for name in ODD[1:]}
    result = json.loads(run(["-C", "src", "neighbors", "--json", "--", "-dash.py"], odd.top).stdout)
    assert {os.fsencode(row["path"]) for row in result["neighbors"]} >= expected


def test_a_table_has_one_line_for_each_name(odd: GitRepo) -> None:
    table = run(["neighbors", "--", "src/-dash.py"], odd.top).stdout.decode()
    for shown in ("src/two^Jlines.py", "src/ñandú.py", "src/latin<E9>.py", 'src/quo"te.py'):
        assert f"\n{shown} " in table


def test_options_of_git_are_passed_in_the_environment(odd: GitRepo, tmp_path: os.PathLike[str]) -> None:
    env = {"GIT_DIR": str(odd.top / ".git"), "GIT_WORK_TREE": str(odd.top)}
    done = run(
        ["neighbors", f"{odd.top}/src/ñandú.py"], tmp_path, env=env
    )  # as `git --git-dir --work-tree` does
    assert "\nsrc/latin<E9>.py " in done.stdout.decode()
    config = {"GIT_CONFIG_PARAMETERS": "'repoagent.maxturns'='4'"}  # and `git -c`
    assert run(["config", "max_turns"], odd.top, env=config).stdout == b"4\n"
