"""The parser on any text: no crash, spans in order, linear time; and round trips."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repoagent.patch.parse.answer import parse_answer
from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.parse.retractions import offers_choice, revision_of
from repoagent.patch.refusal import READING, PatchError, PatchRefused
from tests.patch.helpers import APP, after, each, fenced, reasons, refused, run, unified
from tests.patch.test_wrapping import numbered

_TEXTS = r"""
```diff|```|````|~~~|   ```|- ```diff|1. ```|```python f.py|text ```|--- a/f|+++ b/f|+++ /dev/null|@@ -1,2 +1,2 @@|@@
@@ x|@@@ -1 -1 +1 @@@|@@ line 3 @@| a|-a|+b|prose|-- |2.39.5|\ No newline at end of file|> |>|<<<<<<< SEARCH|=======
>>>>>>> REPLACE|------- SEARCH|+++++++ REPLACE|<<<<<<< HEAD|*** Begin Patch|*** End Patch|*** Update File: f
*** Add File: g|*** Move to: g|*** End of File|diff --git a/f b/f|diff -u f f|diff --cc f|Index: f|=====
rename from f|similarity index 9%|new file mode 100644|deleted file mode 100644|GIT binary patch
Binary files a and b differ|cat > f <<'EOF'|EOF|apply_patch <<'EOF'|12 ¦ -a|12 ¦ +b|13 ¦  c|  1   2  a|-1: a
From 0123456789012345678901234567890123456789 M|commit 0123456789012345678901234567890123456789"""
_PIECES = [text.replace("¦", "|") for text in re.split(r"[|\n]", _TEXTS)]
_ODD = [
    "12\t-a", "-b\r", "\t", "\x1b[31m-a\x1b[m", "\u200b--- a/f", "\ufeff@@", "\u2028", "\x0c", "\x85", "\0",
]  # fmt: skip
_LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "", "", "> ", ">", "    ", "\t", "  1 | ", "- "]),
        st.sampled_from(_PIECES + _ODD),
    ).map("".join),
    max_size=25,
)


@pytest.mark.soak
@settings(max_examples=400, deadline=None)
@given(_LINES.map("\n".join) | st.text(max_size=300), st.booleans())
@example("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE\n> --- a/f\n> +++ b/f\n> @@\n> -a\n> +b", False)
def test_any_text_has_spans_in_order_and_never_crashes(answer: str, loose: bool) -> None:
    end = 0
    for span in patch_spans(answer, loose=loose):
        assert end <= span.start < span.end <= len(answer)
        end = span.end
    try:
        patches = parse_answer(answer, loose=loose)
    except PatchError as error:
        assert error.text
        return
    assert all(hunk.lines for patch in patches for hunk in patch.hunks)


_WORDS = st.lists(
    st.text(
        st.characters(
            codec="utf-8", exclude_characters="\n\r\0\ufeff\x1b", exclude_categories=["Cs", "Cf", "Mn"]
        ),
        min_size=1,
        max_size=12,
    ).map(lambda text: f"{text.strip()}|" if text.strip() else "blank|"),
    min_size=4,
    max_size=16,
    unique=True,
)


_WRAPS: dict[str, Callable[[str], str]] = {
    "bare": lambda text: text,
    "fenced": lambda text: f"````diff\n{text}````\n",
    "quoted": lambda text: each("> ", text),
    "quoted tight": lambda text: each(">", text),
    "quoted fence": lambda text: each("> ", f"````diff\n{text}````\n"),
    "indented": lambda text: each("    ", text),
    "list": lambda text: "1. So:\n\n" + each("   ", f"````diff\n{text}````\n"),
    "numbered": lambda text: f"````\n{numbered('{:>3} | {}', text)}````\n",
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "prose": lambda text: f"Here it is:\n\n{text}\nThat is all.\n",
}


@pytest.mark.soak
@settings(max_examples=30, deadline=None)
@given(_WORDS, st.data())
@pytest.mark.parametrize("wrap", list(_WRAPS))
def test_a_wrapped_diff_results_in_the_second_text(wrap: str, words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    texts = st.sampled_from(["new one|", "new two|", "-- new|", "++ new|", "@@ new|", "> new|"])
    new = data.draw(st.lists(texts, max_size=2))
    changed = [*words[:at], *new, *words[at + data.draw(st.integers(0, 1)) :]]
    if changed == words:
        return
    before, result = ([f"{line}\n" for line in side] for side in (words, changed))
    answer = _WRAPS[wrap](unified(before, result, "f"))
    assert after(answer, {"f": "".join(before).encode()}) == "".join(result).encode()


JUNK = {
    "random": "lorem - ipsum + dolor @@ sit `amet` > elit\n",
    "@@": "@@\n",
    "@@ with numbers": "@@ -1,3 +1,4 @@\n",
    "+": "+\n",
    "backticks": "`" * 1000,
    "fences": "```\n",
    "fences with a language": "```diff\n",
    "SEARCH": "<<<<<<< SEARCH\n",
    "HEAD": "<<<<<<< HEAD\n",
    "dividers": "=======\n",
    "quotations": "> > > @@ -1 +1 @@\n",
    "deep quotations": ">" * 500 + "@@\n",
    "headers": "--- a\n+++ b\n",
    "envelopes": "*** Begin Patch\n",
    "numbered": "12 | @@\n",
    "indented": "    @@\n",
    "spaces": " " * 5000 + "x\n",
    "a fence after spaces": "```" + " " * 5000 + "`\n",
    "mails": "commit 0123456789012345678901234567890123456789\n",
    "names": "diff --git " + "a " * 1500 + "\n",
}


