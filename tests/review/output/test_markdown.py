"""A comment: what a reader sees of any text is that text, and a suggestion is only where it can be applied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from repoagent.review.change import Change
from repoagent.review.finding import Level, Location, Report, Suggestion
from repoagent.review.output import markdown
from repoagent.review.output.formats import plain, plain_line, render
from repoagent.review.output.markdown import as_code, as_text, fenced
from tests.review.output.samples import HOSTILE, change, finding, report, texts

TOP = Path("/nowhere")
OURS = re.compile(
    r"<!-- repoagent-review -->|</details>|</?sub>|</?code>"
    r"|<details(?: open)?><summary><code>[^<>]*</code>: [\d,]+ findings?</summary>"
)
# what GitHub and GitLab make links of, once a page is made
LINKED = re.compile(
    r"(?<!\w)[@#!~^]\w|\w[#!@&]\w|(?<!\w)[$%&]\w|GH-\d|\w-\d|://|www\.\w|:\w+:|\[\w+:\d|\w+@\w"
)  # fmt: skip
PARSER = MarkdownIt("commonmark", {"breaks": True}).enable("table")


def comment(given: Report, change: Change | None = None) -> str:
    return render(given, "markdown", top=TOP, change=change).decode()


def tokens(text: str) -> list[Token]:
    return [inner for token in PARSER.parse(text) for inner in (token, *(token.children or []))]


def read(text: str) -> str:
    """What a reader sees of Markdown that is one paragraph or more."""
    kinds = {"softbreak": "\n", "hardbreak": "\n", "paragraph_close": "\n\n"}
    seen = "".join(
        kinds.get(one.type, one.content if one.type in ("text", "text_special") else "")
        for one in tokens(text)
    )
    return seen.replace("\u200b", "").replace("\xa0", " ").rstrip("\n")


@settings(max_examples=80, deadline=None)
@given(texts)
def test_text_is_read_as_it_was_written_and_is_nothing_else(text: str) -> None:
    text = plain(text)
    shown = as_text(text)
    assert {one.type for one in tokens(shown)} <= {
        "paragraph_open", "inline", "paragraph_close", "text", "text_special", "softbreak", "hardbreak",
    }  # fmt: skip
    lines = [line.rstrip() for line in text.expandtabs(4).strip("\n ").split("\n")]
    assert re.sub("\n\n+", "\n\n", read(shown)).split() == "\n".join(lines).split()
    parts = [one for one in tokens(shown) if one.type != "inline"]
    seen = "".join("\n" if one.type.endswith(("break", "close")) else one.content for one in parts)
    assert not LINKED.search(seen), seen


@settings(max_examples=60, deadline=None)
@given(texts)
def test_a_code_span_and_a_fence_hold_any_text(text: str) -> None:
    line = plain_line(text)
    if line:
        (span,) = [one for one in tokens(f"a {as_code(line)} b") if one.type == "code_inline"]
        assert span.content.strip() == line.strip()
        assert [
            one
            for one in tokens(f"| a |\n|---|\n| {as_code(line, table=True)} |")
            if one.type == "code_inline"
        ]
    (block,) = tokens(fenced(plain(text), "suggestion"))
    assert block.type == "fence" and block.info == "suggestion" and block.content == plain(text) + "\n"


def a_comment_has_only_our_own_markup(given: Report) -> None:
    """Nothing but our own elements, no link, the marker first, a block for each finding."""
    shown = comment(
        given, change(2, b"x\n", b"y\n", path=given.findings[0].location.path if given.findings else "a")
    )
    assert shown.startswith(f"{markdown.MARKER}\n") and len(shown) <= 65_536
    found = tokens(shown)
    for one in found:
        assert one.type not in {"link_open", "image", "blockquote_open", "code_block"}, one
        if one.type in ("html_block", "html_inline"):
            assert OURS.sub("", one.content).strip() == "", one.content
        if one.type == "text":
            assert not LINKED.search(one.content), one.content
    files = len({finding.location.path for finding in given.findings})
    assert shown.count("\n<details") == shown.count("\n</details>\n") == files
    names = {one.content for one in found if one.type == "code_inline"}
    assert names >= {finding.id for finding in given.findings}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    path = text.replace("\0", "").strip("/")
    one = finding(
        title=text,
        body=text,
        quote=text,
        location=Location(path, 2, 3),
        suggestion=Suggestion(Location(path, 1, 1), text),
    )
    a_comment_has_only_our_own_markup(
        Report(text, 1, [one], (), 1, [text], [text], text, by_file={path: text.encode("utf-8", "replace")})
    )


def test_a_comment_as_it_is_written() -> None:
    told = comment(report(finding(), model="m/x", unseen=("big.c: too large",)), change(4, b"x\n"))
    assert (
        told
        == f"""{markdown.MARKER}
