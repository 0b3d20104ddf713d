"""The commands that are killed: each scene prepares a repository and runs one command of repoagent in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import GitRepo

LINES = "".join(f"line {n}\n" for n in range(1, 31))
ONE = """```diff
--- a/a.txt
+++ b/a.txt
@@
 line 1
-line 2
+LINE 2
 line 3
```
<note>the second line is loud</note>
"""
ANOTHER = (
    ONE.replace("line 2\n", "line 15\n")
    .replace("LINE 2", "LINE 15")
    .replace("line 1\n", "line 14\n")
    .replace("line 3\n", "line 16\n")
)
THREE = ONE.replace(
    "```\n<",
    """\
--- a/gone.txt
+++ /dev/null
@@
-gone
--- /dev/null
+++ b/n/ew/new.txt
@@
+new
diff --git a/src/app.py b/src/main.py
rename from src/app.py
rename to src/main.py
--- a/src/app.py
+++ b/src/main.py
@@
 # app
-A = 1
+A = 2
 # end
```
<""",
)
EDIT = ("edit", "--yes", "--model", "manual", "--reply")


@dataclass(frozen=True)
class Scene:
    """`prepare` fills the repository; `command` are the arguments of repoagent."""

    prepare: Callable[[GitRepo], None]
    command: tuple[str, ...]


def run(*arguments: str) -> int:
    """Run `repoagent ARGUMENTS` in this process and its current folder, and return the exit code."""
    from repoagent.cli import main

    try:
        main(["repoagent", *arguments])
    except SystemExit as done:
        return int(done.code or 0)


def edit(repo: GitRepo, answer: str, *arguments: str) -> None:
    """Make an edit that is not killed, as part of the state before."""
    reply = repo.top.parent / "before.md"
    reply.write_text(answer)
    before = Path.cwd()
    os.chdir(repo.top)
    try:
        assert in_child(lambda: run(*EDIT, str(reply), *arguments)) == 0
    finally:
        os.chdir(before)


def in_child(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def plain(repo: GitRepo) -> None:
    repo.write("a.txt", LINES)
    repo.write("gone.txt", "gone\n")
    repo.write("src/app.py", "# app\nA = 1\n# end\n")
    repo.write("b.txt", "b\n")
    repo.write("README.md", "read me\n")
    repo.commit("first")
    reply = repo.top.parent / "reply.md"
    if not reply.exists():
        reply.write_text(ONE)


def busy(repo: GitRepo) -> None:
    """Add the user's work, staged and not, in the edited file and elsewhere."""
    plain(repo)
    own_work(repo)


def own_work(repo: GitRepo) -> None:
    repo.write("a.txt", repo.read("a.txt").replace(b"line 25\n", b"staged 25\n"))
    repo.write("README.md", "staged\n")
    repo.git("add", "a.txt", "README.md")
    repo.write("a.txt", repo.read("a.txt").replace(b"line 29\n", b"mine 29\n"))
    repo.write("b.txt", "unstaged\n")
    repo.write("untracked.txt", "untracked\n")


def three(repo: GitRepo) -> None:
    (repo.top.parent / "reply.md").write_text(THREE)
    busy(repo)


def remembered(repo: GitRepo) -> None:
    """Give the file a memory, then move it away and back."""
    (repo.top.parent / "reply.md").write_text(ANOTHER)
    plain(repo)
    edit(repo, ONE, "a.txt", "make line 2 loud")
    repo.git("mv", "a.txt", "moved.txt")
    repo.commit("move")
    repo.git("mv", "moved.txt", "a.txt")
    repo.commit("move back")
    own_work(repo)


def formatted(repo: GitRepo) -> None:
    """Add a hook that stages the user's work, rewrites the edited file and fails once."""
    busy(repo)
    repo.hook(
        "pre-commit",
        "git add -u\ngit checkout -q b.txt 2>/dev/null\n"
        "if grep -q 'LINE 2$' a.txt; then sed -i 's/LINE 2$/LINE 2, formatted/' a.txt; git add a.txt; exit 1; fi\n",
    )


def edited(repo: GitRepo) -> None:
    (repo.top.parent / "reply.md").write_text(THREE)
    plain(repo)
    edit(repo, THREE, *WHAT_THREE)
    own_work(repo)


def edited_and_built_upon(repo: GitRepo) -> None:
    edited(repo)
    repo.git("commit", "-q", "--allow-empty", "-m", "on top", "--only")


def undone(repo: GitRepo) -> None:
    edited(repo)
    before = Path.cwd()
    os.chdir(repo.top)
    try:
        assert in_child(lambda: run("undo")) == 0
    finally:
        os.chdir(before)


REPLY = "../reply.md"
WHAT = ("a.txt", "make line 2 loud")
WHAT_THREE = (
    "a.txt", "gone.txt", "src/app.py", "src/main.py", "n/ew/new.txt", "--create",
    "make line 2 loud, delete gone.txt, rename src/app.py to src/main.py, add n/ew/new.txt",
)  # fmt: skip
SCENES = {
    "three": Scene(three, (*EDIT, REPLY, *WHAT_THREE)),
    "edit": Scene(busy, (*EDIT, REPLY, *WHAT)),
    "formatted": Scene(formatted, (*EDIT, REPLY, *WHAT)),
    "branch": Scene(busy, (*EDIT, REPLY, "--branch", "topic", *WHAT)),
    "no-commit": Scene(three, (*EDIT, REPLY, "--no-commit", *WHAT_THREE)),
    "remembered": Scene(remembered, (*EDIT, REPLY, "a.txt", "make line 15 loud")),
    "apply": Scene(three, ("apply", "--yes", REPLY)),
    "undo": Scene(edited, ("undo",)),
    "revert": Scene(edited_and_built_upon, ("undo",)),
    "redo": Scene(undone, ("redo",)),
}
