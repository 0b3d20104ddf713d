"""The file that a name refers to, and paths that are never written."""

from __future__ import annotations

import re

import pytest

from repoagent.git.files import Content
from repoagent.patch.paths import bad_path
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import changed, reasons, refused, run

_EVIL = """\
|/etc/passwd|../x|a/../../x|a/./x|a//x|./.git/config|.git/config|a/.git/hooks/pre-commit|.GIT/config|.Git/x|.git./x
.git /x|.git. . /x|GIT~1/config|.git::$INDEX_ALLOCATION/config|.repoagent/config.toml|.RepoAgent/x|a\\b|..\\x|C:/x|c:x
x/|dir./x|x |..|git~2/config|GI7EBA~1/config|~/x|a\0b|a\x7fb|a\tb|.g\u200cit/config|.g\u0131t/config|.\uff47it/config
\u2024git/config|.git\u00ad/config|.repoagent\u200d/x|a\u202ex|a\u2066b|a\u2028b|a\x85b|a\udc80b"""
EVIL = [*re.split("[|\n]", _EVIL), "a\nb", "x" * 256, "é" * 128, "x/" * 2048 + "y"]
_GOOD = "a|a/b.py|.gitignore|.github/x.yml|git/x|a.git/x|é/ü|a b|.gitattributes|..a|a..b"


def test_bad_and_good_paths() -> None:
    good = [*_GOOD.split("|"), "x" * 255, "x/" * 2047 + "y"]
    assert [path for path in [*EVIL, *good] if not bad_path(path)] == good
    assert bad_path("") == "the path is empty"
    assert {bad_path(f"a{char}b") for char in "\n\x7f\x85\u2028"} == {"the path contains a control character"}
    known = ["", "/x", "../x", ".git/config", "a/.GIT/x", ".repoagent/x", ".git\u200c/x"]
    assert [path for path in known if not bad_path(path, known=True)] == []


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\\b", "C:x", "x "])
def test_an_existing_file_may_have_any_name(name: str) -> None:
    header = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    answer = f'--- "a/{header}"\n+++ "b/{header}"\n@@\n-old\n+new\n'
    assert changed(answer, {name: b"old\n"}) == {name: b"new\n"}


@pytest.mark.soak
@pytest.mark.parametrize("path", [path for path in EVIL if path])
@pytest.mark.parametrize(
    "answer",
    [
        "```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n```\n",
        "```diff\n--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n```\n",
        "```diff\ndiff --git a/f b/{path}\nrename from f\nrename to {path}\n```\n",
        "```diff\ndiff --git a/f b/{path}\ncopy from f\ncopy to {path}\n```\n",
        "```diff\ndiff --git a/{path} b/{path}\ndeleted file mode 100644\n```\n",
        "```diff\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+two\n```\n",
        "```text {path}\nx\n```\n",
        "{path}\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    ],
)
def test_no_answer_reaches_a_bad_path(answer: str, path: str) -> None:
    sources = dict.fromkeys(("f", "etc/passwd", "k/x"), b"one\n")
    try:
        applied = run(answer.format(path=path), sources, may_create=lambda _: True)
    except (PatchRefused, NoPatch):
        return
    for change in applied.changes:
        assert bad_path(change.name) is None
        assert change.name == "f" or ".git" not in change.name.lower()
        assert not change.is_new or ".." not in change.name


ONE = dict.fromkeys(("src/app.py", "lib/app.py", "lib/b.py", ".git/config"), b"one\n")
EDIT = "```diff\n--- {0}\n+++ {1}\n@@\n-one\n+two\n```\n"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("a/b.py", "b/b.py", "lib/b.py"),  # the longest common tail counts if it is unique
        ("/home/me/repo/src/app.py", "/home/me/repo/src/app.py", "src/app.py"),
        ("a/repo/lib/app.py", "b/repo/lib/app.py", "lib/app.py"),
        ("a/app.py", "b/app.py", None),
        ("a/ib/b.py", "b/ib/b.py", None),
        ("a/nowhere.py", "b/nowhere.py", None),
        ("../lib/b.py", "../lib/b.py", "bad-path"),
        ("a/lib/b.py", "b/src/app.py", None),  # two names
        ("a/lib/b.py", "b/lib/new.py", None),
        ("a/lib/b.py", "b/../new.py", "bad-path"),
        ("a/.git/config", "b/.git/config", "bad-path"),  # though it is known
    ],
)
def test_the_file_of_a_header(old: str, new: str, name: str | None) -> None:
    if name in ONE:
        assert changed(EDIT.format(old, new), ONE) == {name: b"two\n"}
    else:
        assert reasons(EDIT.format(old, new), ONE) == {name or "unknown-file"}


def test_of_many_files_those_with_similar_names_are_listed() -> None:
    sources = dict.fromkeys([f"src/{name}.py" for name in [*"abcdefghijklm", "reader", "readers"]], b"one\n")
    error = str(refused(EDIT.format("a/lib/readres.py", "b/lib/readres.py"), sources))
    assert "src/reader" in error and error.count(".py") <= 7


def test_a_real_folder_named_a() -> None:
    sources = {"a/x.py": b"one\n", "x.py": b"one\n"}
    assert [*changed(EDIT.format("a/x.py", "b/x.py"), sources)] == ["x.py"]
    assert [*changed(EDIT.format("a/a/x.py", "b/a/x.py"), sources)] == ["a/x.py"]


def test_an_error_about_scope_lists_the_scope() -> None:
    error = refused(EDIT.format("a/lib/b.py", "b/lib/b.py"), ONE, scope=["src/app.py"])
    assert error.reasons == {"out-of-scope"}
    assert "src/app.py" in str(error)


NEW = "```diff\n--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x\n```\n"


def test_new_files_only_where_allowed() -> None:
    (change,) = run(NEW.format("lib/new.py"), ONE, may_create=lambda path: path.startswith("lib/")).changes
    assert (change.path, change.after, change.mode) == ("lib/new.py", b"x\n", "100644")
    for path, reason in [
        ("other.py", "unknown-file"),
        ("lib/b.py", "exists"),
        ("lib/b.py/x", "bad-path"),
        ("lib", "bad-path"),
    ]:
        assert reasons(NEW.format(path), ONE, may_create=lambda path: path.startswith("lib")) == {reason}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("--- a/l\n+++ b/l", "symlink"),
        ("diff --git a/l b/m\nrename from l\nrename to m", "symlink"),
        ("diff --git a/l b/m\ncopy from l\ncopy to m", "symlink"),
        ("diff --git a/lib/b.py b/src/app.py\nrename from lib/b.py\nrename to src/app.py", "exists"),
        ("diff --git a/m b/m\nnew file mode 120000\n--- /dev/null\n+++ b/m", "mode"),
    ],
)
def test_no_link_is_edited_moved_or_created_and_no_file_replaced(header: str, reason: str) -> None:
    hunk = "@@\n+/etc\n" if "null" in header else "@@\n-one\n+/etc\n"
    files = {**ONE, "l": Content(b"one", "120000")}
    assert reasons(f"```diff\n{header}\n{hunk}```", files, may_create=lambda _: True) == {reason}


def test_among_files_with_the_same_tail_the_one_in_which_it_fits() -> None:
    sources = {"x/app.py": b"one\n", "y/app.py": b"two\n", "c.py": b"two\n"}
    answer = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-two\n+zwei\n"
    assert changed(answer, sources) == {"y/app.py": b"zwei\n"}
    assert reasons(answer, {**sources, "z/app.py": b"two\n"}) == {"unknown-file"}