### Review of the staged change

**1 error** in 2 files.

| level | rule | findings |
|---|---|---:|
| error | `security` | 1 |

<details open><summary><code>src/find.py</code>: 1 finding</summary>

**error**: The name is run by a shell. (line 4, `security`, `{finding().id}`)

Any name with a semicolon runs a program.

```suggestion
\treturn run(['find', name])
```

- `1a2b1a2b1a2b` Add find

</details>

- big.c: too large

<sub>model `m/x`; to dismiss one: <code>repoagent review dismiss ID</code></sub>
"""
    )


@pytest.mark.parametrize(
    ("first", "text", "info"),
    [
        (4, "\treturn 1\n", "suggestion"),
        (4, "", "suggestion"),
        (3, "\treturn 1\n", "diff"),  # line 4 is not of the change
        (4, "\treturn 1\r\n", "diff"),
        (4, "\treturn '\u202e'\n", "diff"),
        (4, "\treturn '\udcff'\n", "diff"),
    ],
)
def test_a_suggestion_can_be_applied_only_on_lines_of_the_change(first: int, text: str, info: str) -> None:
    given = report(finding(suggestion=Suggestion(Location("src/find.py", 4, 4), text)))
    (block,) = [one for one in tokens(comment(given, change(first, b"x\n"))) if one.type == "fence"]
    assert block.info == info
    if info == "diff":
        assert block.content.startswith("-\treturn os.popen('find ' + name)\n")
    else:
        assert block.content == text


def test_without_the_change_a_suggestion_is_a_diff() -> None:
    assert "```diff\n-\treturn os.popen('find ' + name)\n+\treturn run(['find', name])\n```" in comment(
        report(finding())
    )


def test_a_suggestion_for_another_file_says_which() -> None:
    one = finding(location=Location("a.py", 1, 1))
    assert "In `src/find.py`:\n\n```diff" in comment(report(one), change(4, b"x\n"))


def test_a_comment_stays_within_what_is_taken_and_says_what_is_left_out() -> None:
    many = [finding(key=str(n), body="@#:" * 900, location=Location(f"{n}.py", 1, 1)) for n in range(40)]
    told = comment(report(*many, unseen=["@" * 400] * 90))
    assert len(told.encode()) <= 65_000
    shown = told.count("<details open>")
    assert 0 < shown < 40 and f"\n{40 - shown} more findings did not fit into this comment.\n" in told
    assert "more of this kind" in told


def test_one_finding_too_long_leaves_room_for_the_next() -> None:
    long = finding(body="\x00" * 6_000, title="@" * 5_000, evidence=(), quote="", suggestion=None)
    told = comment(report(*[long] * 4, finding(location=Location("b.py"), level=Level.NOTE)))
    assert "<code>b.py</code>" in told


def test_nothing_found_is_one_sentence() -> None:
    assert (
        comment(report())
        == f"{markdown.MARKER}\n### Review of the staged change\n\nNothing was found in 2 files (0 rules; no model asked).\n\n"
    )
