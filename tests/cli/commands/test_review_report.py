"""The text report of a review: in narrow and wide terminals, in pipes, with hostile text."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings

from repoagent.cli.commands.review_report import Brief, show
from repoagent.cli.commands.review_report import lines as lines_at
from repoagent.cli.ui.table import Page
from repoagent.cli.ui.terminal import Terminal
from repoagent.display_text import clean, display_width
from repoagent.review.finding import Level, Location, Report
from tests.review.samples import finding, report, reports

NOW = 1_700_000_000 + 86_400 * 3
PAINT = re.compile("\x1b\\[[0-9;]*m")
lines = partial(lines_at, now=NOW)


def page(width: int | None = None, *, color: bool = False) -> Page:
    return Page(width, color)


def text(given: Report, how: Page | None = None) -> str:
    return "".join(f"{line}\n" for line in lines(given, how or page()))


def test_a_finding_with_all_its_parts() -> None:
    shown = "".join(f"{line.rstrip()}\n" for line in lines(report(finding()), page()))
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
    assert shown == expected


def test_the_last_line_counts() -> None:
    assert text(report()) == "no findings in the staged change (0 rules, 2 files; no model asked)\n"
    topic = Report("main..topic", 1, rules=("secret", "partner-missing"))
    assert text(topic) == "no findings in main..topic (2 rules, 1 file; no model asked)\n"
    warning = finding(level=Level.WARNING, key="w")
    given = report(
        finding(), warning, finding(level=Level.WARNING), dismissed=(warning,), dropped=2,
        model="m/x", tokens=1200, cost=0.0042,
    )  # fmt: skip
    assert text(given).splitlines()[-1] == (
        "1 error, 2 warnings in the staged change (0 rules, 2 files; m/x, 1,200 tokens, $0.0042; 1 dismissed; "
        "2 dropped as unverifiable)"
    )


@settings(max_examples=15, deadline=None)
@given(reports())
def test_any_text_is_harmless_and_fits(given: Report) -> None:
    for width, color in ((60, False), (100, True)):
        for line in lines(given, page(width, color=color)):
            bare = PAINT.sub("", line) if color else line
            assert clean(bare) == bare and "\n" not in bare and "\t" not in bare
            of_a_path = any(bare.endswith(f"[{one.id}]") for one in given.findings)
            one_word = bare[:2] == "  " and " " not in bare[2:]  # of a model's Markdown: it is not broken
            assert display_width(bare) <= width or of_a_path or one_word
    assert "\x1b" not in text(given)


def test_which_lines_of_code_are_quoted() -> None:
    # a long line is cut with an ellipsis
    long = b"x = '" + b"y" * 300 + b"'\n\tz\xff = 1\n"
    one = finding(location=Location("a.py", 1, 1), suggestion=None)
    for width in (60, 140):
        shown = text(Report("it", 1, [one], by_file={"a.py": long}), page(width)).splitlines()
        (code,) = [line for line in shown if line.startswith(" > 1")]
        assert display_width(code) == width and code.endswith("…")
        assert "   2 │         z<FF> = 1" in shown
    # the first and last of many lines
    source = b"".join(b"line %d\n" % n for n in range(1, 41))
    one = finding(location=Location("a", 3, 38), suggestion=None)
    shown = text(Report("it", 1, [one], by_file={"a": source})).splitlines()
    assert " > 11 │ line 11" in shown and "     │ … 24 more lines" in shown and " > 36 │ line 36" in shown
    assert not any(line.startswith((" > 12", " > 35")) for line in shown)
    # removed lines with their old numbers
    place = Location("src/find.py", 40, 41, old=True)
    one = finding(location=place, quote="def old():\n    pass\n", suggestion=None)
    shown = text(report(one)).splitlines()
    assert " - 40 │ def old():" in shown and " - 41 │     pass" in shown
    assert f"  src/find.py:40 (removed)  [{one.id}]" in shown


def test_paths_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    given = report(finding(), unseen=("big.c: too large\x1b",), notes=("be patient",))
    show(given, Terminal.open("never"), top=tmp_path)
    out, err = capsys.readouterr()
    assert f"\n  ../src/find.py:4  [{finding().id}]\n" in out
    assert err == "warning: not checked: big.c: too large^[\nbe patient\n"
    assert os.sep + str(tmp_path) not in out


def test_text_is_not_a_command_in_the_log_of_a_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    body = "::add-mask::x\n\n  ::stop-commands::y\n##[add-matcher]z"
    show(report(finding(body=body, title="##[error]x", suggestion=None)), Terminal.open("never"))
    out = capsys.readouterr().out
    assert not any(line.lstrip().startswith("::") for line in out.splitlines()) and "##[" not in out


def test_many_small_findings_show_a_few_headings() -> None:
    many = [
        finding(rule="partner-missing", level=Level.NOTE, location=Location(f"f{number}.py"))
        for number in range(8)
    ]
    given = report(*many, finding(rule="correctness", level=Level.NOTE))
    output = [*lines(given, page(), Brief(Level.ERROR, "to see why: look"))]
    assert sum(line.startswith("note partner-missing") for line in output) == 5
    assert "and 3 more" in output and "to see why: look" in output
    assert "  Any name with a semicolon runs a program." in output  # findings of a model are shown in full
    assert "and 3 more" not in [*lines(given, page(), Brief(Level.NOTE, "to see why: look"))]