@pytest.mark.soak
@pytest.mark.parametrize("name", JUNK)
@pytest.mark.parametrize(
    "first", ["", "f\n<<<<<<< SEARCH\n", "```diff\n", "--- a/f\n+++ b/f\n@@ -1,99999 +1,99999 @@\n"]
)
def test_junk_is_read_in_linear_time(name: str, first: str) -> None:
    def seconds(size: int) -> float:
        answer = first + JUNK[name] * (size // len(JUNK[name]) + 1)
        start = time.process_time()
        with suppress(PatchError):
            parse_answer(answer)
        return time.process_time() - start

    short = min(seconds(5_000), seconds(5_000))
    assert seconds(40_000) < 40 * short + 0.5  # 8 times as long; quadratic would be 64 times


UNLUCKY = {  # each took 15 seconds or more
    "numbers of growing width": "```diff\n" + "".join(f"{'1' * n} 2 -x\n" for n in range(1, 2_500)) + "```\n",
    "bare lines": "--- a/a\n+++ b/a\n@@ -1,999999999 +1,999999999 @@\n" + " x\nword\n" * 10_000,
    "deep quotations": ("> " * 10 + "@@ x\n") * 10_000,
}


@pytest.mark.parametrize("name", UNLUCKY)
def test_unlucky_text_is_read_at_once(name: str) -> None:
    start = time.process_time()
    patch_spans(UNLUCKY[name])
    with suppress(PatchError):
        parse_answer(UNLUCKY[name])
    assert time.process_time() - start < 5


@pytest.mark.parametrize("answer", ["\n" * 4_000_001, "```\nx\n```\n" * 20_001])
@pytest.mark.soak
def test_too_large_answers_are_refused(answer: str) -> None:
    with pytest.raises(PatchError, match="too large"):
        parse_answer(answer)


@pytest.mark.parametrize(
    ("prose", "withdrawn", "choice"),
    [
        ("Wait, that misses a case. Let me reconsider:", True, False),
        ("Actually, this is better:", True, False),
        ("Here is the corrected patch:", True, False),
        ("Final version:", True, False),
        ("Alternatively:", False, True),
        ("Option B:", False, True),
        ("And in the same file, further down:", False, False),
        ("The function awaits its result.", False, False),
    ],
)
def test_prose_between_two_patches(prose: str, withdrawn: bool, choice: bool) -> None:
    assert (revision_of(prose) > 0, offers_choice(prose)) == (withdrawn, choice)
    first, second = fenced("@@\n-import sys\n+import os\n"), fenced("@@\n-import sys\n+import re\n")
    answer = f"{first}\n{prose}\n\n{second}"
    patches = [(patch.block, patch.revises, patch.alternative) for patch in parse_answer(answer)]
    assert patches == [(0, False, False), (1, withdrawn, choice)]
    if choice:
        assert "app.py: the answer offers several versions." in str(refused(answer))


HUNK = "@@ -1,2 +1,2 @@\n-import sys\n+import os\n \n"
EXACT = f"diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n{HUNK}"


@pytest.mark.parametrize(
    "answer",
    [
        EXACT,
        f"```diff\n{EXACT}```\n",
        f"Prose.\n\n```diff\n{EXACT}```\nMore.\n",
        EXACT.replace("\n", "\r\n"),
        EXACT.replace("-1,2 +1,2", "-71,2 +71,2"),  # it is elsewhere
        "app.py\n<<<<<<< SEARCH\nimport sys\n=======\nimport os\n>>>>>>> REPLACE\n",
        "*** Begin Patch\n*** Update File: app.py\n@@\n-import sys\n+import os\n*** End Patch\n",
    ],
)
def test_strict_accepts_diffs_of_tools(answer: str) -> None:
    assert after(answer, strict=True) == APP.replace(b"import sys", b"import os")


READ_TOLERANTLY = {
    "counts": EXACT.replace("-1,2", "-1,3"),
    "numbers": EXACT.replace("@@ -1,2 +1,2 @@", "@@"),
    "header": EXACT.replace("+++ b/app.py\n", ""),
    "path": EXACT.replace("a/app.py", "/home/app.py").replace("b/app.py", "/home/app.py"),
    "blank-context": EXACT.replace("\n \n", "\n\n"),
    "bare-context": EXACT.replace("-1,2 +1,2", "-1,4 +1,4").replace("\n \n", "\n \n \ndef greet(name):\n"),
    "quoted": each("> ", EXACT),
    "indented": each("    ", EXACT),
    "numbered": _WRAPS["numbered"](EXACT),
    "marked-context": EXACT.replace("\n \n", "\n-\n+\n"),
    "invisible": f"Sure:\n\n\u200b{EXACT}",
}


@pytest.mark.parametrize("name", READING)
def test_each_tolerance_of_the_parser_is_named_and_strict_refuses_it(name: str) -> None:
    answer = READ_TOLERANTLY[name]
    assert after(answer) == APP.replace(b"import sys", b"import os")
    assert run(answer).placements[0].tolerances == (name,)
    assert reasons(answer, strict=True) == {"strict"}
    with pytest.raises(PatchRefused, match=rf"{name} \("):
        after(answer, strict=True)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["+ def f():", "+     return 1", "+", "+ x = 2"], b"def f():\n    return 1\n\nx = 2\n"),
        (["+  a", "+   b"], b"  a\n   b\n"),
        (["+ a", "+b"], b" a\nb\n"),
        (["+ a"], b" a\n"),
    ],
)
def test_a_space_after_each_sign_of_a_new_file(lines: list[str], text: bytes) -> None:
    answer = "\n".join(["```diff", "--- /dev/null", "+++ b/new.txt", "@@", *lines, "```"])
    assert after(answer, {}, may_create=lambda path: True) == text
