"""Near-patches made from a stream of choices: pieces of what models write, put together wrongly.

hypothesis and atheris share this grammar; they only supply `choose(n)`, which returns a number below n.
"""

from __future__ import annotations

from collections.abc import Callable

from repoagent.git.files import Content
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.paths import bad_path
from repoagent.patch.refusal import NoPatch, PatchRefused
from repoagent.patch.render import canonical_diff

Choose = Callable[[int], int]

SOURCES: dict[str, bytes] = {
    "f": b"".join(b"line %d\n" % number for number in range(12)),
    "src/app.py": b"def greet(name):\n    return 'hello ' + name\n\n\ndef main():\n    print(greet('world'))\n",
    "crlf.txt": b"one\r\ntwo\r\nthree\nfour\r\nfive",
    "odd.bin": b"\xef\xbb\xbfa\xff\xfe\x0cb\n\xe2\x80\xa8c\n- d\n+ e\n@@ -1 +1 @@\n```\n<<<<<<< SEARCH\n",
    "wide.txt": "un\ndeux\ntrois\n".encode("utf-16"),
    "empty": b"",
    "same": b"    x = 1\n\n" * 6,
}
SCOPE = ("f", "src/app.py", "crlf.txt", "odd.bin", "wide.txt", "empty", "same")
NAMES = (
    *SOURCES, "new.py", "g", "/dev/null", "../x", ".git/config", "/etc/passwd", "a/f", "\\303", "f\t2024-01-01 00:00", "`f`", '"f"',
    '"a/\\303\\251"', "f (new)", "a//f", "", " ", "x\0y", "\ud800", "\udcff", "é", "f" * 300, "..", ".git\u200c/x", "file:///f",
)  # fmt: skip
LINES = (
    *(line for data in SOURCES.values() for line in data.decode("utf-8", "surrogateescape").split("\n")[:4]),
    "", " ", "\t", "x = 1", "    x = 2", "...", "# ... existing code ...", "}", "-", "+", "--- f", "+++ f", "@@", "```", "~~~~", "=======",
    ">>>>>>> REPLACE", "<<<<<<< SEARCH", "&lt;a&gt;", "\u201cq\u201d", "line\u00a01", "\\ No newline at end of file", "*** End of File",
    "\0", "\r", "\x0c", "\u2028", "\ufeff", "\ud800", "\udcff", "y" * 2000, "3 | line 3", "> line 3", "1. line", "line 3 ", "LINE 3",
)  # fmt: skip
HEADS = (
    "@@ -1,3 +1,3 @@", "@@", "@@ ... @@", "@@ -0,0 +1 @@", "@@ -99999999999999999999,9 +1 @@ def x", "@@ -3 +3 @@ line 2", "@@ def main():",
    "@@@ -1 -1 +1 @@@", "@@ -1,-1 +a @@", "***************", "*** 1,3 ****", "3c3", "8,9d7", "@@ -12 +12 @@", "@@ -",
)  # fmt: skip
EXTRAS = (
    "diff --git a/{0} b/{1}", "index 000..111 100644", "new file mode 100644", "new file mode 120000", "deleted file mode 100644",
    "old mode 100644", "new mode 100755", "rename from {0}", "rename to {1}", "copy from {0}", "copy to {1}", "similarity index 90%",
    "GIT binary patch", "literal 5", "Binary files a/{0} and b/{1} differ", "Index: {0}", "=" * 67, "Property changes on: {0}",
    "--- {0}", "+++ {1}", "--- a/{0}", "+++ b/{1}", "*** Begin Patch", "*** End Patch", "*** Update File: {0}", "*** Add File: {1}",
    "*** Delete File: {0}", "*** Move to: {1}", "<edit>", "</edit>", "From 0123456789 Mon Sep 17 00:00:00 2001", "-- ", "2.39.5",
)  # fmt: skip
FENCES = (
    "```diff", "```", "````", "~~~", "```python {0}", "  ```diff", "> ```diff", "- ```diff", "```text {1}",
    "```{0}", "`" * 40,
)  # fmt: skip
ENDS = ("\n", "\n", "\n", "\n", "\r\n", "\r", "", "\u2028", "\n\n")


def near_patch(choose: Choose, most: int = 40) -> str:
    """Return an answer of at most `most` pieces, mostly in an order that makes sense."""
    out: list[str] = []
    one, other = NAMES[choose(len(NAMES))], NAMES[choose(len(NAMES))]
    other = one if choose(4) else other
    state = choose(4)
    for _ in range(choose(most) + 1):
        kind = choose(16)
        if kind == 0:
            text = FENCES[choose(len(FENCES))].format(one, other)
        elif kind == 1:
            text = EXTRAS[choose(len(EXTRAS))].format(one, other)
        elif kind == 2 and state == 0:
            text, state = f"--- a/{one}\n+++ b/{other}\n{HEADS[choose(len(HEADS))]}", 1
        elif kind == 2 and state == 2:
            text = f"{one}\n<<<<<<< SEARCH\n{LINES[choose(len(LINES))]}\n=======\n{LINES[choose(len(LINES))]}\n>>>>>>> REPLACE"
        elif kind == 3:
            text = HEADS[choose(len(HEADS))]
        elif kind == 4:
            one = other = NAMES[choose(len(NAMES))]
            text = one
        elif kind == 5:
            text = "".join(chr(choose(0x300)) for _ in range(choose(6)))
        else:
            text = " -+ -+ \\>|"[choose(10)] + LINES[choose(len(LINES))]
        out.append(text + ENDS[choose(len(ENDS))])
    return "".join(out)


def check(answer: str, *, strict: bool = False) -> str:
    """Assert what must be true of any answer; return "applied" or the name of the refusal."""
    end = 0
    for span in patch_spans(answer):
        assert end <= span.start < span.end <= len(answer)
        end = span.end
    sources = {path: Content(data) for path, data in SOURCES.items()}
    try:
        applied = apply_answer(
            answer, sources, scope=SCOPE, may_create=lambda path: path in {"new.py", "g"}, strict=strict
        )
    except (PatchRefused, NoPatch) as error:
        assert str(error)
        return type(error).__name__
    for change in applied.changes:
        assert change.old_path is None or change.old_path in SCOPE
        assert change.path is None or change.path in {*SCOPE, "new.py", "g"}
        assert bad_path(change.name, known=True) is None
        assert change.mode in {None, "100644", "100755"}
        if change.old_path is not None:
            assert change.before == SOURCES[change.old_path]
        _untouched(change.before, change.after)
    assert canonical_diff(applied.changes) or not applied.changes
    return "applied"


def _untouched(before: bytes | None, after: bytes | None) -> None:
    """Assert that no byte-order mark was added or removed."""
    if before and after:
        assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
        assert after.startswith(b"\xff\xfe") == before.startswith(b"\xff\xfe")
