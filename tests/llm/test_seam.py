"""Joining a truncated reply with its continuation."""

from __future__ import annotations

import pytest

from repoagent.llm.complete import join, open_fence

REPLY = """The loop opens the file twice; here is one pass.

```diff
--- a/src/app.py
+++ b/src/app.py
@@ -1,9 +1,9 @@
 def load(path):
-    with open(path) as file:
-        return file.read()
+    try:
+        with open(path) as file:
+            return file.read()
+    except FileNotFoundError:
+        return ""
+
+
+def table():
+    return [
+        0, 0, 0, 0, 0, 0, 0, 0,
+        0, 0, 0, 0, 0, 0, 0, 0,
+        0, 0, 0, 0, 0, 0, 0, 0,
+    ]
 }
 }
```

And a test:

```
assert load("x") == ""
```
"""


def test_an_exact_continuation_is_unchanged_for_any_cut() -> None:
    for at in range(len(REPLY) + 1):
        assert join(REPLY[:at], REPLY[at:]) == REPLY, (REPLY[:at][-30:], REPLY[at:][:30])


def test_a_repeated_unfinished_line_is_dropped() -> None:
    tried = 0
    for at in range(1, len(REPLY)):
        start = REPLY.rfind("\n", 0, at) + 1
        unfinished = REPLY[start:at]
        if len(unfinished.replace(" ", "")) >= 4 and "0, 0" not in unfinished and not open_fence(unfinished):
            tried += 1
            assert join(REPLY[:at], REPLY[start:]) == REPLY, unfinished
    assert tried > 200


def test_a_fence_that_is_opened_again_is_dropped() -> None:
    first, last = REPLY.index("```diff") + len("```diff\n"), REPLY.index("```\n\nAnd")
    for at in range(first, last):
        assert join(REPLY[:at], "```diff\n" + REPLY[at:]) == REPLY
    at = REPLY.index("FileNotFoundError")  # and the unfinished line again
    assert join(REPLY[:at], "```diff\n" + REPLY[REPLY.rfind("\n", 0, at) + 1 :]) == REPLY


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("```\ncode\n", "```\n"),  # a closing fence is no opening one
        ("```markdown\n# Title\n\n", "```python\nx = 1\n"),  # a nested fence
        # what may be meant to be there twice
        *((f"first\n{line}", f"{line}last\n") for line in ("}\n", "    }\n", "\n", "+\n", "return x\n", "- - - - ", "ab")),
    ],
)  # fmt: skip
def test_nothing_else_is_dropped(first: str, last: str) -> None:
    assert join(first, last) == first + last


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("```py\nx", "```py"), ("```py\nx\n```\n", ""), ("~~~~\n```\n~~~\n", "~~~~"), ("a ``` b", "")],
)
def test_open_fence(text: str, expected: str) -> None:
    assert open_fence(text) == expected
