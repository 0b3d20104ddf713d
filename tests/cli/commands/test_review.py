"""`repoagent review`, and its text report: in narrow and wide terminals, in pipes, with hostile text."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings

from repoagent.cli.commands.review_report import lines, show_report
from repoagent.cli.ui.table import Page
from repoagent.cli.ui.terminal import Terminal
from repoagent.display_text import display_width, sanitize
from repoagent.review.finding import Level, Location, Report
from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.review.builders import stage
from tests.review.checks.conftest import Made, made, mixed, noise, pairs
from tests.review.samples import finding, report, reports

__all__ = ["made"]


@pytest.fixture
def review(in_process: Ask) -> Ask:
    """`repoagent review ARGUMENTS` in this process, at the top or in `cwd`."""
    return partial(in_process, "review", REPOAGENT_HISTORY__BACKGROUND="false")


@pytest.fixture
def pair(made: Made) -> GitRepo:
    """`api.py` and `api.md` always change together; `api.py` alone is staged."""
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md")))
    stage(repo, {"api.py": "new\n"})
    return repo


@pytest.fixture
def review_pair(pair: GitRepo, review: Ask) -> Ask:
    return partial(review, cwd=pair.top)


def test_bad_input_is_one_sentence(repo: GitRepo, review: Ask) -> None:
    for words, sentence in (
        ("main", "no such file: main, and it is not a range (A..B)"),
        ("nope..HEAD", "no such commit: nope"),
        ("--commit nope", "no such commit: nope"),
        ("--staged --worktree", "--staged and --worktree cannot be combined"),
        ("HEAD~1..HEAD --base main", "--base and HEAD~1..HEAD cannot be combined"),
        ("--rule nope=off", "unknown rule 'nope'"),
        (
            "--rule partner-missing=loud",
            "use partner-missing=LEVEL, where LEVEL is one of off, note, warning, error",
        ),
        ("--format json -o src", "src is a folder"),
        ("--format json -o no/where", "no such folder"),
        ("--also text=x", "use FORM=FILE, where FORM is json, sarif"),
        ("-o x", "-o needs a --format other than text"),
        ("-", "is not a unified diff"),
        ("-- ../outside", "outside repository"),
        ("dismiss 0123456789ab", "there is no review yet"),
    ):
        assert sentence in review(*words.split(), stdin=b"hello\n", code=2).error
    done = review(code=0)
    assert "nothing is staged; use `git add`, or --worktree to review the work tree" in done.err
    assert "none of the named files has changed" in review("--", "a.txt").err


@pytest.mark.soak
def test_levels_and_exit_codes(pair: GitRepo, review_pair: Ask) -> None:
    (found,) = review_pair("--json").json["findings"]
    assert (found["rule"], found["level"]) == ("partner-missing", "warning")
    assert review_pair().code == 0
    assert review_pair("--fail-on", "warning").code == 1
    assert review_pair("--rule", "partner-missing=error").code == 1
    pair.git("config", "repoagent.review.rules.partner-missing", "note")
    assert review_pair("--fail-on", "warning").code == 0
    pair.write(".repoagent/config.toml", '[review]\nfail_on = "note"\nmodel = "command:touch stolen"\n')
    done = review_pair(code=1)
    assert "may not set review.model" in done.err and not (pair.top / "stolen").exists()


@pytest.mark.soak
def test_formats_pathspecs_and_a_dismissed_finding(pair: GitRepo, review_pair: Ask) -> None:
    for form in ("json", "sarif", "github", "gitlab", "markdown"):
        assert "api.md usually changes along with api.py" in review_pair("--format", form, code=0).out
    done = review_pair("--format", "sarif", "-o", "out.sarif", "--also", "json=r=1.json")
    assert (done.out, done.err) == ("", "written to out.sarif\nwritten to r=1.json\n")
    assert json.loads(pair.read("out.sarif"))["version"] == "2.1.0"
    assert json.loads(pair.read("r=1.json"))["findings"][0]["rule"] == "partner-missing"
    pair.write("deep/x.txt", "x\n")
    pair.git("add", "deep")
    deep = pair.top / "deep"
    assert "../api.py" in review_pair(cwd=deep).out
    none = "no findings in the staged change (6 rules, 1 file; no model asked)"
    assert review_pair("--", ".", cwd=deep).out.startswith(none)
    for paths in (["--", "*.py"], ["api.py"]):
        (found,) = review_pair("--json", *paths).json["findings"]
        assert found["key"] == "api.md"
    done = review_pair("dismiss", found["id"][:6], "--reason", "it is documented elsewhere")
    assert (done.code, done.err) == (0, f"dismissed: {found['title']}\n")
    assert review_pair("--json").json["findings"] == []
    assert "finding id '012' is too short" in review_pair("accept", "012").err


# The text report.


def shown(report: Report, width: int | None = None) -> list[str]:
    """The lines of the report, three days after its commit."""
    return [*lines(report, Page(width), now=1_700_000_000 + 86_400 * 3)]


def test_a_finding_with_all_its_parts() -> None:
    text = "".join(f"{line.rstrip()}\n" for line in shown(report(finding())))
    expected = f"""\
