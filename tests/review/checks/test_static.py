"""The static rules: what each of them reports, and when it reports nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import pytest

from repoagent.git.worktree import layout_of
from repoagent.review.checks import module_names
from repoagent.review.checks.module_names import NameUse
from repoagent.review.finding import Finding
from repoagent.review.report_formats import FORMATS, render_report
from repoagent.review.review import ReviewSession, review
from tests.conftest import GitRepo
from tests.review.builders import TOKEN, Files, brief, read, settings_of, stage, static


def findings(repo: GitRepo, before: Files, after: Files) -> list[Finding]:
    """The findings in the staged change from one set of files to another."""
    stage(repo, before, commit="before")
    stage(repo, after)
    return list(static(repo).findings)


CODE = "import os\n\n\ndef size(path):\n    return os.stat(path).st_size\n"
CONFLICT = "<<<<<<< HEAD\nold\n=======\nnew\n>>>>>>> topic\n"
C_CODE = "int a(void)\n{\n\treturn 1;\n}\n"
MANY = "".join(f"int f{n}(void)\n{{\n\treturn {n};\n}}\n\n" for n in range(300))
URL = '"""\nURL("https://jo:a%20secret@example.org")\n"""\n'


def with_line(line: str, code: str = CODE) -> str:
    return code.replace("    return", f"    {line}\n    return")


ONE_FILE = [
    ("a.py", CODE, CODE + "<<<<<<< HEAD\n", "conflict-marker", 6),
    ("a.c", "int a;\n", "int a;\n<<<<<<< HEAD\nint b;\n", "conflict-marker", 2),
    ("a.md", "Title\n\nText.\n", "Title\n" + CONFLICT, "conflict-marker", 2),
    ("a.py", '"""T.\n\n~~~~\n"""\n', f'"""T.\n{CONFLICT}\n~~~~\n"""\n', "conflict-marker", 2),
    ("a.unknown", "x\n", "x\n" + CONFLICT, "conflict-marker", 2),
    ("a.rst", "Title\n", "Title\n=======\n\nText\n=======\n", "", 0),
    ("a.md", "Text\n", f"Text\n```\n{CONFLICT}```\n", "", 0),
    ("a.sh", "cat\n", "cat <<EOF\n<<<<<<< HEAD\nEOF\n", "", 0),
    ("tests/test_a.py", CODE, f'{CODE}TEXT = """\\\n{CONFLICT}"""\n', "", 0),
    ("a.md", "Text\n" + CONFLICT, "Text again\n" + CONFLICT + CONFLICT, "", 0),
    ("a.py", CODE, CODE.replace("(path):", "(path:"), "parse-error", 4),
    ("b.js", "function a() {\n  return 1;\n}\n", "function a( {\n  return 1;\n}\n", "parse-error", 1),
    ("c.c", C_CODE, C_CODE.replace("1;", "(1;"), "parse-error", 3),
    ("a.c", MANY, MANY.replace("return 250;", "return 250);"), "parse-error", 250 * 5 + 3),
    ("a.py", "def (:\n", "def (:\ndef (:\n", "", 0),  # it did not parse before
    ("help.py", CODE, f'{CODE}TOKEN = "{TOKEN}"\n', "secret", 6),
    ("tests/test_a.py", CODE, f'{CODE}TOKEN = "{TOKEN}"\n', "", 0),
    ("a.py", CODE, CODE + URL, "", 0),  # the password says that it is an example
    ("a.py", f'T = "{TOKEN}"\n', f'# moved\nTOKEN = "{TOKEN}"\n', "", 0),
    ("a.py", CODE, with_line("breakpoint()"), "debug-leftover", 5),
    ("a.py", CODE, with_line("import pdb; pdb.set_trace()"), "debug-leftover", 5),
    ("a.py", CODE, with_line('print("here")'), "debug-leftover", 5),
    ("a.py", CODE, with_line("print(path)"), "debug-leftover", 5),
    ("a.py", CODE, with_line('print(f"{path=}")'), "debug-leftover", 5),
    ("a.py", CODE, with_line("x = 1  # TODO REMOVE"), "debug-leftover", 5),
    # files that print normally
    ("a.py", CODE + 'print("done")\n', with_line("print(path)", CODE + 'print("done")\n'), "", 0),
    ("scripts/a.py", CODE, with_line("print(path)"), "", 0),
    ("tests/test_a.py", CODE, with_line("print(path)"), "", 0),
    ("a.py", "#!/usr/bin/env python\n" + CODE, with_line("print(path)", "#!/usr/bin/env python\n" + CODE), "", 0),
    # output that does not look like debugging
    ("a.py", CODE, with_line('print("No such command.")'), "", 0),
    ("a.py", CODE, with_line("print(\n        path,\n    )"), "", 0),
    ("a.py", CODE, with_line("log.print(path)"), "", 0),
]  # fmt: skip


def test_rules_of_one_file(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of `ONE_FILE` is in a folder of its own."""
    monkeypatch.setattr("repoagent.review.checks.run.STATIC_SECONDS", 60.0)
    rows = [(f"{number}/{path}", *row) for number, (path, *row) in enumerate(ONE_FILE)]
    before, after = ({row[0]: str(row[side]) for row in rows} for side in (1, 2))
    result = findings(repo, before, after)
    assert {*brief(result)} == {(rule, path, line) for path, _, _, rule, line in rows if rule}
    assert len(result) == len({*brief(result)})
    titles = [finding.title for finding in result if finding.rule == "parse-error"]
    assert any(re.match(r"\d+/a.py no longer parses as python: ", title) for title in titles)


