"""Names as tools and models write them, the file that a name refers to, and paths that are never written."""

from __future__ import annotations

import re
import time

import pytest

from repoagent.git.files import Content
from repoagent.patch.apply_answer import read_answer
from repoagent.patch.paths import bad_path, known_path, unquote_name
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch import helpers
from tests.patch.helpers import after, each, reasons, refused, run

BEFORE, AFTER = b"one\ntwo\nthree\n", b"one\n2\nthree\n"
HUNK = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
BARE = HUNK.split("\n", 1)[1]
F, G = "--- a/f.py\n+++ b/f.py\n", "--- a/g.py\n+++ b/g.py\n"
BLOCK = "<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n"


def changed(answer: str, *known: str) -> list[str]:
    """The files that an answer changes from BEFORE to AFTER, if all `known` ones are BEFORE; no other may change."""
    changes = run(answer, dict.fromkeys(known, BEFORE)).changes
    assert all((change.before, change.after) == (BEFORE, AFTER) for change in changes)
    return [change.name for change in changes]


@pytest.mark.parametrize(
    "answer",
    [
        "{name}\n" + BLOCK,
        "{name}\n\n```\n" + BLOCK + "```\n",
        "```\n{name}\n" + BLOCK + "```\n",
        "- Change it:\n\n  {name}\n" + each("  ", BLOCK),
        "**{name}**\n\n```\none\n2\nthree\n```\n",
        "### {name}\n\nThe whole file:\n\n```\none\n2\nthree\n```\n",
        "```{name}\none\n2\nthree\n```\n",
        "```text {name}\none\n2\nthree\n```\n",
        "```c:{name}\none\n2\nthree\n```\n",
        "```diff {name}\n" + HUNK + "```\n",
        "```diff:{name}\n" + HUNK + "```\n",
        "In `{name}`:\n\n```diff\n" + HUNK + "```\n",
        "File: {name}\n\n\n" + each("    ", HUNK),
    ],
)
def test_the_name_of_a_known_file_may_have_any_form(answer: str) -> None:
    for name in ("bin/run", "AUTHORS", "my notes.txt", "[id](page.ts)", "a b/c d", "__init__.py"):
        assert changed(answer.format(name=name), "other/" + name, name, "z") == [name]


def test_a_word_that_is_also_a_file_is_not_a_name_unless_marked() -> None:
    whole = "```\none\n2\nthree\n```\n"
    for answer in (f"build\n\n{whole}", whole.replace("```", "```build", 1)):
        with pytest.raises(NoPatch):
            changed(answer, "build", "b.txt")
    assert changed(f"`build`:\n\n{whole}", "build", "b.txt") == ["build"]

    assert changed(whole.replace("```", "```my Makefile", 1), "my Makefile", "Makefile") == ["my Makefile"]


def test_a_comment_of_more_than_400_characters_names_no_file() -> None:
    name = "d/" * 197 + "a.py"
    answer = f"```\n# {name}\n{BLOCK}```\n"
    assert changed(answer, name, "g.py") == [name]
    files = dict.fromkeys((f"d{name}", "g.py"), BEFORE)
    assert reasons(answer.replace(name, f"d{name}"), files) == {"unknown-file"}


def test_a_plain_name_in_the_info_string_may_be_that_of_a_new_file() -> None:
    files = helpers.changed("```Makefile\nall:\n```\n", {}, may_create=lambda _: True)
    assert files == {"Makefile": b"all:\n"}


def test_a_part_of_a_sentence_is_not_a_known_name() -> None:
    assert read_answer("as in bin/run\n\n```\none\n```\n\n```\ntwo\n```\n", known={"bin/run"}) == ()


@pytest.mark.parametrize(
    "line", ["In `src/a.py`:", "**Then change src/a.py:**", "For the file src/a.py:", "Update `src/a.py`:"]
)
@pytest.mark.parametrize("margin", ["", "    "])
def test_a_sentence_before_a_bare_hunk_names_its_file(line: str, margin: str) -> None:
    assert changed(f"{line}\n\n{each(margin, HUNK)}", "src/a.py", "src/b.py") == ["src/a.py"]


