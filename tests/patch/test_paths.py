"""The file that a name refers to, and paths that are never written."""

from __future__ import annotations

import re

import pytest

from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.model import SourceText
from repoagent.patch.paths import bad_path
from repoagent.patch.refusal import NoPatch, PatchRefused

_EVIL = """\
|/etc/passwd|../x|a/../../x|a/./x|a//x|./.git/config|.git/config|a/.git/hooks/pre-commit|.GIT/config|.Git/x|.git./x
.git /x|.git. . /x|GIT~1/config|.git::$INDEX_ALLOCATION/config|.repoagent/config.toml|.RepoAgent/x|a\\b|..\\x|C:/x|c:x
x/|dir./x|x |..|git~2/config|GI7EBA~1/config|~/x|a\0b|a\x7fb|a\tb|.g\u200cit/config|.g\u0131t/config|.\uff47it/config
\u2024git/config|.git\u00ad/config|.repoagent\u200d/x|a\u202ex|a\u2066b|a\u2028b|a\x85b|a\udc80b"""
EVIL = [*re.split("[|\n]", _EVIL), "a\nb", "x" * 256, "é" * 128, "x/" * 2048 + "y"]
_GOOD = "a|a/b.py|.gitignore|.github/x.yml|git/x|a.git/x|é/ü|a b|.gitattributes|..a|a..b"


@pytest.mark.parametrize("path", EVIL)
def test_bad_paths(path: str) -> None:
    assert bad_path(path)


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\\b", "C:x", "x "])
def test_an_existing_file_may_have_any_name(name: str) -> None:
    header = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    answer = f'--- "a/{header}"\n+++ "b/{header}"\n@@\n-old\n+new\n'
    changes = apply_answer(answer, {name: SourceText(b"old\n")}).changes
    assert [(change.path, change.after) for change in changes] == [(name, b"new\n")]


@pytest.mark.parametrize(
    "path", ["", "/x", "../x", ".git/config", "a/.GIT/x", ".repoagent/x", ".git\u200c/x"]
)
def test_bad_paths_of_existing_files(path: str) -> None:
    assert bad_path(path, known=True)


@pytest.mark.parametrize("path", [*_GOOD.split("|"), "x" * 255, "x/" * 2047 + "y"])
def test_good_paths(path: str) -> None:
    assert bad_path(path) is None


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
    sources = {"f": SourceText(b"one\n"), "etc/passwd": SourceText(b"one\n"), "k/x": SourceText(b"one\n")}
    try:
        applied = apply_answer(answer.format(path=path), sources, may_create=lambda _: True)
    except (PatchRefused, NoPatch):
        return
    for change in applied.changes:
        assert bad_path(change.name) is None
        assert change.name == "f" or ".git" not in change.name.lower()
        assert not change.is_new or ".." not in change.name


def test_bad_paths_are_refused_even_when_they_are_known() -> None:
    sources = {".git/config": SourceText(b"one\n")}
    with pytest.raises(PatchRefused) as caught:
        apply_answer("```diff\n--- a/.git/config\n+++ b/.git/config\n@@\n-one\n+two\n```\n", sources)
    assert caught.value.reasons == {"bad-path"}


ONE = {
    "src/app.py": SourceText(b"one\n"),
    "lib/app.py": SourceText(b"one\n"),
    "lib/b.py": SourceText(b"one\n"),
}
EDIT = "```diff\n--- {0}\n+++ {1}\n@@\n-one\n+two\n```\n"


def changed(old: str, new: str) -> list[str]:
    return [change.name for change in apply_answer(EDIT.format(old, new), ONE).changes]


def why(old: str, new: str, sources: dict[str, SourceText] = ONE) -> frozenset[str]:
    with pytest.raises(PatchRefused) as caught:
        apply_answer(EDIT.format(old, new), sources)
    return caught.value.reasons


