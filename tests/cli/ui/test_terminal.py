"""Output, questions and the pager on a real terminal, in a pipe, with NO_COLOR, in CI and on a dumb terminal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from repoagent.cli.ui.pager import choose
from tests.cli.screens import PROGRAM, Screen, python
from tests.conftest import GitRepo
from tests.program import run

OPEN = "from repoagent.cli.ui.terminal import Terminal; import sys; t = Terminal.open()\n"
ASK = (
    "from repoagent.errors import RepoagentError\n"
    "try: print('got', t.ask('Apply this change', {'y': 'do it', 'n': 'leave it', 'X': 'explain'}))\n"
    "except RepoagentError as e: print(type(e).__name__, e)\n"
)


def piped(code: str, **env: str) -> tuple[bytes, bytes]:
    command, whole = python(OPEN + code), {**os.environ, **env}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=whole)
    return done.stdout, done.stderr


def on_terminal(code: str, folder: Path, *, width: int = 80, **env: str) -> str:
    with Screen(python(OPEN + code), folder, env=env, width=width) as screen:
        screen.end()
    return screen.seen


def test_colors_questions_and_width(tmp_path: Path) -> None:
    open_it = "t = Terminal.open(color, env={'TERM': 'xterm', **env})"
    colors = (  # environment, --color, whether output is colored on a terminal, and in a pipe
        ({}, "auto", True, False),
        ({"NO_COLOR": "1"}, "auto", False, False),
        ({"NO_COLOR": ""}, "auto", True, False),
        ({"TERM": "dumb"}, "auto", False, False),
        ({}, "never", False, False),
        ({"NO_COLOR": "1"}, "always", True, True),
    )
    code = f"for env, color, *_ in {colors}:\n {open_it}; print(t.color, t.color_err)"
    assert on_terminal(code, tmp_path).splitlines() == [f"{case[2]} {case[2]}" for case in colors]
    assert piped(code)[0].decode().splitlines() == [f"{case[3]} {case[3]}" for case in colors]
    abilities = (
        ({}, "True True 60"),
        ({"CI": "true"}, "False False 60"),
        ({"CI": "0", "COLUMNS": "40"}, "True True 40"),
        ({"TERM": "dumb", "COLUMNS": "x"}, "True False 60"),
    )
    code = f"color = 'auto'\nfor env, _ in {abilities}:\n {open_it}; print(t.can_ask, t.moves, t.width)"
    assert on_terminal(code, tmp_path, width=60).splitlines() == [shown for _, shown in abilities]


def test_a_pipe_gets_exact_bytes_and_a_terminal_clean_text(tmp_path: Path) -> None:
    odd = r"'a\x1b[31m\udcff\r\n'"
    assert piped(f"t.result({odd})") == (b"a\x1b[31m\xff\r\n", b"")
    clean = "a^[[31m<FF>^M\n"
    shown = on_terminal(f"t.result({odd}); t.note({odd}); t.warn({odd})", tmp_path)
    assert shown == f"{clean}{clean}\n\x1b[33mwarning:\x1b[m {clean}\n"
    diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\udcff\n+b\x1b\n"
    out, _ = piped(f"t.diff({diff!r}); t = Terminal.open('always'); t.diff({diff!r})")
    assert out.startswith(os.fsencode(diff)) and b"\x1b[32mb^[\x1b[m\n" in out


@pytest.mark.parametrize("env", [{}, {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}])
def test_no_locale_and_no_text_makes_it_fail(env: dict[str, str]) -> None:
    out, err = piped(r"t.result('\xe9\udcff\n'); t.result('\ud83d\n'); t.note('\xe9\udcff')", **env)
    assert out == b"\xc3\xa9\xff\n\\ud83d\n"
    assert err in (b"\xc3\xa9<FF>\n", b"\\xe9<FF>\n")


def test_a_question_takes_letters_and_words_and_explains_itself(tmp_path: Path) -> None:
    with Screen(python(OPEN + ASK), tmp_path) as screen:
        for typed in ("maybe", "?", ""):
            screen.answer("Apply this change [y,n,X,?]? ", f"{typed}\n")
            screen.expect("n - leave it")
        screen.answer("Apply this change [y,n,X,?]? ", "Yes\n")
        screen.expect("got y")
        assert screen.end() == 0
    with Screen(python(OPEN + ASK), tmp_path) as screen:  # the end of input is not a yes
        screen.answer("]? ", "\x04")
        screen.expect("NothingDone no answer;")


@pytest.mark.soak
def test_an_interrupt_just_before_the_read_of_an_answer_is_not_lost(tmp_path: Path) -> None:
    # a signal that another thread gets does not interrupt the read either, and always
    code = (
        "import signal, threading, time\n"
        "def interrupt(): time.sleep(0.3); signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "try: t.ask('Apply this change', {'y': 'do it'})\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    assert on_terminal(code, tmp_path).endswith("interrupted\n")


def test_input_before_the_question_does_not_answer_it(tmp_path: Path) -> None:
    code = OPEN + "import time\nprint('working', flush=True); time.sleep(0.5)\n" + ASK
    with Screen(python(code), tmp_path) as screen:
        screen.answer("working", "y\n")
        screen.answer("]? ", "n\n")
        screen.expect("got n")


WORK = (
    "import time\n"
    "with t.working('asking the model') as w:\n"
    "    time.sleep(1.2)\n"
    r"    for piece in ('Hel', 'lo\x1b[2J\n', 'wor', 'ld'): w.text(piece)" "\n"
    "    w.label('checking'); w.note('by the way')\n"
    "t.result('done\\n')"
)  # fmt: skip


@pytest.mark.soak
def test_work_in_progress_on_a_terminal(tmp_path: Path) -> None:
    seen = on_terminal(WORK, tmp_path)
    assert "asking the model (1 s)" in seen
    assert "\x1b[2mHel\x1b[m\x1b[2mlo^[[2J\n\x1b[m\x1b[2mwor\x1b[m\x1b[2mld\x1b[m\n" in seen
    assert seen.endswith("by the way\ndone\n")
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h")  # the cursor is back


def test_work_in_progress_is_lines_on_a_dumb_terminal_and_nothing_in_a_pipe(tmp_path: Path) -> None:
    quick = WORK.replace("sleep(1.2)", "sleep(0)")
    shown = "asking the model\nHello^[[2J\nworld\nchecking\nby the way\ndone\n"
    assert on_terminal(quick, tmp_path, TERM="dumb") == shown
    assert piped(quick) == (b"done\n", b"by the way\n")


EDIT = r"out = t.edit_text('one\r\n\udcff\n', '.diff'); print(ascii(out))"


def test_the_editor_is_run_as_git_runs_it(tmp_path: Path, clean_environment: Path) -> None:
    same = r"'one\r\n\udcff\n'"
    editors = {
        "true": same,
        "printf more >>": r"'one\r\n\udcff\nmore'",
        "false": "None",
        ">": "None",
        "printf ' ' >": "None",
        'case "$1" in *.diff) ;; *) false ;; esac; true': same,
    }
    code = ""
    for number, editor in enumerate(editors):
        script = tmp_path / f"editor-{number}"
        script.write_text(f'#!/bin/sh\n{editor} "$1"\n')
        script.chmod(0o755)
        code += f"import os; os.environ['GIT_EDITOR'] = {str(script)!r}; {EDIT}\n"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    out, err = piped(code, TMPDIR=str(temporary))
    assert (out.decode().splitlines(), err) == ([*editors.values()], b"")
    assert list(temporary.iterdir()) == []
    (clean_environment / ".gitconfig").write_text("")  # without an editor, the error names what to set
    code = "from repoagent.errors import UsageError\ntry: t.edit_text('x', '.txt')\nexcept UsageError as e: print(e)"
    assert b"set EDITOR" in piped(code, TERM="dumb")[0]


def test_an_editor_does_not_write_into_a_piped_result(tmp_path: Path) -> None:
    read, write = os.pipe()
    env = {"GIT_EDITOR": "echo seen on the screen; true"}
    with Screen(python(OPEN + EDIT), tmp_path, env=env, stdout=write) as screen:
        os.close(write)
        screen.end()
    with os.fdopen(read) as result:
        assert "seen on the screen" in screen.seen and "screen" not in result.read()


HUNKS = r"""
from repoagent.cli.ui.terminal_interface import choose_hunks
from repoagent.errors import RepoagentError
from repoagent.git.files import Content, FileChange