def test_a_quoted_name_with_escapes_or_a_date_is_read_unchanged() -> None:
    for quoted, name in (
        ("a\\tb.c", "a\tb.c"),
        ("a 2026-11-02 10:00:00", "a 2026-11-02 10:00:00"),
        ("a\\\\b.c", "a\\b.c"),
        ("x\\8.py", "x8.py"),  # no escape of git
    ):
        answer = f'```diff\n--- "a/{quoted}"\n+++ "b/{quoted}"\n{HUNK}```\n'
        assert changed(answer, name, "a", "a/b.c", "b.c") == [name]
    assert unquote_name(r'"\a\b\t\n\v\f\r\"\\\101\303\274"\tmore') == '\a\b\t\n\v\f\r"\\Aü'


def test_a_windows_prefix_is_removed_before_the_tail_is_matched() -> None:
    assert known_path(["b\\x.py"], ["x.py", "lib/b/x.py"]) == "x.py"
    assert known_path(["C:\\dev\\lib\\b\\x.py"], ["x.py", "lib/b/x.py"]) == "lib/b/x.py"
    assert known_path(["..\\x.py"], ["x.py"]) is None


@pytest.mark.parametrize(
    "diff",
    [
        f"--- a/f.py\n@@ -1,9 +1,9 @@\n{BARE}--- a/g.py\n{HUNK}",
        f"--- a/f.py\n{HUNK}--- a/g.py\n{HUNK}",
        f"--- a/f.py\n{BARE}--- a/g.py\n{HUNK}",
        f"{F}{HUNK}--- g.py\n{HUNK}",  # all lines that the first header declares are there
        f"{F}{HUNK}{G}{BARE}",
        f"{F}@@  @@\n{BARE}--- g.py\n{HUNK}",
        f"{F}@@ -1,9 +1,9 @@\n{BARE}{G}\n{HUNK}",
    ],
)
def test_a_header_between_two_files(diff: str) -> None:
    assert changed(f"```diff\n{diff}```\n", "f.py", "g.py") == ["f.py", "g.py"]


@pytest.mark.parametrize("name", ["f.py", "Makefile", "a b.c"])
@pytest.mark.parametrize("side", ["+++ b/", "--- a/"])
def test_half_a_header_without_a_hunk_line(side: str, name: str) -> None:
    assert changed(f"```diff\n{side}{name}\n{BARE}```\n", name, "g.py") == [name]
    assert changed(f"```diff f.py\n{side}{name}\n{BARE}```\n", name, "g.py") == [name]
    assert reasons(f"```diff\n{side}{name}\n{BARE}```\n", {"src/h.py": BEFORE}) == {"unknown-file"}


def test_a_deleted_comment_that_looks_like_half_a_header() -> None:
    before = b"select 1;\n-- a/f.sql\nselect 2;\nselect 3;\n"
    answer = (
        "```diff\n--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1 @@\n select 1;\n--- a/f.sql\n"
        "@@ -4 +3 @@\n-select 3;\n+select 4;\n```\n"
    )
    assert after(answer, {"q.sql": before, "f.sql": BEFORE}) == b"select 1;\nselect 2;\nselect 4;\n"


def test_a_changed_comment_that_looks_like_a_header_below_other_changes() -> None:
    diff = "```diff\n--- a/f.sql\n+++ b/f.sql\n@@ {} @@\n a\n{}--- q\n+++ z\n b\n```\n"
    short, long = b"a\n-- q\nb\n", b"a\n1\n2\n3\n-- q\nb\n"
    added, deleted = (each(sign, "1\n2\n3\n") for sign in "+-")
    assert after(diff.format("-1,3 +1,6", added), {"f.sql": short}) == long.replace(b"-- q", b"++ z")
    assert after(diff.format("-1,6 +1,3", deleted), {"f.sql": long}) == short.replace(b"-- q", b"++ z")