def test_a_secret_is_never_shown(repo: GitRepo) -> None:
    stage(repo, {"help.py": CODE}, commit="before")
    stage(repo, {"help.py": f'{CODE}TOKEN = "{TOKEN}"\n'})
    worktree, settings = settings_of(repo, {})
    report = review(read(repo.top), ReviewSession(worktree, layout_of(worktree), settings))
    assert report.findings[0].quote == 'TOKEN = "***"' and b'TOKEN = "***"' in report.by_file["help.py"]
    for form in FORMATS:
        assert TOKEN[:12].encode() not in render_report(report, form)
    assert TOKEN[:12] not in repr(report)


COOKIES = "def merge_cookies(a, b):\n    return a\n\n\ndef create(a):\n    return a\n"
RENAMED = {"src/pkg/cookies.py": COOKIES.replace("merge_cookies", "merge")}


USERS = [
    ("from .cookies import create, merge_cookies\n", True),
    ("from pkg.cookies import merge_cookies as merge\n", True),
    ("from . import cookies\n\n\ndef f(a):\n    return cookies.merge_cookies(a, a)\n", True),
    ("import pkg.cookies as c\n\nX = c.merge_cookies\n", True),
    ("if True:\n    from .cookies import (\n        merge_cookies,\n    )\n", True),
    ("from other.cookies import merge_cookies\n", False),
    ("try:\n    from .cookies import merge_cookies\nexcept ImportError:\n    merge_cookies = None\n", False),
    ("try:\n    from .cookies import merge_cookies\nexcept* ImportError:\n    merge_cookies = None\n", False),
    ("def f(cookies):\n    return cookies.merge_cookies()\n", False),
    ("# from .cookies import merge_cookies\n", False),
    ('TEXT = "merge_cookies"\n', False),
]  # fmt: skip


def in_packages(rows: Sequence[Files]) -> Files:
    """The files of each row, with a number after each `pkg` and `merge_cookies`."""

    def numbered(text: str, number: int) -> str:
        return re.sub("pkg|merge_cookies", rf"\g<0>{number}", text)

    return {
        numbered(path, number): text and numbered(text, number)
        for number, files in enumerate(rows)
        for path, text in files.items()
    }


