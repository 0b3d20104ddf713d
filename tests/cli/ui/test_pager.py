"""Long output in git's pager: when, which pager, and how a command in it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.cli.ui.pager import choose
from tests.cli.screens import PROGRAM, Screen, python
from tests.conftest import GitRepo
from tests.program import run

MARK = "sed s/^/P:/"


def shown(repo: GitRepo, *arguments: str, **env: str) -> tuple[str, int]:
    """The output on the terminal and the exit code."""
    with Screen([*PROGRAM, *arguments], repo.top, env={"GIT_PAGER": MARK, **env}) as screen:
        code = screen.end()
    return screen.seen, code


def test_long_output_is_paged_on_a_terminal_only(repo: GitRepo) -> None:
    seen, code = shown(repo, "outline", "src/app.py")
    assert (seen.count("P:"), code) == (2, 0)
    assert "greet" in seen
    for words in (
        "--no-pager outline src/app.py",
        "outline src/app.py --no-pager",
        "outline src/app.py --json",
    ):
        assert "P:" not in shown(repo, *words.split())[0]
    assert b"P:" not in run(["outline", "src/app.py"], repo.top, env={"GIT_PAGER": MARK}).stdout


@pytest.mark.soak
def test_colors_are_kept_less_gets_git_s_options_and_notes_go_into_the_pager(repo: GitRepo) -> None:
    seen, _ = shown(repo, "outline", "src/app.py", GIT_PAGER='echo "[$LESS|$LV]"; cat')
    assert "[FRX|-c]" in seen and "\x1b[" in seen
    assert "[S|" in shown(repo, "outline", "src/app.py", GIT_PAGER='echo "[$LESS|$LV]"; cat', LESS="S")[0]
    repo.commit(**{"b.unknown": "x\n"})
    seen, _ = shown(repo, "outline", ".")
    assert "P:\x1b[2mskipped 1 file" in seen  # standard error is the terminal, so it is redirected, too


def test_the_pager_is_that_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # outside a repository
    for configured, env, expected in (
        ("", {"PAGER": ""}, None),
        ("delta -s", {"PAGER": "most"}, "delta -s"),
        ("delta", {"GIT_PAGER": "more"}, "more"),
        ("delta", {"GIT_PAGER": "cat"}, None),
    ):
        with monkeypatch.context() as patch:
            for name in ("GIT_PAGER", "PAGER"):
                patch.delenv(name, raising=False)
            if configured:  # as `git -c` would
                patch.setenv("GIT_CONFIG_PARAMETERS", f"'core.pager'='{configured}'")
            for name, value in env.items():
                patch.setenv(name, value)
            assert choose() == expected, (configured, env)


def test_the_exit_code_is_that_of_the_command_or_as_in_git(repo: GitRepo) -> None:
    seen, code = shown(repo, "outline", "src/app.py", GIT_PAGER="no-such-pager")
    assert "warning: cannot run the pager no-such-pager: No such file or directory\n" in seen
    assert "greet" in seen and code == 0
    repo.write("empty.py", "")
    seen, code = shown(repo, "outline", "empty.py", "src/app.py", "--kind", "heading")
    assert code == 1, seen
    seen, code = shown(repo, "outline", "src/app.py", "--kind", "nonsense")
    assert code == 2 and "P:" not in seen  # nothing was written yet: the error needs no pager
    repo.write("long.py", "".join(f"def function_{n}(): pass\n" for n in range(4000)))
    seen, code = shown(repo, "outline", "long.py", GIT_PAGER="head -1")  # is left early
    assert (seen.count("function_"), code) == (1, 141)


@pytest.mark.soak
def test_control_c_goes_to_the_pager_which_is_waited_for(repo: GitRepo) -> None:
    pager = 'trap "" INT; cat; echo shown; sleep 0.7; echo left'
    with Screen([*PROGRAM, "outline", "src/app.py"], repo.top, env={"GIT_PAGER": pager}) as screen:
        screen.answer("shown", "\x03")
        screen.expect("left")
        screen.end()
    assert "Traceback" not in screen.seen


@pytest.mark.soak
def test_a_question_is_asked_after_the_pager(repo: GitRepo) -> None:
    code = (
        "from repoagent.cli.ui.terminal import Terminal; t = Terminal.open(pages=True)\n"
        "t.result('one\\n'); print(t.ask('Go on', {'y': 'do'})); t.styled('two\\n')\n"
        "from repoagent.cli.ui.pager import finish; finish()"
    )
    with Screen(python(code), repo.top, env={"GIT_PAGER": MARK}) as screen:
        screen.expect("P:one")
        screen.answer("Go on [y,?]? ", "y\n")
        screen.expect("P:two")
        screen.end()
    assert "P:Go" not in screen.seen
