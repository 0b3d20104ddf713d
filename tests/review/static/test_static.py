"""The rules that read the changed texts alone: what each finds, and where it keeps quiet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from repoagent.config.layers import load
from repoagent.git.worktree import layout, open_at_head
from repoagent.review.checks.run import CheckOutcome, static_findings
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.finding import Finding
from repoagent.review.output.formats import FORMATS, render
from repoagent.review.review import ReviewRequest, review
from tests.conftest import GitRepo

TOKEN = "ghp_" + "9aB3kQ7xZ2mN5vL8pR4tW6yC1dF0gH3jK5sE"
Files = Mapping[str, str | None]  # None: the file goes


def stage(repo: GitRepo, files: Files) -> None:
    for path, text in files.items():
        if text is None:
            (Path(repo.top) / path).unlink()
        else:
            repo.write(path, text)
    repo.git("add", "-A")


def answer(repo: GitRepo, selector: ChangeSelector | None = None, **levels: str) -> CheckOutcome:
    worktree, head = open_at_head(repo.top)
    flags = {f"review.rules.{rule.replace('_', '-')}": level for rule, level in levels.items()}
    settings = load(layout(worktree), repo.top, flags=flags)
    change, _ = read_change(worktree, head, selector or ChangeSelector(cwd=repo.top))
    return static_findings(change, worktree, settings)


def found(repo: GitRepo, before: Files, after: Files) -> list[Finding]:
    """What is found in the staged change from one set of files to another."""
    stage(repo, before)
    repo.git("commit", "-qm", "before")
    stage(repo, after)
    return list(answer(repo).findings)


def told(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(one.rule, one.location.path, one.location.start) for one in findings]


CODE = "import os\n\n\ndef size(path):\n    return os.stat(path).st_size\n"
CONFLICT = "<<<<<<< HEAD\nold\n=======\nnew\n>>>>>>> topic\n"


@pytest.mark.parametrize(
    ("path", "before", "after", "line"),
    [
        ("a.py", CODE, CODE + "<<<<<<< HEAD\n", 6),
        ("a.c", "int a;\n", "int a;\n<<<<<<< HEAD\nint b;\n", 2),
        ("a.md", "Title\n\nText.\n", "Title\n" + CONFLICT, 2),
        ("a.py", '"""Text.\n\n~~~~\n"""\n', f'"""Text.\n{CONFLICT}\n~~~~\n"""\n', 2),
        ("a.unknown", "x\n", "x\n" + CONFLICT, 2),
    ],
)
def test_a_conflict_marker(repo: GitRepo, path: str, before: str, after: str, line: int) -> None:
    assert told(found(repo, {path: before}, {path: after})) == [("conflict-marker", path, line)]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.rst", "Title\n", "Title\n=======\n\nText\n=======\n"),
        ("a.md", "Text\n", f"Text\n```\n{CONFLICT}```\n"),
        ("a.sh", "cat\n", "cat <<EOF\n<<<<<<< HEAD\nEOF\n"),
        ("tests/test_a.py", CODE, f'{CODE}TEXT = """\\\n{CONFLICT}"""\n'),
        ("a.md", "Text\n" + CONFLICT, "Text again\n" + CONFLICT + CONFLICT),
    ],
)
def test_no_conflict_marker(repo: GitRepo, path: str, before: str, after: str) -> None:
    assert found(repo, {path: before}, {path: after}) == []


def test_a_file_that_no_longer_parses_is_found_at_its_line(repo: GitRepo) -> None:
    before = {
        "a.py": CODE,
        "b.js": "function a() {\n  return 1;\n}\n",
        "c.c": "int a(void)\n{\n\treturn 1;\n}\n",
    }
    after = {"a.py": CODE.replace("(path):", "(path:"), "b.js": "function a( {\n  return 1;\n}\n",
             "c.c": "int a(void)\n{\n\treturn (1;\n}\n"}  # fmt: skip
    findings = found(repo, before, after)
    assert told(findings) == [
        ("parse-error", "a.py", 4),
        ("parse-error", "b.js", 1),
        ("parse-error", "c.c", 3),
    ]
    assert findings[0].title.startswith("a.py no longer parses as python: ")


def test_a_file_that_did_not_parse_before_is_no_finding(repo: GitRepo) -> None:
    assert found(repo, {"a.py": "def (:\n"}, {"a.py": "def (:\ndef (:\n"}) == []


def test_c_is_read_around_the_change_with_its_own_line_numbers(repo: GitRepo) -> None:
    body = "".join(f"int f{n}(void)\n{{\n\treturn {n};\n}}\n\n" for n in range(300))
    assert told(found(repo, {"a.c": body}, {"a.c": body.replace("return 250;", "return 250);")})) == [
        ("parse-error", "a.c", 250 * 5 + 3)
    ]


def test_a_secret_is_found_and_shown_nowhere(repo: GitRepo) -> None:
    stage(repo, {"help.py": CODE, "other.py": CODE})
    repo.git("commit", "-qm", "before")
    stage(repo, {"help.py": f'{CODE}TOKEN = "{TOKEN}"\n', "tests/test_a.py": f'TOKEN = "{TOKEN}"\n'})
    worktree, head = open_at_head(repo.top)
    settings = load(layout(worktree), repo.top, flags={})
    change, unseen = read_change(worktree, head, ChangeSelector(cwd=repo.top))
    report = review(change, ReviewRequest(worktree, layout(worktree), settings, unseen=unseen))
    assert told(list(report.findings)) == [("secret", "help.py", 6)]
    assert report.findings[0].quote == 'TOKEN = "***"'
    assert b'TOKEN = "***"' in report.by_file["help.py"]
    for form in FORMATS:
        assert TOKEN[:12].encode() not in render(report, form, top=repo.top, change=change)
    assert TOKEN[:12] not in repr(report)


def test_a_password_that_says_so_is_an_example(repo: GitRepo) -> None:
    url = '"""\nURL("https://jo:a%20secret@example.org")\n"""\n'
    assert found(repo, {"a.py": CODE}, {"a.py": CODE + url}) == []


def test_a_secret_that_was_there_before_is_no_finding(repo: GitRepo) -> None:
    assert found(repo, {"a.py": f'T = "{TOKEN}"\n'}, {"a.py": f'# moved\nTOKEN = "{TOKEN}"\n'}) == []


COOKIES = "def merge_cookies(a, b):\n    return a\n\n\ndef create(a):\n    return a\n"


@pytest.mark.parametrize(
    "user",
    [
        "from .cookies import create, merge_cookies\n",
        "from pkg.cookies import merge_cookies as merge\n",
        "from . import cookies\n\n\ndef f(a):\n    return cookies.merge_cookies(a, a)\n",
        "import pkg.cookies as c\n\nX = c.merge_cookies\n",
        "if True:\n    from .cookies import (\n        merge_cookies,\n    )\n",
    ],
)
def test_a_renamed_function_that_another_file_imports(repo: GitRepo, user: str) -> None:
    (finding,) = found(
        repo,
        {"src/pkg/cookies.py": COOKIES, "src/pkg/user.py": user},
        {"src/pkg/cookies.py": COOKIES.replace("merge_cookies", "merge")},
    )
    assert (finding.rule, finding.location.path, finding.location.start, finding.location.old) == (
        "removed-symbol", "src/pkg/cookies.py", 1, True,
    )  # fmt: skip
    assert finding.title.startswith("merge_cookies was removed, but src/pkg/user.py:")
    assert "merge_cookies" in finding.body and finding.quote == "def merge_cookies(a, b):"


@pytest.mark.parametrize(
    "user",
    [
        "from other.cookies import merge_cookies\n",
        "try:\n    from .cookies import merge_cookies\nexcept ImportError:\n    merge_cookies = None\n",
        "def f(cookies):\n    return cookies.merge_cookies()\n",
        "# from .cookies import merge_cookies\n",
        'TEXT = "merge_cookies"\n',
    ],
)
def test_what_is_not_its_use(repo: GitRepo, user: str) -> None:
    before = {"src/pkg/cookies.py": COOKIES, "src/pkg/user.py": user}
    assert found(repo, before, {"src/pkg/cookies.py": COOKIES.replace("merge_cookies", "merge")}) == []


@pytest.mark.parametrize(
    "after",
    [
        {"src/pkg/cookies.py": "from .jar import merge_cookies\n", "src/pkg/jar.py": COOKIES},
        {"src/pkg/cookies.py": COOKIES.replace("def merge_cookies(a, b)", "def __getattr__(name)")},
        {"src/pkg/cookies.py": "from .jar import *\n", "src/pkg/jar.py": "x = 1\n"},
        {"src/pkg/cookies.py": "", "src/pkg/user.py": "X = 1\n"},
        {"src/pkg/cookies.py": None, "src/pkg/user.py": None},
    ],
)
def test_a_symbol_that_moved_or_whose_users_changed_too(repo: GitRepo, after: Files) -> None:
    before = {"src/pkg/cookies.py": COOKIES, "src/pkg/user.py": "from .cookies import merge_cookies\n"}
    assert found(repo, before, after) == []


def test_the_name_that_is_used_most_is_named_first_and_the_others_are_counted(repo: GitRepo) -> None:
    (finding,) = found(
        repo,
        {"a.py": "ONE = 1\n\n\ndef two():\n    return 2\n", "b.py": "from a import two\n", "c.py": "from a import ONE, two\n"},
        {"a.py": "\n"},
    )  # fmt: skip
    assert finding.title == "two was removed, but b.py:1 still imports it"
    assert "b.py:1: from a import two" in finding.body and "c.py:1" in finding.body
    assert "The same holds for 1 more name of this file: ONE." in finding.body


def test_a_call_in_the_same_file(repo: GitRepo) -> None:
    text = "def helper():\n    return 1\n\n\ndef f():\n    return helper()\n"
    (finding,) = found(repo, {"a.py": text}, {"a.py": text.replace("def helper", "def helped")})
    assert finding.title == "helper was removed, but a.py:6 still uses it"


@pytest.mark.parametrize(
    ("path", "before", "after", "other", "user"),
    [
        ("lib/a.js", "exports.parse = function () {};\nexports.b = 1;\n", "exports.b = 1;\n",
         "lib/b.js", "const { parse } = require('./a');\nparse();\n"),
        ("lib/a.js", "exports.parse = function () {};\n", "\n",
         "test/b.js", "var a = require('../lib/a.js');\na.parse();\n"),
        ("lib/a.ts", "export function parse() {}\nexport const b = 1;\n", "export const b = 1;\n",
         "lib/b.ts", "import { b, parse as p } from './a';\np(b);\n"),
        ("p/a.go", "package p\n\nfunc parseIt() int { return 1 }\n", "package p\n",
         "p/b.go", "package p\n\nfunc b() int { return parseIt() }\n"),
        ("a.c", "int parse_it(void)\n{\n\treturn 1;\n}\n", "int other;\n",
         "b.c", "int parse_it(void);\n\nint b(void)\n{\n\treturn parse_it();\n}\n"),
    ],
)  # fmt: skip
def test_other_languages(repo: GitRepo, path: str, before: str, after: str, other: str, user: str) -> None:  # noqa: PLR0917
    assert [one.rule for one in found(repo, {path: before, other: user}, {path: after})] == ["removed-symbol"]


def test_a_caller_that_was_corrected_but_not_staged_still_counts(repo: GitRepo) -> None:
    before = {"cookies.py": COOKIES, "user.py": "from cookies import merge_cookies\n"}
    stage(repo, before)
    repo.git("commit", "-qm", "before")
    repo.write("user.py", "from cookies import merge\n")
    repo.write("cookies.py", COOKIES.replace("merge_cookies", "merge"))
    repo.git("add", "cookies.py")
    assert [one.key for one in answer(repo).findings] == ["merge_cookies"]
    assert [one.key for one in answer(repo, ChangeSelector("worktree", cwd=repo.top)).findings] == []
    repo.git("commit", "-qm", "half")
    assert [one.key for one in answer(repo, ChangeSelector("commit", "HEAD", cwd=repo.top)).findings] == [
        "merge_cookies"
    ]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "    breakpoint()\n"),
        ("a.py", "    import pdb; pdb.set_trace()\n"),
        ("a.py", '    print("here")\n'),
        ("a.py", "    print(path)\n"),
        ("a.py", '    print(f"{path=}")\n'),
        ("a.py", "    x = 1  # TODO REMOVE\n"),
    ],
)
def test_a_line_left_over_from_debugging(repo: GitRepo, path: str, line: str) -> None:
    assert told(found(repo, {path: CODE}, {path: CODE.replace("    return", line + "    return")})) == [
        ("debug-leftover", path, 5)
    ]


@pytest.mark.parametrize(
    ("path", "before"),
    [
        ("a.py", CODE + 'print("done")\n'),
        ("scripts/a.py", CODE),
        ("tests/test_a.py", CODE),
        ("a.py", "#!/usr/bin/env python\n" + CODE),
    ],
)
def test_a_file_that_prints_as_its_work(repo: GitRepo, path: str, before: str) -> None:
    assert (
        found(repo, {path: before}, {path: before.replace("    return", '    print("x")\n    return')}) == []
    )


@pytest.mark.parametrize(
    "call", ['print("No such command.")', "print(\n        path,\n    )", "log.print(path)"]
)
def test_output_that_does_not_look_like_debugging(repo: GitRepo, call: str) -> None:
    assert found(repo, {"a.py": CODE}, {"a.py": CODE.replace("    return", f"    {call}\n    return")}) == []


def test_a_rule_that_is_off_and_a_file_that_is_ignored(repo: GitRepo) -> None:
    stage(repo, {"a.py": CODE, "b.py": CODE, ".repoagentignore": "b.py\n"})
    repo.git("commit", "-qm", "before")
    stage(repo, {"a.py": CODE + "<<<<<<< HEAD\n", "b.py": CODE + "<<<<<<< HEAD\n"})
    both = answer(repo)
    assert told(list(both.findings)) == [("conflict-marker", "a.py", 6)]
    assert both.unseen == ("1 file listed in .repoagentignore",)
    assert told(list(answer(repo, conflict_marker="off").findings)) == [("parse-error", "a.py", 6)]
    assert answer(repo, conflict_marker="off", parse_error="off").findings == ()


def test_a_change_cannot_hide_itself_by_the_ignore_file_that_it_adds(repo: GitRepo) -> None:
    repo.git("switch", "-qc", "topic")
    stage(repo, {"a.py": CODE})
    repo.git("commit", "-qm", "before")
    stage(repo, {"a.py": CODE + "<<<<<<< HEAD\n", ".repoagentignore": "*.py\n"})
    repo.git("commit", "-qm", "hidden")
    rules = [one.rule for one in answer(repo, ChangeSelector("commit", "HEAD", cwd=repo.top)).findings]
    assert rules == ["conflict-marker"]


def test_the_forms_for_programs_name_the_rules(repo: GitRepo) -> None:
    stage(repo, {"a.py": CODE})
    worktree, head = open_at_head(repo.top)
    settings = load(layout(worktree), repo.top, flags={})
    change, unseen = read_change(worktree, head, ChangeSelector(cwd=repo.top))
    report = review(change, ReviewRequest(worktree, layout(worktree), settings, unseen=unseen))
    rules = json.loads(render(report, "json", top=repo.top))["rules"]
    assert {"conflict-marker", "parse-error", "secret", "removed-symbol", "debug-leftover"} <= set(rules)
    sarif = json.loads(render(report, "sarif", top=repo.top))["runs"][0]["tool"]["driver"]["rules"]
    assert {one["id"]: one["defaultConfiguration"]["level"] for one in sarif}["secret"] == "error"