def test_uses_of_a_renamed_function_in_another_file(repo: GitRepo) -> None:
    before = in_packages([{"src/pkg/cookies.py": COOKIES, "src/pkg/user.py": user} for user, _ in USERS])
    result = findings(repo, before, in_packages([RENAMED] * len(USERS)))
    expected = [number for number, (_, is_use) in enumerate(USERS) if is_use]
    assert brief(result) == [("removed-symbol", f"src/pkg{number}/cookies.py", 1) for number in expected]
    for finding, number in zip(result, expected, strict=True):
        name = f"merge_cookies{number}"
        assert finding.location.old and finding.quote == f"def {name}(a, b):" and name in finding.body
        assert finding.title.startswith(f"{name} was removed, but src/pkg{number}/user.py:")


def test_a_symbol_that_moved_or_whose_users_changed_too(repo: GitRepo) -> None:
    before = {"src/pkg/cookies.py": COOKIES, "src/pkg/user.py": "from .cookies import merge_cookies\n"}
    after: list[Files] = [
        {"src/pkg/cookies.py": "from .jar import merge_cookies\n", "src/pkg/jar.py": COOKIES},
        {"src/pkg/cookies.py": COOKIES.replace("def merge_cookies(a, b)", "def __getattr__(name)")},
        {"src/pkg/cookies.py": "from .jar import *\n", "src/pkg/jar.py": "x = 1\n"},
        {"src/pkg/cookies.py": "", "src/pkg/jar.py": COOKIES},
        {"src/pkg/cookies.py": "", "src/pkg/user.py": "X = 1\n"},
        {"src/pkg/cookies.py": None, "src/pkg/user.py": None},
    ]
    assert findings(repo, in_packages([before] * len(after)), in_packages(after)) == []


HELPER = "def helper():\n    return 1\n\n\ndef f():\n    return helper()\n"


def test_the_most_used_name_comes_first_and_the_others_are_counted(repo: GitRepo) -> None:
    module = "ONE = 1\n\n\ndef two():\n    return 2\n"
    before = {"a.py": module, "b.py": "from a import two\n", "c.py": "from a import ONE, two\n"}
    (finding,) = findings(repo, before, {"a.py": "\n"})
    assert finding.title == "two was removed, but b.py:1 still imports it"
    assert "b.py:1: from a import two" in finding.body and "c.py:1" in finding.body
    assert "The same applies to 1 more name in this file: ONE." in finding.body
    repo.git("reset", "-q", "--hard")
    (finding,) = findings(repo, {"a.py": HELPER}, {"a.py": HELPER.replace("def helper", "def helped")})
    assert finding.title == "helper was removed, but a.py:6 still uses it"


OTHER_LANGUAGES = [
    ("lib/a.js", "exports.parse = function () {};\nexports.b = 1;\n", "exports.b = 1;\n",
     "lib/b.js", "const { parse: c } = require('./c');\nconst { parse } = require('./a');\nparse(c);\n"),
    ("lib/a.js", "exports.parse = function () {};\n", "\n",
     "test/b.js", "var a = require('../lib/a.js');\na.parse();\n"),
    ("lib/a.ts", "export function parse() {}\nexport const b = 1;\n", "export const b = 1;\n",
     "lib/b.ts", "import { b, parse as p } from './a';\np(b);\n"),
    ("p/a.go", "package p\n\nfunc parseIt() int { return 1 }\n", "package p\n",
     "p/b.go", "package p\n\nfunc b() int { return parseIt() }\n"),
    ("a.c", "int parse_it(void)\n{\n\treturn 1;\n}\n", "int other;\n",
     "b.c", "int parse_it(void);\n\nint b(void)\n{\n\treturn parse_it();\n}\n"),
]  # fmt: skip


def test_other_languages(repo: GitRepo) -> None:
    before, after = {}, {}
    for number, (path, old, new, other, user) in enumerate(OTHER_LANGUAGES):
        before |= {f"{number}/{path}": old, f"{number}/{other}": user}
        after[f"{number}/{path}"] = new
    result = findings(repo, before, after)
    assert [(finding.rule, finding.location.path) for finding in result] == [
        ("removed-symbol", path) for path in after
    ]
    assert "lib/b.js:2 still imports it" in result[0].title


