"""The rules in the prompt are true: the gate allows what a model does that follows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repoagent.edit.request import names_file
from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import open_index
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

NEW = "```diff\n--- /dev/null\n+++ b/src/names.py\n@@ -0,0 +1 @@\n+NAMES = []\n```\n"


def rules(prompt: str) -> str:
    return prompt.rpartition("Rules of this run:\n")[2].partition("\n\nRequest:")[0]


@pytest.mark.parametrize(
    ("words", "options", "allowed"),
    [
        ("greet by names, kept in src/names.py", (), "create a file that the request names"),
        ("greet by names", ("--create",), "and create files"),
        ("greet by names", ("--scope", "repo"), "and create files"),
        ("greet by names", (), ""),
    ],
)
def test_allowed_files_are_created(
    edit: Run, script: Script, words: str, options: tuple[str, ...], allowed: str
) -> None:
    """The model sends the new file if the rules in its prompt allow it."""
    (script.folder / "then").write_text(GREET + NEW)
    (script.folder / "else").write_text("<reject>src/names.py is needed</reject>")
    (script.folder / "model.sh").write_text(
        'cat > "$1/prompt-00"\n'
        f'if grep -qF \'{allowed or "and create files"}\' "$1/prompt-00"; then cat "$1/then"; else cat "$1/else"; fi\n'
    )
    done = edit(*options, request=words, code=0 if allowed else 1)
    assert allowed or "src/names.py is needed" in done.err


def test_an_unnamed_new_file_is_refused(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(*[GREET + NEW] * 4)
    assert "this edit may not create this file" in edit(code=3).err
    script.replies(GREET + NEW.replace("src/names.py", "app.py"), GREET)  # `app.py` is the file to edit
    edit(request="in app.py greet with a comma")
    assert not (repo.top / "app.py").exists()


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("docs/new.md", True), ("new.md", True), ("a/docs/new.md", True), ("Makefile", True), ("x/Makefile", False),
        ("x/y.py", True), ("new.py", False), ("the", True), ("src/the", False),
    ],
)  # fmt: skip
def test_a_file_is_named_by_its_path_or_the_end_of_it(path: str, named: bool) -> None:
    words = "move the table to `docs/new.md`, and Makefile and y.py. Then: new.md!"
    assert names_file(words, path) is named


def test_the_check_is_in_the_rules(repo: GitRepo, run: Run, script: Script) -> None:
    """The model writes the word that the check looks for, which it can only know from the rules."""
    (script.folder / "model.sh").write_text(
        "word=$(sed -n 's/^After your edit, `grep -q \\([a-z]*\\) .*committed only if that passes.*/\\1/p')\n"
        'sed "s/hello, /$word /" "$1/greet"\n'
    )
    (script.folder / "greet").write_text(GREET)
    check = ("--check", "grep -q welcome src/app.py")
    run("edit", "src/app.py", "greet as the check wants it", "--yes", *check, code=0)
    shown = {
        option: rules(run("edit", "src/app.py", "greet", "--show-prompt", *check, *option.split()).out)
        for option in ("", "-n", "--no-commit", "--scope repo")
    }
    assert "`<reject>` and name it" in shown[""] and "change it too" in shown["--scope repo"]
    assert "After your edit" not in shown["-n"] and "kept only if that passes" in shown["--no-commit"]


def test_the_files_that_may_be_changed_are_named(repo: GitRepo, run: Run) -> None:
    for n in range(3):
        repo.commit("pair", **{"src/app.py": f"x = {n}\n", "docs/app.md": f"{n}", "docs/`b`.md": f"{n}"})
    show = ("edit", "src/app.py", "greet", "--show-prompt")
    assert rules(run(*show).out).startswith("You may change `src/app.py`, and create a file that")
    near = rules(run(*show, "--scope", "neighbors", "--read", "docs/app.md").out)
    assert near.startswith('You may change `src/app.py` and, after reading them, "docs/`b`.md", and create')
    repo_ = rules(run(*show, "--scope", "repo", "--read", "docs/app.md").out)
    assert "any other file that you have read (not `docs/app.md`)" in repo_ and "not enough" not in repo_


def test_the_system_text_is_short_and_the_same_for_every_edit(repo: GitRepo, run: Run) -> None:
    found = []
    for more in ("src/app.py x", "README.md y --create", "src/app.py z --read README.md"):
        shown = run("context", *more.split(), "--json").json
        (block,) = [block for block in shown["blocks"] if block["role"] == "system"]
        assert block["tokens"] <= 900 and block["name"] == "protocol"
        found.append(block["text"])
    assert len(set(found)) == 1
    assert "<think>" not in found[0] and "line endings" not in found[0]


def test_the_prompt_does_not_depend_on_the_index_or_the_load(repo: GitRepo, run: Run, tmp_path: Path) -> None:
    lines = []
    for number in range(1, 1_301):
        own = ["src/app.py", "docs/guide.md"] if number % 20 == 0 else [f"other{number % 50}.c"]
        time = 1_600_000_000 + number
        lines.append(f"commit refs/heads/main\ncommitter A <a@x.y> {time} +0000\ndata 1\nx\n")
        lines += [f"M 100644 inline {name}\ndata {len(str(number))}\n{number}\n" for name in own]
    repo.git("fast-import", "--quiet", "--force", stdin="".join(lines).encode())
    repo.git("reset", "-q", "--hard")
    (slow := tmp_path / "bin").mkdir()
    git = repo.git("--exec-path").strip() + "/git"
    (slow / "git").write_text(f'#!/bin/sh\ncase " $* " in *" log "*) sleep 0.7;; esac\nexec {git} "$@"\n')
    (slow / "git").chmod(0o755)
    show = ("edit", "src/app.py", "greet", "--show-prompt")
    quiet = {"CI": "1"}  # no background indexing of the history
    loaded = {**quiet, "PATH": f"{slow}:/usr/bin:/bin"}

    cold = run(*show, env=quiet).out
    assert run(*show, env=loaded).out == cold
    with open_index(open_worktree(repo.top)) as index:
        assert not index.update("HEAD", seconds=0.0).complete
    assert run(*show, env=quiet).out == cold
    assert run("mine", "--quiet").code == 0
    assert run(*show, env=quiet).out == cold
    assert run(*show, env=loaded).out == cold
    assert "<neighbors>\ndocs/guide.md\n</neighbors>" in cold
    assert len(re.findall(r"^\d{4}-\d\d-\d\d x$", cold, re.MULTILINE)) == 3
