"""A comment: any text is rendered unchanged, and suggestions are shown as diffs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from repoagent.review import report_markdown as markdown
from repoagent.review.finding import Finding, Level, Location, Report, Suggestion
from repoagent.review.report_formats import plain, plain_line, render_report
from repoagent.review.report_markdown import as_code, as_text, fenced
from tests.review.samples import HOSTILE, finding, hostile, report, texts

OURS = re.compile(
    r"<!-- repoagent-review -->|</details>|</?sub>|</?code>"
    r"|<details(?: open)?><summary><code>[^<>]*</code>: [\d,]+ findings?</summary>"
)
# text that GitHub and GitLab turn into links in the rendered page
LINKED = re.compile(
    r"(?<!\w)[@#!~^]\w|\w[#!@&]\w|(?<!\w)[$%&]\w|GH-\d|\w-\d|://|www\.\w|:\w+:|\[\w+:\d|\w+@\w"
)
PARSER = MarkdownIt("commonmark", {"breaks": True}).enable("table")
BREAKS = {"softbreak": "\n", "hardbreak": "\n", "paragraph_close": "\n\n"}
TEXT_TOKENS = {"paragraph_open", "inline", "text", "text_special", *BREAKS}


def comment(subject: Report) -> str:
    return render_report(subject, "markdown").decode()


def tokens(text: str, kind: str = "") -> list[Token]:
    parsed = [inner for token in PARSER.parse(text) for inner in (token, *(token.children or []))]
    return [token for token in parsed if kind in ("", token.type)]


@settings(max_examples=80, deadline=None)
@given(texts)
def test_text_is_rendered_unchanged_and_as_text_only(text: str) -> None:
    text = plain(text)
    parsed = [token for token in tokens(as_text(text)) if token.type != "inline"]
    assert {token.type for token in parsed} <= TEXT_TOKENS
    visible = "".join(BREAKS.get(token.type, token.content) for token in parsed)
    visible = visible.replace("\u200b", "").replace("\xa0", " ").rstrip("\n")
    lines = [line.rstrip() for line in text.expandtabs(4).strip("\n ").split("\n")]
    assert re.sub("\n\n+", "\n\n", visible).split() == "\n".join(lines).split()
    linked = "".join("\n" if token.type.endswith(("break", "close")) else token.content for token in parsed)
    assert not LINKED.search(linked), linked


@settings(max_examples=60, deadline=None)
@given(texts)
def test_code_spans_and_fences_can_contain_any_text(text: str) -> None:
    line = plain_line(text)
    if line:
        (span,) = tokens(f"a {as_code(line)} b", "code_inline")
        assert span.content.strip() == line.strip()
        assert tokens(f"| a |\n|---|\n| {as_code(line, table=True)} |", "code_inline")
    (block,) = tokens(fenced(plain(text), "suggestion"))
    assert (block.type, block.info, block.content) == ("fence", "suggestion", plain(text) + "\n")


def check_comment(subject: Report) -> None:
    """Only our elements, no link, the marker first, one block for each file."""
    text = comment(subject)
    assert text.startswith(f"{markdown.MARKER}\n") and len(text) <= 65_536
    for token in tokens(text):
        assert token.type not in {"link_open", "image", "blockquote_open", "code_block"}, token
        if token.type in ("html_block", "html_inline"):
            assert OURS.sub("", token.content).strip() == "", token.content
        if token.type == "text":
            assert not LINKED.search(token.content), token.content
    files = len({finding.location.path for finding in subject.findings})
    assert text.count("\n<details") == text.count("\n</details>\n") == files
    names = {token.content for token in tokens(text, "code_inline")}
    assert names >= {finding.id for finding in subject.findings}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    path = text.replace("\0", "").strip("/")
    check_comment(hostile(text, suggestion=Suggestion(Location(path, 1, 1), text)))


def test_the_text_of_a_comment() -> None:
    text = comment(report(finding(), model="m/x", unseen=("big.c: too large",)))
    assert (
        text
        == f"""{markdown.MARKER}
### Review of the staged change

**1 error** in 2 files.

| level | rule | findings |
|---|---|---:|
| error | `security` | 1 |

<details open><summary><code>src/find.py</code>: 1 finding</summary>

**error**: The name is run by a shell. (line 4, `security`, `{finding().id}`)

Any name with a semicolon runs a program.

```diff
-\treturn os.popen('find ' + name)
+\treturn run(['find', name])
```

- `1a2b1a2b1a2b` Add find

</details>

- not checked: big.c: too large

<sub>model `m/x`; to dismiss a finding: <code>repoagent review dismiss ID</code></sub>
"""
    )
    nothing = "No findings in 2 files (0 rules; no model asked)."
    assert comment(report()) == f"{markdown.MARKER}\n### Review of the staged change\n\n{nothing}\n\n"
    of_another_file = comment(report(finding(location=Location("a.py", 1, 1))))
    assert "In `src/find.py`:\n\n```diff" in of_another_file


@pytest.mark.parametrize(
    "many",
    [
        [finding(key=str(n), body="@#:" * 900, location=Location(f"{n}.py", 1, 1)) for n in range(40)],
        [finding(body="\x00" * 6_000, title="@" * 5_000, evidence=(), quote="", suggestion=None)] * 4,
    ],
)
def test_a_comment_stays_within_the_limit_and_counts_omitted_findings(many: list[Finding]) -> None:
    short = finding(location=Location("b.py"), level=Level.NOTE)
    text = comment(report(*many, short, unseen=["@" * 400] * 90))
    assert len(text.encode()) <= 65_000
    omitted = re.search(r"\n([\d]+) more findings? did not fit into this comment.\n", text)
    shown = text.count("\n**error**: ") + text.count("\n**note**: ")
    assert omitted is not None and shown > 0 and shown + int(omitted[1]) == len(many) + 1
    assert "more note" in text and "<code>b.py</code>" in text  # a short one after the long ones