def test_a_fixed_but_unstaged_caller_still_counts(repo: GitRepo) -> None:
    stage(repo, {"cookies.py": COOKIES, "user.py": "from cookies import merge_cookies\n"}, commit="before")
    repo.write("user.py", "from cookies import merge\n")
    repo.write("cookies.py", RENAMED["src/pkg/cookies.py"])
    repo.git("add", "cookies.py")
    assert [finding.key for finding in static(repo).findings] == ["merge_cookies"]
    assert static(repo, "worktree").findings == ()
    repo.git("commit", "-qm", "half")
    assert [finding.key for finding in static(repo, "commit", "HEAD").findings] == ["merge_cookies"]


def test_disabled_rules_and_ignored_files(repo: GitRepo) -> None:
    stage(repo, {"a.py": CODE, "b.py": CODE, ".repoagentignore": "b.py\n"}, commit="before")
    stage(repo, {"a.py": CODE + "<<<<<<< HEAD\n", "b.py": CODE + "<<<<<<< HEAD\n"})
    result = static(repo)
    assert brief(result.findings) == [("conflict-marker", "a.py", 6)]
    assert result.unseen == ("1 file listed in .repoagentignore",)
    worktree, settings = settings_of(repo, {})
    report = review(
        read(repo.top), ReviewSession(worktree, layout_of(worktree), settings), ["c.py (a conflict)"]
    )
    assert report.unseen == ("c.py (a conflict)", *result.unseen)
    assert (report.model, report.tokens, report.cost) == ("", 0, None)
    assert brief(static(repo, conflict_marker="off").findings) == [("parse-error", "a.py", 6)]
    assert static(repo, conflict_marker="off", parse_error="off").findings == ()


def test_a_change_cannot_hide_itself_with_an_ignore_file(repo: GitRepo) -> None:
    repo.git("switch", "-qc", "topic")
    stage(repo, {"a.py": CODE}, commit="before")
    stage(repo, {"a.py": CODE + "<<<<<<< HEAD\n", ".repoagentignore": "*.py\n"}, commit="hidden")
    assert [finding.rule for finding in static(repo, "commit", "HEAD").findings] == ["conflict-marker"]


NAMES = {f"gone{number}" for number in range(50)}
DEEP = b"import m\nif m.gone0: pass\n" + b"elif m.gone0: pass\n" * 2_500


def test_long_chains_of_elif_and_of_attributes_are_parsed() -> None:
    names = module_names.python_names(b"a = 1\n" + DEEP + b"else: b = 1\n")
    assert {"a", "b", "m"} == names.keys()
    assert len(module_names.python_uses("a.py", DEEP, "m.py", NAMES)) == 2_501
    chain = b"import m\nx = m.gone0" + b".b" * 900 + b"\n"
    assert module_names.python_uses("a.py", chain, "m.py", NAMES) == [NameUse("gone0", 2, imported=False)]


@pytest.mark.parametrize(
    "text",
    [
        b"\n" * 200_000 + b"x",
        b"import {\n" * 100_000,
        b"export {\n" * 100_000,
        b"exports = {" * 100_000,
        b"exports.a = 1\n" * 100_000,
        b"".join(b"const a%d = require('./m')\n" % number for number in range(50_000)),
        b"const a = require('./m')\n" + b"a.gone0 " * 50_000,
    ],
)
@pytest.mark.parametrize(
    "read",
    [module_names.script_names, lambda text: module_names.script_uses("a.js", text, "m.js", NAMES)],
    ids=["names", "uses"],
)
def test_a_large_script_is_read_in_time(read: Callable[[bytes], object], text: bytes) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 5


def test_a_line_of_generated_code_is_not_a_debugging_call(repo: GitRepo) -> None:
    began = time.process_time()
    line = "x = '" + "print(console.log(" * 40_000 + "'\n"
    assert findings(repo, {"a.py": "x = 1\n", "b.js": "x = 1\n"}, {"a.py": line, "b.js": line}) == []
    assert time.process_time() - began < 10