def test_the_longest_common_tail_counts_if_it_is_unique() -> None:
    assert changed("a/b.py", "b/b.py") == ["lib/b.py"]
    assert changed("/home/me/repo/src/app.py", "/home/me/repo/src/app.py") == ["src/app.py"]
    assert changed("a/repo/lib/app.py", "b/repo/lib/app.py") == ["lib/app.py"]
    assert why("a/app.py", "b/app.py") == {"unknown-file"}
    assert why("../lib/b.py", "../lib/b.py") == {"bad-path"}
    assert why("a/ib/b.py", "b/ib/b.py") == {"unknown-file"}


def test_a_real_folder_named_a() -> None:
    sources = {"a/x.py": SourceText(b"one\n"), "x.py": SourceText(b"one\n")}
    both = apply_answer(EDIT.format("a/x.py", "b/x.py"), sources)
    assert [change.name for change in both.changes] == ["x.py"]
    plain = apply_answer(EDIT.format("a/a/x.py", "b/a/x.py"), sources)
    assert [change.name for change in plain.changes] == ["a/x.py"]


def test_errors_about_scope_and_unknown_files_list_the_scope() -> None:
    with pytest.raises(PatchRefused) as caught:
        apply_answer(EDIT.format("a/lib/b.py", "b/lib/b.py"), ONE, scope=["src/app.py"])
    assert caught.value.reasons == {"out-of-scope"}
    assert "src/app.py" in str(caught.value)
    assert why("a/nowhere.py", "b/nowhere.py") == {"unknown-file"}


def test_two_names_in_one_header() -> None:
    assert why("a/lib/b.py", "b/src/app.py") == {"unknown-file"}
    assert why("a/lib/b.py", "b/lib/new.py") == {"unknown-file"}
    assert why("a/lib/b.py", "b/../new.py") == {"bad-path"}


NEW = "```diff\n--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x\n```\n"


def test_new_files_only_where_allowed() -> None:
    applied = apply_answer(NEW.format("lib/new.py"), ONE, may_create=lambda path: path.startswith("lib/"))
    assert (applied.changes[0].path, applied.changes[0].after, applied.changes[0].mode) == (
        "lib/new.py",
        b"x\n",
        "100644",
    )
    for path, reason in [
        ("other.py", "unknown-file"),
        ("lib/b.py", "exists"),
        ("lib/b.py/x", "bad-path"),
        ("lib", "bad-path"),
    ]:
        with pytest.raises(PatchRefused) as caught:
            apply_answer(NEW.format(path), ONE, may_create=lambda path: path.startswith("lib"))
        assert caught.value.reasons == {reason}


def test_symbolic_links_are_not_edited_and_not_created() -> None:
    assert why("a/l", "b/l", {"l": SourceText(b"one", "120000")}) == {"symlink"}
    with pytest.raises(PatchRefused) as caught:
        apply_answer(
            "```diff\ndiff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@\n+/etc\n```",
            ONE,
            may_create=lambda _: True,
        )
    assert caught.value.reasons == {"mode"}


@pytest.mark.parametrize("action", ["rename", "copy"])
def test_symbolic_links_are_not_created_by_moving(action: str) -> None:
    answer = f"```diff\ndiff --git a/l b/m\n{action} from l\n{action} to m\n@@\n-one\n+/etc\n```"
    with pytest.raises(PatchRefused) as caught:
        apply_answer(answer, {"l": SourceText(b"one", "120000")}, may_create=lambda _: True)
    assert caught.value.reasons == {"symlink"}


def test_a_rename_must_not_replace_a_file() -> None:
    answer = "```diff\ndiff --git a/lib/b.py b/src/app.py\nrename from lib/b.py\nrename to src/app.py\n```"
    with pytest.raises(PatchRefused) as caught:
        apply_answer(answer, ONE, may_create=lambda _: True)
    assert caught.value.reasons == {"exists"}


def test_among_files_with_the_same_tail_the_one_in_which_it_fits() -> None:
    sources = {
        "x/app.py": SourceText(b"one\n"),
        "y/app.py": SourceText(b"two\n"),
        "c.py": SourceText(b"two\n"),
    }
    answer = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-two\n+zwei\n"
    assert [change.path for change in apply_answer(answer, sources).changes] == ["y/app.py"]
    sources["z/app.py"] = SourceText(b"two\n")
    with pytest.raises(PatchRefused):
        apply_answer(answer, sources)