def text(**changed):
    return "".join(changed.get(f"l{n}", str(n)) + "\n" for n in range(1, 31)).encode()

changes = [
    FileChange.at("one", Content(text()), Content(text(l3="three", l15="fifteen", l17="seventeen"), "100755")),
    FileChange.at("two\x1b", None, Content(b"new\n")),
]
try:
    for change in choose_hunks(t, changes):
        lines = [a.decode() for a, b in zip(change.after.split(), text().split()) if a != b]
        print("TOOK", change.path == "one" and "one" or "two", change.mode, *lines)
except RepoagentError as error:
    print("ERROR", type(error).__name__)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ("yyyy", ["TOOK one 100755 three fifteen seventeen", "TOOK two 100644 new"]),
        ("q", []),
        ("an", ["TOOK one 100755 three fifteen seventeen"]),
        ("dy", ["TOOK two 100644 new"]),
        ("nnsnyn", ["TOOK one 100644 seventeen"]),
        ("nysynn", ["TOOK one 100644 three fifteen"]),
        ("n?xynn", ["TOOK one 100644 three"]),
    ],
)
def test_answers_choose_hunks(tmp_path: Path, typed: str, chosen: list[str]) -> None:
    with Screen(python(OPEN + HUNKS), tmp_path, env={"NO_COLOR": "1"}) as screen:
        for letter in typed:
            screen.answer("?]? ", f"{letter}\n")
        screen.end()
    assert [line for line in screen.seen.splitlines() if line.startswith(("TOOK", "ERROR"))] == chosen


def test_each_hunk_is_shown_with_its_answers(tmp_path: Path) -> None:
    with Screen(python(OPEN + HUNKS), tmp_path, env={"NO_COLOR": "1"}) as screen:
        seen = screen.answer("(1/4) Apply this mode change [y,n,q,a,d,?]? ", "y\n")
        assert "old mode 100644\nnew mode 100755\n" in seen
        seen = screen.answer("(2/4) Apply this hunk [y,n,q,a,d,?]? ", "y\n")
        assert "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n" in seen and "diff --git" not in seen
        screen.answer("(3/4) Apply this hunk [y,n,q,a,d,s,?]? ", "s\n")
        seen = screen.answer("(3/5) Apply this hunk", "d\n")
        assert "split into 2 hunks\n@@ -12,5 +12,5 @@" in seen
        seen = screen.answer("(5/5) Apply the change to this file [y,n,q,a,d,?]? ", "\x04")
        assert "diff --git" in seen and "+new\n" in seen and "\x1b" not in screen.seen
        assert "TOOK" not in screen.expect("ERROR NothingDone")  # at the end of input nothing is applied


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
    for words in ("--no-pager outline", "outline --no-pager", "outline --json"):
        assert "P:" not in shown(repo, *words.split(), "src/app.py")[0]
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
