"""`repoagent doctor`: problems, remedies, and no secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repoagent.display_text import display_width
from repoagent.git.worktree import OLDEST_GIT
from repoagent.history.index.index import HistoryIndex, IndexState
from repoagent.reports.doctor import DoctorCheck, run_check
from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo

GIT = next(f"{folder}/git" for folder in os.environ["PATH"].split(":") if Path(folder, "git").exists())
SECRET = "sk-ant-0123456789abcdef"
Checks = dict[str, list[dict[str, Any]]]
Doctor = Callable[..., tuple[int, Checks]]


@pytest.fixture
def doctor(in_process: Ask) -> Doctor:
    """Run `repoagent doctor` at the top or in `cwd`: the exit code, and the checks by name."""

    def doctor(cwd: Path | None = None, **env: str) -> tuple[int, Checks]:
        done = in_process("doctor", "--json", cwd=cwd, **env)
        assert done.err == ""
        result: Checks = {}
        for check in done.json["checks"]:
            result.setdefault(check["name"], []).append(check)
        return done.code, result

    return doctor


def only(checks: Checks, name: str) -> tuple[str, str, str]:
    (check,) = checks[name]
    return check["level"], check["result"], check["advice"] or ""


def test_a_healthy_repository(repo: GitRepo, doctor: Doctor) -> None:
    before = repo.status()
    code, result = doctor(repo.top / "src", ANTHROPIC_API_KEY=SECRET)
    assert code == 0
    assert result.keys() >= {
        "repoagent", "python", "git", "grammars", "extras", "configuration", "model", "repository", ".repoagent",
        "history index", "memory", "sandbox",
    }  # fmt: skip
    assert {check["level"] for checks in result.values() for check in checks} == {"ok"}
    assert "needs 2.31 or newer" in only(result, "git")[1]
    page = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
    assert f"is below {OLDEST_GIT} " in page.read_text(encoding="utf-8")
    assert only(result, "model")[1].endswith("key: environment ANTHROPIC_API_KEY")
    assert repo.status() == before and not (repo.top / ".repoagent").exists()


def test_keys_are_never_shown(in_process: Ask) -> None:
    url = "http://me:hush@proxy.example/v1?token=hush"
    done = in_process("doctor", ANTHROPIC_API_KEY=SECRET, ANTHROPIC_BASE_URL=url)
    message = done.out + done.err
    assert SECRET not in message and "hush" not in message
    assert "ANTHROPIC_BASE_URL is http://proxy.example/v1" in message
    assert "unencrypted" in message and done.code == 0


def test_which_addresses_are_unencrypted(doctor: Doctor) -> None:
    for address, warns in (
        ("http://localhost:8080/v1", False),
        ("http://127.0.0.1", False),
        ("http://[::1]:8080/", False),
        ("https://evil.example/v1", False),
        ("http://localhost.evil.example/v1", True),
        ("http://127.0.0.1.evil.example", True),
        ("http://localhost@evil.example/", True),
        ("HTTP://evil.example/v1", True),
    ):
        checks = doctor(ANTHROPIC_BASE_URL=address)[1]
        assert ("address" in checks) is warns, address


def test_a_system_error_has_a_remedy() -> None:
    def fail(error: OSError) -> Iterator[DoctorCheck]:
        raise error

    for error, result, advice in (
        (PermissionError(13, "Permission denied", "/x"), "Permission denied: /x", "`chmod u+rwX /x`"),
        (OSError(28, "No space left on device"), "No space left on device", "run `repoagent doctor` again"),
        (OSError(), "OSError()", "again"),
    ):
        (check,) = run_check("x", fail, error)
        assert (check.level, check.result) == ("error", result) and advice in check.advice


def test_how_much_of_the_history_is_indexed(
    repo: GitRepo, doctor: Doctor, in_process: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist yet" in only(doctor()[1], "history index")[1]
    in_process("mine", code=0)
    assert only(doctor()[1], "history index")[0] == "ok"
    for end, level, advice in (
        ("mining", "warning", "repoagent mine"),
        ("unreadable", "warning", "git fsck"),
    ):
        monkeypatch.setattr(HistoryIndex, "state", lambda _, end=end: IndexState(3, end))
        check = only(doctor()[1], "history index")
        assert check[0] == level and advice in check[2]


def test_results_are_folded_below_their_column(repo: GitRepo) -> None:
    repo.write(".repoagent/config.toml", 'model = "nosuch/model"\n')
    with Screen([*PROGRAM, "doctor"], repo.top, width=60) as screen:
        assert screen.end() == 1
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.seen).splitlines()
    column = lines[0].index("result")
    assert all(display_width(line) <= 60 or " " not in line[column:] for line in lines)
    assert any(line[:column].isspace() and line[column] not in "- " for line in lines)


def test_no_model_is_a_warning_a_wrong_one_an_error(doctor: Doctor) -> None:
    for model, code, level, word in (
        ("", 0, "warning", ""),
        ("openai/gpt-4.1", 1, "error", "OPENAI_API_KEY"),
        ("command:no-such-program-here x", 1, "error", "no program"),
        ("nosuch/model", 1, "error", "no provider nosuch"),
    ):
        number, result = doctor(REPOAGENT_MODEL=model)
        found, message, advice = only(result, "model")
        assert (number, found) == (code, level), model
        assert word in message + advice


def test_a_problem_of_the_configuration_is_named_once(repo: GitRepo, doctor: Doctor) -> None:
    repo.git("config", "repoagent.maxTurns", "many")
    code, result = doctor()
    assert code == 1 and "invalid value 'many' for max_turns" in only(result, "configuration")[1]
    assert only(result, "memory")[0] == "ok"  # the other checks still run
    repo.git("config", "repoagent.maxTurns", "3")
    repo.git("config", "repoagent.modle", "x")
    code, result = doctor()
    assert (code, only(result, "configuration")[0]) == (0, "warning")
    repo.write(".repoagent/config.toml", "x\n")
    code, result = doctor()
    errors = [check["result"] for checks in result.values() for check in checks if check["level"] == "error"]
    assert code == 1 and len(errors) == 1 and "is not valid TOML: " in errors[0]


def test_outside_a_repository_and_in_a_broken_one(repo: GitRepo, tmp_path: Path, doctor: Doctor) -> None:
    (tmp_path / "outside").mkdir()
    code, result = doctor(tmp_path / "outside")
    assert (code, only(result, "repository")[0]) == (0, "ok")
    assert "memory" not in result and "sandbox" in result
    assert list((tmp_path / "outside").iterdir()) == []
    repo.write(".git/config", "[core\n")
    code, result = doctor()
    assert (code, only(result, "repository")[0]) == (1, "error")
    assert "sandbox" in result  # other checks still run


@pytest.mark.soak
def test_an_old_an_unknown_and_a_missing_git(repo: GitRepo, tmp_path: Path, doctor: Doctor) -> None:
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    for prints, level in ((None, "error"), ("git version 2.30.9", "error"), ("hello", "warning")):
        if prints:
            answer = f'echo "{prints}"'
            program.write_text(f'#!/bin/sh\ncase "$*" in *version) {answer};; *) exec {GIT} "$@";; esac\n')
            program.chmod(0o755)
        code, result = doctor(PATH=str(program.parent))
        assert (only(result, "git")[0], code) == (level, 1 if level == "error" else 0)
        assert "2.31 or newer" in only(result, "git")[2]


def test_in_a_linked_work_tree(repo: GitRepo, tmp_path: Path, doctor: Doctor) -> None:
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", str(linked))
    repo.write(".repoagent/.gitignore", "*\n")
    code, result = doctor(linked)
    assert (code, only(result, ".repoagent")[0]) == (0, "ok")
    repo.write(".repoagent/memory/private.md", "x")
    repo.git("add", "-f", ".repoagent/memory/private.md")
    assert "git tracks .repoagent/memory/private.md" in only(doctor(linked)[1], ".repoagent")[1]


@pytest.mark.soak
def test_problems_of_the_folder(repo: GitRepo, tmp_path: Path, doctor: Doctor, in_process: Ask) -> None:
    in_process("config", "init")
    folder = repo.top / ".repoagent"
    assert only(doctor()[1], ".repoagent")[0] == "ok"
    repo.write(".repoagent/memory/said.md", "x")
    repo.git("add", "-f", ".repoagent/memory/said.md")
    level, message, advice = only(doctor()[1], ".repoagent")
    assert (level, "git tracks" in message, "git rm --cached" in advice) == ("warning", True, True)
    repo.git("rm", "-q", "--cached", ".repoagent/memory/said.md")
    (folder / ".gitignore").unlink()
    assert "not ignored" in only(doctor()[1], ".repoagent")[1]
    (folder / "skills").symlink_to(tmp_path)
    code, result = doctor()
    assert code == 1 and "skills is a symbolic link" in result[".repoagent"][0]["result"]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    code, result = doctor()
    assert (code, result[".repoagent"][0]["level"]) == (1, "error")


def test_a_link_that_git_tracks_was_replaced_by_the_folder(repo: GitRepo, doctor: Doctor) -> None:
    folder = repo.top / ".repoagent"
    folder.symlink_to("src")
    repo.git("add", "-f", ".repoagent")
    folder.unlink()
    folder.mkdir()
    assert "git tracks .repoagent, " in only(doctor()[1], ".repoagent")[1]
