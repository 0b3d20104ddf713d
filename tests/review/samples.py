"""Reports to render, plain ones and hostile ones."""

from __future__ import annotations

from hypothesis import strategies as st

from repoagent.review.finding import RULES, Evidence, Finding, Level, Location, Report, Suggestion

SOURCE = (
    b"import os\n\ndef find(name):\n\treturn os.popen('find ' + name)\n\nlast = '\xc3\xa9\xf0\x9f\x98\x80'"
)
HOSTILE = (
    "</details><script>alert(1)</script> <!-- repoagent-review -->",
    "@everyone #1 GH-12 owner/repo#3 !4 ~label %milestone https://evil.example www.evil.example a@b.example :tada:",
    "``` ```` `````\n```\n# heading\n\n| a | b |\n|---|---|\n[x](javascript:alert(1)) ![y](z) [^1] &lt; &#64;me",
    "/close\n/assign @me\n    code\n\tcode\n- [ ] task\n1. one\n> quote\n---\n===",
    "::error file=x::forged\r\n::set-output name=a::b\n##[error]old\x00\x1b[31m\u202eback\u2028line\x85 %0A,:",
    "line\rwith\rreturns\x0b\x0c",
    "\udcff\udc80 bytes",
)
# text that is special in some format, and any other text
_TOKENS = [*"@#!$%~^&*[]()<>`|\\/:.-_=+\n\r\t \"'1aw", "http://", "www.a", "::", "##[", "```", "é", "\udcfe"]
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.lists(st.sampled_from(_TOKENS), max_size=20).map("".join),
)


def _is_path(path: str) -> bool:
    return all(
        not "\ud800" <= character <= "\udfff" or "\udc80" <= character <= "\udcff" for character in path
    )


paths = texts.map(lambda text: text.replace("\0", "").replace("\ud800", "").strip("/") or "a").filter(
    _is_path
)
evidence = st.builds(
    Evidence, st.text("0123456789abcdef", min_size=40, max_size=40), st.integers(0, 2**33), texts
)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    path, start, end = draw(paths), draw(st.integers(0, 12)), draw(st.integers(0, 12))
    location = Location(path, start, max(start, end), draw(st.booleans()) and start > 0)
    first = draw(st.integers(1, 7))
    suggestion = st.builds(Suggestion, st.just(Location(path, first, draw(st.integers(first, 7)))), texts)
    return Finding(
        draw(st.sampled_from(sorted(RULES))), draw(st.sampled_from(Level)), draw(texts), location, draw(texts),
        draw(texts), draw(texts), tuple(draw(st.lists(evidence, max_size=3))), draw(st.none() | suggestion),
        draw(st.none() | st.floats(0, 1)),
    )  # fmt: skip


@st.composite
def reports(draw: st.DrawFn) -> Report:
    open_findings = draw(st.lists(findings(), max_size=4))
    return Report(
        draw(texts), 3, open_findings, draw(st.lists(findings(), max_size=2)), 1,
        draw(st.lists(texts, max_size=2)), draw(st.lists(texts, max_size=2)), draw(texts),
        by_file={finding.location.path: SOURCE for finding in open_findings},
    )  # fmt: skip


def finding(**changed: object) -> Finding:
    """A finding on line 4 of `src/find.py`, with a suggestion, and with the fields in `changed`."""
    fields: dict[str, object] = {
        "rule": "security",
        "level": Level.ERROR,
        "title": "The name is run by a shell.",
        "location": Location("src/find.py", 4, 4),
        "body": "Any name with a semicolon runs a program.",
        "quote": "\treturn os.popen('find ' + name)",
        "suggestion": Suggestion(Location("src/find.py", 4, 4), "\treturn run(['find', name])\n"),
        "evidence": (Evidence("1a2b" * 10, 1_700_000_000, "Add find"),),
        **changed,
    }
    return Finding(**fields)


def report(*open_findings: Finding, **changed: object) -> Report:
    return Report("the staged change", 2, open_findings, by_file={"src/find.py": SOURCE}, **changed)


def hostile(text: str, **changed: object) -> Report:
    """A report with this text everywhere."""
    path = text.replace("\0", "").strip("/")
    result = finding(title=text, body=text, quote=text, key=text, location=Location(path, 2, 3), **changed)
    by_file = {path: text.encode("utf-8", "replace")}
    return Report(text, 1, [result], [result], 1, [text], [text], text, by_file=by_file)
