"""Tasks that change files: search, read, patch, check and commit; and undo them exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import LimitReached
from repoagent.llm.usage import Limits
from tests.tasks.scenarios.rules import (
    CHECK,
    changed,
    fix_rounding,
    rename_everywhere,
    replace_line,
    until_applied,
)
from tests.tasks.scenarios.sight import Sight, created, deleted, edit, finish, patch
from tests.tasks.scenarios.stage import Look, Stage

Make = Callable[..., Stage]


def test_fix_a_failing_test(stage: Make) -> None:
    task = stage("python")
    outcome = task.go(fix_rounding, "Make the failing test pass.")
    assert (outcome.kind, "'ok'" in outcome.text) == ("done", True)
    assert task.kinds() == ["run", "read", "search", "read", "edit", "run", "finish"]
    task.whole("convert/rounding.py")


def test_rename_a_function_across_files(stage: Make) -> None:
    task = stage("python")
    outcome = task.go(
        rename_everywhere("register", "add_unit", "python3 -S -c 'import convert.units'"), "Rename it."
    )
    assert outcome.kind == "done"
    names = ["length", "mass", "volume", "speed", "energy", "pressure", "area", "power"]
    task.whole("convert/table.py", *(f"convert/units/{name}.py" for name in names))


@pytest.mark.soak
def test_add_an_option_with_its_test_and_docs(stage: Make) -> None:
    def rule(see: Sight) -> str:
        if not any(one.applied for one in see.done):
            paths = [path for path, _, _ in see.found("--digits")]
            source = next(path for path in paths if path.endswith(".py"))
            docs = next(path for path in paths if path.endswith(".md"))
            test = next(path for path, _, _ in see.found(r"import main$"))
            code, text, tests = see.lines(source), see.lines(docs), see.lines(test)
            option = next(n for n, line in enumerate(code) if '"--digits"' in line)
            indent = code[option][: len(code[option]) - len(code[option].lstrip())]
            new = [
                *code[:option],
                f'{indent}elif word == "--raw":',
                f"{indent}    digits = None",
                *code[option:],
            ]
            new = changed(
                new,
                "print(rounded(",
                "print(repr(float(value) * look_up(one, other)) if digits is None else rounded(",
            )
            at = next(n for n, line in enumerate(text) if "--digits" in line)
            said = [*text[: at + 1], "- `--raw` does not round.", *text[at + 1 :]]
            more = [
                *tests,
                "",
                "",
                "def test_raw():",
                '    assert said("--raw", "2", "metre", "foot") == "6.56168\\n"',
            ]
            return edit(patch(source, code, new), patch(docs, text, said), patch(test, tests, more))
        result = see.ran("python3 -S tests/run.py")
        if "test_cli" in result.output:
            return "<reject>my test fails</reject>"
        return finish(
            "Add the option --raw", f"test_raw passes; {result.output.split()[0]} is another matter"
        )

    task = stage("python")
    assert (
        task.go(rule, "Add an option --raw that does not round, with its test and documentation.").kind
        == "done"
    )
    task.whole("README.md", "convert/cli.py", "tests/test_cli.py")


@pytest.mark.soak
def test_a_refused_edit_is_corrected_from_its_error(stage: Make) -> None:
    """The model has an outdated text of the file, and gets the nearest lines."""

    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            return finish("Say who may be asked", "done")
        if see.last("edit") is None:  # from memory
            return edit(
                "--- a/CONTRIBUTING.md\n+++ b/CONTRIBUTING.md\n@@\n-Run `make test` first.\n+Run `make check`.\n"
            )
        lines = see.lines("CONTRIBUTING.md")
        return edit(patch("CONTRIBUTING.md", lines, changed(lines, "before you commit", "before you push")))

    task = stage("python")
    task.go(rule, "Say push, not commit.")
    assert task.kinds() == ["edit", "read", "edit", "finish"]
    task.whole("CONTRIBUTING.md")


def test_nothing_is_written_until_both_files_apply(stage: Make) -> None:
    """The first patch applies, the second is for a missing text."""
    looks = []

    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            return finish("Load by number", "both done")
        first, kind = see.lines("order/order.go"), see.last("edit")
        one = patch("order/order.go", first, changed(first, "ID int", "Number int"))
        if kind is None:
            return edit(
                one, "--- a/basket/basket.go\n+++ b/basket/basket.go\n@@\n-\tKey string\n+\tNumber int\n"
            )
        second = see.lines("basket/basket.go")
        return edit(one, patch("basket/basket.go", second, changed(second, "ID int", "Number int")))

    task = stage("go")
    task.at[3] = lambda: looks.append(task.repo.status())
    task.go(rule, "Call it Number.")
    assert looks == [""]
    task.whole("basket/basket.go", "order/order.go")


def test_create_rename_and_delete(stage: Make) -> None:
    def rule(see: Sight) -> str:
        if any(one.applied for one in see.done):
            left = see.ran("ls lib test")
            return finish(
                "Turn count into tally",
                "tally" if "tally.js" in left.output and "wrap.js" not in left.output else "?",
            )
        index, old, gone = see.lines("index.js"), see.lines("lib/count.js"), see.lines("lib/wrap.js")
        test = see.lines("test/wrap.test.js")
        head = "diff --git a/lib/count.js b/lib/tally.js\nrename from lib/count.js\nrename to lib/tally.js\n"
        moved = patch("lib/count.js", old, changed(old, "count", "tally")).replace(
            "+++ b/lib/count.js", "+++ b/lib/tally.js"
        )
        return edit(
            head + moved,
            deleted("lib/wrap.js", gone),
            deleted("test/wrap.test.js", test),
            created("lib/README.md", "# lib\n\nOne function each.\n"),
            patch(
                "index.js",
                index,
                [line.replace("lib/count", "lib/tally") for line in index if "wrap" not in line],
            ),
        )

    task = stage("javascript")
    assert task.go(rule, "Rename count to tally, drop wrap, and describe lib.").text == "tally"
    task.whole(
        "index.js", "lib/README.md", "lib/count.js", "lib/tally.js", "lib/wrap.js", "test/wrap.test.js"
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    ("path", "words", "data"),
    [
        ("docs/manual.md", ("it could.", "it could, or 1."), (b"could.\r\n", b"could, or 1.\r\n")),
        ("docs/auteurs.txt", ("Müller", "Möller"), (b"Ren\xe9 M\xfcller\n", b"Ren\xe9 M\xf6ller\n")),
        ("docs/last.txt", ("has no end", "has none"), (b"line has no end", b"line has none")),
    ],
    ids=["crlf", "latin-1", "no final newline"],
)
def test_only_the_edited_words_of_a_file_change(
    stage: Make, path: str, words: tuple[str, str], data: tuple[bytes, bytes]
) -> None:
    task = stage("c")
    was = task.repo.read(path)
    assert data[0] in was
    task.go(replace_line(path, *words), f"{words[0]} is to be {words[1]}")
    assert task.repo.read(path) == was.replace(*data)
    task.whole(path)


def test_several_changes_of_one_file_become_one_commit(stage: Make) -> None:
    """Each edit is in its own reply, the second on top of the first."""

    def rule(see: Sight) -> str:
        lines = see.lines("src/lib.rs")
        if "pub mod walk;" in lines:
            return edit(patch("src/lib.rs", lines, [line for line in lines if line != "pub mod walk;"]))
        if "pub mod cache;" in lines:
            return edit(patch("src/lib.rs", lines, [line for line in lines if line != "pub mod cache;"]))
        return finish("Leave out walk and cache", "both are gone")

    task = stage("rust")
    task.go(rule, "Leave walk and cache out.")
    assert task.kinds().count("edit") == 2
    task.whole("src/lib.rs")


@pytest.mark.soak
def test_the_users_work_in_the_same_file_stays_uncommitted(stage: Make) -> None:
    task = stage("python")
    mine = task.repo.read("convert/rounding.py").replace(b'"""Rounding."""', b'"""Rounding, mine."""')
    task.repo.write("convert/rounding.py", mine)
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.git("add", "docs/mass.md")
    task.repo.write("notes.txt", "untracked\n")
    task.go(fix_rounding, "Make the failing test pass.")
    assert b"mine" not in task.repo.git("show", "HEAD:convert/rounding.py").encode()
    assert task.repo.read("convert/rounding.py") == mine.replace(b"str(value)", b"str(round(value))")
    assert task.repo.status() == " M convert/rounding.py\nM  docs/mass.md\n?? notes.txt\n"
    assert task.repo.git("diff", "--", "convert").count("\n+") == 2
    task.whole("convert/rounding.py")


def test_the_users_staged_work_in_the_same_file_stays_staged(stage: Make) -> None:
    task = stage("python")
    mine = task.repo.read("convert/rounding.py").replace(b'"""Rounding."""', b'"""Rounding, mine."""')
    task.repo.write("convert/rounding.py", mine)
    task.repo.git("add", "convert/rounding.py")
    task.go(fix_rounding, "Make the failing test pass.")
    assert task.repo.status() == "M  convert/rounding.py\n"
    assert "mine" not in task.repo.git("show", "HEAD:convert/rounding.py")
    task.whole("convert/rounding.py")


def test_a_file_that_the_user_saves_during_the_run(stage: Make) -> None:
    """Other lines of a file that the run has read, before its edit and again after it."""
    task = stage("python")

    def save(old: bytes, new: bytes) -> None:
        task.repo.write("convert/rounding.py", task.repo.read("convert/rounding.py").replace(old, new))

    task.at[5] = lambda: save(b'"""Rounding."""', b'"""Rounding, mine."""')
    task.at[7] = lambda: save(b"digits after the point", b"digits behind the point")
    task.go(fix_rounding, "Make the failing test pass.")
    assert task.kinds()[4] == "edit"
    committed = task.repo.git("show", "HEAD:convert/rounding.py")
    assert "mine" not in committed and "behind" not in committed and "round(value)" in committed
    assert task.repo.status() == " M convert/rounding.py\n"
    task.sound()
    task.committed("convert/rounding.py")
    task.before = Look.at(task.repo)
    from repoagent.edit.undo import undo
    from repoagent.git.worktree import open_worktree

    undo(open_worktree(task.repo.top))
    assert b"mine" in task.repo.read("convert/rounding.py")
    assert b"str(value)" in task.repo.read("convert/rounding.py")


def test_lines_that_the_user_saves_during_the_run_are_not_overwritten(stage: Make) -> None:
    """The commit has the run's content, the file the user's."""
    task = stage("python")

    def save() -> None:
        data = task.repo.read("convert/rounding.py")
        task.repo.write("convert/rounding.py", data.replace(b"str(round(value))", b"str(int(value + 0.5))"))

    task.at[7] = save
    outcome = task.go(fix_rounding, "Make the failing test pass.")
    assert b"int(value + 0.5)" in task.repo.read("convert/rounding.py")
    assert outcome.commits == (task.repo.head(),)
    assert "str(round(value))" in task.repo.git("show", "HEAD:convert/rounding.py")
    assert task.repo.status() == " M convert/rounding.py\n"


def test_a_check_that_fails_first(stage: Make) -> None:
    """The model forgets to run the tests; it reads the output of the check."""

    def rule(see: Sight) -> str:
        lines = see.lines("convert/rounding.py")
        results = see.results("check")
        if results and any("round(value)" in line for line in lines):
            return finish("Round", f"{CHECK} passes")
        if results:
            if "AssertionError" not in results[-1]:
                return "<reject>the check says nothing of use</reject>"
            return edit(patch("convert/rounding.py", lines, changed(lines, "int(value)", "round(value)")))
        if any("int(value)" in line for line in lines):
            return finish("Cut", "it is cut now")
        return edit(patch("convert/rounding.py", lines, changed(lines, "str(value)", "str(int(value))")))

    task = stage("python")
    assert task.go(rule, "No digits means a whole number.", check=CHECK).kind == "done"
    task.whole("convert/rounding.py")


def test_a_commit_per_edit(stage: Make) -> None:
    def rule(see: Sight) -> str:
        for path in ("docs/lexer.md", "docs/tree.md"):
            lines = see.lines(path)
            if any("See" in line for line in lines):
                return f"<commit>\nReword {path}\n</commit>\n" + edit(
                    patch(path, lines, changed(lines, "See", "Look at"))
                )
        return "<finish>both are reworded</finish>"

    task = stage("rust")
    outcome = task.go(rule, "Say look at.", commit_per_edit=True)
    assert task.repo.git("log", "-2", "--format=%s").split("\n")[:2] == [
        "Reword docs/tree.md",
        "Reword docs/lexer.md",
    ]
    assert len(outcome.commits) == 2
    task.sound()
    assert (task.repo.status(), task.record()["commits"]) == ("", list(outcome.commits))


def test_commits_of_an_interrupted_run_are_recorded(stage: Make) -> None:
    def rule(see: Sight) -> str:
        for path in ("docs/lexer.md", "docs/tree.md"):
            lines = see.lines(path)
            if any("See" in line for line in lines):
                return edit(patch(path, lines, changed(lines, "See", "Look at")))
        return "<finish>both are reworded</finish>"

    task = stage("rust")
    with pytest.raises(LimitReached):
        task.go(rule, "Say look at.", commit_per_edit=True, limits=Limits(turns=2))
    task.sound("limit")
    assert task.record()["commits"] == [task.repo.head()]
    task.go(rule, commit_per_edit=True)
    assert task.record()["commits"] == task.repo.git("log", "--reverse", "-2", "--format=%H").split()


def test_until_applied_gives_up_without_a_result(stage: Make) -> None:
    """A model that searches for a missing text changes nothing."""
    from repoagent.errors import NothingDone

    task = stage("rust")
    rule = until_applied(
        lambda see: edit(
            patch("src/lib.rs", see.lines("src/lib.rs"), changed(see.lines("src/lib.rs"), "nowhere", "x"))
        ),
        "x",
    )
    with pytest.raises(NothingDone, match="I see no nowhere"):
        task.go(rule, "Change it.")
    task.sound("rejected")
    assert Look.at(task.repo) == task.before