RENAMED = "diff --git a/f.py b/g.py\nsimilarity index 80%\nrename from f.py\nrename to g.py\n"
FIRST = "--- a/f.py\n+++ b/g.py\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"


def renamed(answer: str, sources: dict[str, bytes]) -> dict[str, bytes | None]:
    return helpers.changed(answer, sources, may_create=lambda _: True)


def test_a_hunk_without_a_name_continues_the_file_that_is_renamed() -> None:
    second = "@@ -4,2 +4,2 @@\n four\n-five\n+5\n"
    answer = f"```diff\n{RENAMED}{FIRST}```\n\nfurther down\n\n```diff\n{second}```\n"
    sources = {"f.py": b"one\ntwo\nthree\nfour\nfive\n", "z.py": b"z\n"}
    assert renamed(answer, sources) == {"f.py": None, "g.py": b"1\ntwo\nthree\nfour\n5\n"}


def test_no_line_below_the_names_of_a_renamed_file_is_lost() -> None:
    names, before = f"```diff\n{RENAMED}--- a/f.py\n+++ b/g.py\n", {"f.py": BEFORE}
    numbered = "1:  one\n2: -two\n2: +2\n3:  three\n"
    assert renamed(f"{names}{numbered}```\n", before) == {"f.py": None, "g.py": AFTER}
    assert renamed(f"{names}\n```\n", before) == {"f.py": None, "g.py": BEFORE}
    assert reasons(f"{names}1| one; 2| two becomes 2\n```\n", before) == {"cut-off"}


def test_many_new_files_in_a_large_repository() -> None:
    known = {f"d{n % 100}/f{n}.py": b"x\n" for n in range(30_000)}
    names = [f"n{n}.py" for n in range(1_000)]
    diff = "".join(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n" for name in names)
    start = time.process_time()
    assert list(helpers.changed(diff, known, may_create=lambda path: True)) == names
    assert time.process_time() - start < 5  # comparing all with all took 18 seconds


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
    assert helpers.changed(answer, {name: b"old\n"}) == {name: b"new\n"}


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
        ("a/lib/b.py", "b/lib/new.py", None),
        ("a/lib/b.py", "b/../new.py", "bad-path"),
        ("a/.git/config", "b/.git/config", "bad-path"),  # though it is known
    ],
)
def test_the_file_of_a_header(old: str, new: str, name: str | None) -> None:
    if name in ONE:
        assert helpers.changed(EDIT.format(old, new), ONE) == {name: b"two\n"}
    else:
        assert reasons(EDIT.format(old, new), ONE) == {name or "unknown-file"}


def test_a_header_with_the_names_of_two_files_is_refused_with_both() -> None:
    error = refused(EDIT.format("a/lib/b.py", "b/src/app.py"), ONE)
    assert error.reasons == {"unknown-file"} and "two files, lib/b.py and src/app.py" in str(error)


def test_of_many_files_those_with_similar_names_are_listed() -> None:
    sources = dict.fromkeys([f"src/{name}.py" for name in [*"abcdefghijklm", "reader", "readers"]], b"one\n")
    error = str(refused(EDIT.format("a/lib/readres.py", "b/lib/readres.py"), sources))
    assert "src/reader" in error and error.count(".py") <= 7


def test_a_real_folder_named_a() -> None:
    sources = {"a/x.py": b"one\n", "x.py": b"one\n"}
    assert [*helpers.changed(EDIT.format("a/x.py", "b/x.py"), sources)] == ["x.py"]
    assert [*helpers.changed(EDIT.format("a/a/x.py", "b/a/x.py"), sources)] == ["a/x.py"]


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
    assert helpers.changed(answer, sources) == {"y/app.py": b"zwei\n"}
    assert reasons(answer, {**sources, "z/app.py": b"two\n"}) == {"unknown-file"}
