"""Names as tools and models write them: in headers, above a patch, in a fence's info string."""

from __future__ import annotations

import time

import pytest

from repoagent.patch.apply_answer import read_answer
from repoagent.patch.paths import known_path, unquote_name
from repoagent.patch.refusal import NoPatch
from tests.patch import helpers
from tests.patch.helpers import after, each, reasons, run

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


RENAMED = "diff --git a/f.py b/g.py\nsimilarity index 80%\nrename from f.py\nrename to g.py\n"
FIRST = "--- a/f.py\n+++ b/g.py\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"


def renamed(answer: str, sources: dict[str, bytes]) -> dict[str, bytes | None]:
    return helpers.changed(answer, sources, may_create=lambda _: True)


def test_a_hunk_without_a_name_continues_the_file_that_is_renamed() -> None:
    answer = (
        f"```diff\n{RENAMED}{FIRST}```\n\nfurther down\n\n```diff\n@@ -4,2 +4,2 @@\n four\n-five\n+5\n```\n"
    )
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