error security: The name is run by a shell.
  src/find.py:4  [{finding().id}]

   2 │
   3 │ def find(name):
 > 4 │         return os.popen('find ' + name)
   5 │
   6 │ last = 'é😀'

  Any name with a semicolon runs a program.

  1a2b1a2b1a 2023-11-14 Add find  (3 days ago)

  suggested:
  @@ -1,6 +1,6 @@
   import os

   def find(name):
  -       return os.popen('find ' + name)
  +       return run(['find', name])

   last = 'é😀'
  \\ No newline at end of file

hide one with: repoagent review dismiss ID
1 error in the staged change (0 rules, 2 files; no model asked)
"""
    assert text == expected


def test_the_last_line_counts() -> None:
    assert shown(report()) == ["no findings in the staged change (0 rules, 2 files; no model asked)"]
    topic = Report("main..topic", 1, rules=("secret", "partner-missing"))
    assert shown(topic) == ["no findings in main..topic (2 rules, 1 file; no model asked)"]
    warning = finding(level=Level.WARNING, key="w")
    several = report(
        finding(), warning, finding(level=Level.WARNING), dismissed=(warning,), dropped=2,
        model="m/x", tokens=1200, cost=0.0042,
    )  # fmt: skip
    assert shown(several)[-1] == (
        "1 error, 2 warnings in the staged change (0 rules, 2 files; m/x, 1,200 tokens, $0.0042; 1 dismissed; "
        "2 dropped as unverifiable)"
    )


@settings(max_examples=15, deadline=None)
@given(reports())
def test_any_text_is_harmless_and_fits(any_report: Report) -> None:
    for width, color in ((60, False), (100, True)):
        for line in lines(any_report, Page(width, color)):
            bare = re.sub("\x1b\\[[0-9;]*m", "", line) if color else line
            assert sanitize(bare) == bare and "\n" not in bare and "\t" not in bare
            of_a_path = any(bare.endswith(f"[{one.id}]") for one in any_report.findings)
            one_word = " " not in bare.strip()  # it is not broken
            assert display_width(bare) <= width or of_a_path or one_word
    assert not any("\x1b" in line for line in shown(any_report))


def test_which_lines_of_code_are_quoted() -> None:
    # a long line is cut with an ellipsis
    long = b"x = '" + b"y" * 300 + b"'\n\tz\xff = 1\n"
    one = finding(location=Location("a.py", 1, 1), suggestion=None)
    for width in (60, 140):
        output = shown(Report("it", 1, [one], by_file={"a.py": long}), width)
        (code,) = [line for line in output if line.startswith(" > 1")]
        assert display_width(code) == width and code.endswith("…")
        assert "   2 │         z<FF> = 1" in output
    # the first and last of many lines
    source = b"".join(b"line %d\n" % n for n in range(1, 41))
    one = finding(location=Location("a", 3, 38), suggestion=None)
    output = shown(Report("it", 1, [one], by_file={"a": source}))
    assert {" > 11 │ line 11", "     │ … 24 more lines", " > 36 │ line 36"} <= {*output}
    assert not any(line.startswith((" > 12", " > 35")) for line in output)
    # removed lines with their old numbers
    place = Location("src/find.py", 40, 41, old=True)
    one = finding(location=place, quote="def old():\n    pass\n", suggestion=None)
    output = shown(report(one))
    assert {" - 40 │ def old():", " - 41 │     pass", f"  src/find.py:40 (removed)  [{one.id}]"} <= {*output}


def test_paths_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    incomplete = report(finding(), unseen=("big.c: too large\x1b",), notes=("be patient",))
    show_report(incomplete, Terminal.open("never"), top=tmp_path)
    out, err = capsys.readouterr()
    assert f"\n  ../src/find.py:4  [{finding().id}]\n" in out
    assert err == "warning: not checked: big.c: too large^[\nbe patient\n"
    assert os.sep + str(tmp_path) not in out


def test_text_is_not_a_command_in_the_log_of_a_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    body = "::add-mask::x\n\n  ::stop-commands::y\n##[add-matcher]z"
    show_report(report(finding(body=body, title="##[error]x", suggestion=None)), Terminal.open("never"))
    out = capsys.readouterr().out
    assert not any(line.lstrip().startswith("::") for line in out.splitlines()) and "##[" not in out


def test_findings_below_the_level_of_a_hook_are_headings() -> None:
    small = finding(rule="partner-missing", location=Location("f.py"), level=Level.NOTE, body="why")
    output = [*lines(report(small, finding()), Page(None), level=Level.ERROR, hint="to see why: look")]
    assert sum(line.startswith("note partner-missing") for line in output) == 1
    assert "to see why: look" in output and "  why" not in output
    assert "  Any name with a semicolon runs a program." in output
    assert "  why" in [*lines(report(small), Page(None))]
