"""All forms of patches that models write."""

from __future__ import annotations

import time

import pytest

from repoagent.patch.apply_answer import apply_answer, apply_patches, read_answer
from repoagent.patch.errors import NoPatch, PatchRefused
from repoagent.patch.model import SourceText
from repoagent.patch.parse.blocks import patch_spans
from tests.patch.helpers import APP, after, fenced, reasons, run

CHANGED = APP.replace(b'"hello "', b'"hi "')
HUNK = """\
 def greet(name):
     \"\"\"Say hello.\"\"\"
-    return "hello " + name
+    return "hi " + name

"""


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
@pytest.mark.parametrize("info", ["diff", "patch", "", "udiff", "python"])
def test_fences(fence: str, info: str) -> None:
    numbers = "@@ -400,3 +17,99 @@ def greet(name):"
    assert after(f"{fence}{info}\n--- app.py\n+++ app.py\n{numbers}\n{HUNK}{fence}\n") == CHANGED


def test_bare_diff_between_prose() -> None:
    diff = f"--- a/app.py\n+++ b/app.py\n@@ -4,4 +4,4 @@\n{HUNK}"
    answer = f"I change it so:\n\n{diff}\nThat says hi.\n- It is short.\n"
    assert after(answer) == CHANGED
    (span,) = patch_spans(answer)
    assert answer[span.start :].startswith("--- a/app.py")
    assert answer[span.end :].strip().startswith("That says hi")


def _ended(answer: str) -> bytes | None:
    """The resulting file if the answer is known to be complete."""
    sources = {"app.py": SourceText(APP)}
    patches = read_answer(answer, known=sources, ended=True)
    return apply_patches(patches, sources, may_create=lambda path: True).changes[0].after


OPEN = "```diff\n--- a/app.py\n+++ b/app.py\n"


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_fence_that_is_never_closed(end: str) -> None:
    hunk = f"{OPEN}@@\n{HUNK.rstrip()}{end}"
    assert _ended(hunk) == CHANGED
    assert reasons(hunk) == {"cut-off"}  # more may have been missing
    assert _ended(f"```diff\n--- /dev/null\n+++ b/new.py\n@@\n+x = 1{end}") == b"x = 1\n"
    patch = f"*** Begin Patch\n*** Update File: app.py\n@@\n{HUNK.rstrip()}{end}"
    assert _ended(f"```\n{patch}") == CHANGED and reasons(f"```\n{patch}") == {"cut-off"}


@pytest.mark.parametrize(
    "answer",
    [
        f"{OPEN}@@ -4,5 +4,5 @@\n{HUNK.rstrip()}",
        f"{OPEN}@@\n{HUNK}That says hi.\n",
        f"{OPEN}@@\n{HUNK}--- a/other.py\n",
        f"{OPEN}@@\n{HUNK}@@\n",
        f"app.py\n```python\n{CHANGED.decode()}",
        'app.py\n```\n<<<<<<< SEARCH\n    return "hello " + name\n=======\n    return "hi " + name\n',
    ],
)
def test_a_fence_that_is_never_closed_without_a_whole_change(answer: str) -> None:
    with pytest.raises(PatchRefused) as caught:
        _ended(answer)
    assert caught.value.reasons == {"cut-off"}


def test_no_header_at_all_is_the_only_file() -> None:
    assert after(fenced(HUNK, path=None)) == CHANGED
    assert after(f"--- a/app.py\n@@\n{HUNK}") == CHANGED


def test_no_header_among_several_files_is_the_only_exact_match() -> None:
    sources = {"app.py": SourceText(APP), "other.py": SourceText(b"x = 1\n")}
    applied = apply_answer(fenced(f"@@\n{HUNK}", path=None), sources)
    assert [change.path for change in applied.changes] == ["app.py"]


def test_spans_of_all_kinds_and_not_of_examples() -> None:
    answer = (
        "Run:\n```sh\nmake\n```\n```diff\n-a\n+b\n```\nand\n\nsrc/x.py\n```python\nx = 1\n```\n"
        "y.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nend"
    )
    assert [span.kind for span in patch_spans(answer)] == ["diff", "whole-file", "search-replace"]
    assert patch_spans("only prose, a - b, --- and +++ too") == ()


def test_an_answer_without_any_patch() -> None:
    for answer in ["", "No change is needed.", "Run this:\n```sh\nmake\n```\n"]:
        with pytest.raises(NoPatch):
            run(answer)


def test_equal_removed_and_added_lines_are_context() -> None:
    both = '{0}    """Say hello."""\n{0}    return "{1}" + name\n'
    hunk = f" def greet(name):\n{both.format('-', 'hello ')}{both.format('+', 'hi ')}"
    applied = run(fenced(f"@@\n{hunk}"))
    assert applied.changes[0].after == CHANGED
    assert applied.diff.count("\n-") == 1 + 1  # the header and one line


SEVERAL = f"""\
```diff
diff --git a/app.py b/app.py
index 123..456 100644
--- a/app.py
+++ b/app.py
@@
{HUNK}
diff --git a/b.txt b/b.txt
old mode 100644
new mode 100755
diff --git a/c.txt b/c.txt
deleted file mode 100644
diff --git a/d.txt b/e.txt
similarity index 90%
rename from d.txt
rename to e.txt
--- a/d.txt
+++ b/e.txt
@@ -1 +1 @@
-one
+two
diff --git a/n.txt b/n.txt
new file mode 100755
--- /dev/null
+++ b/n.txt
@@ -0,0 +1 @@
+new
```
"""


def test_git_headers_of_several_files() -> None:
    sources = {"app.py": SourceText(APP), **{f"{name}.txt": SourceText(b"one\n") for name in "bcd"}}
    applied = apply_answer(SEVERAL, sources, may_create=lambda path: path in {"e.txt", "n.txt"})
    changes = {change.name: change for change in applied.changes}
    assert changes["app.py"].after == CHANGED
    assert (changes["b.txt"].old_mode, changes["b.txt"].mode) == ("100644", "100755")
    assert changes["c.txt"].is_deletion
    assert (changes["e.txt"].old_path, changes["e.txt"].after) == ("d.txt", b"two\n")
    new = changes["n.txt"]
    assert (new.after, new.mode, new.old_path) == (b"new\n", "100755", None)


def test_deletion_by_dev_null_must_quote_the_file() -> None:
    deletion = "```diff\n--- a/app.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-{}\n```"
    assert run(deletion.format("import sys")).changes[0].is_deletion
    assert reasons(deletion.format("import os")) == {"deleted-line-missing"}


def test_format_patch_signature_is_not_a_deletion() -> None:
    assert after(f"--- a/app.py\n+++ b/app.py\n@@ -4,4 +4,4 @@\n{HUNK.rstrip()}\n-- \n2.39.5\n") == CHANGED


def test_blank_line_inside_added_lines_is_added() -> None:
    diff = "@@\n import sys\n+import os\n\n+import re\n \n \n def greet(name):\n"
    assert after(fenced(diff)) == APP.replace(b"import sys\n", b"import sys\nimport os\n\nimport re\n")


@pytest.mark.parametrize(
    "head",
    [
        "```python app.py",
        "```app.py",
        "```python:app.py",
        '```python title="app.py"',
        "app.py\n```python",
        "**app.py**\n```",
        "### `app.py`\n\n```python",
        "File: app.py\n```python",
        "`app.py` (updated):\n```python",
    ],
)
def test_whole_file_under_its_name(head: str) -> None:
    applied = run(f"The new file:\n\n{head}\n{CHANGED.decode()}```\nDone.")
    assert applied.changes[0].after == CHANGED
    assert applied.placements[0].level == "whole-file"


def test_the_only_fence_can_be_the_whole_of_the_only_file() -> None:
    assert after(f"Here you are:\n\n```python\n{CHANGED.decode()}```\n") == CHANGED
    with pytest.raises(NoPatch):
        run("Do it like this:\n\n```python\ndef greet(name):\n    return 1\n```\n")


def test_a_whole_markdown_file_with_fences_in_it() -> None:
    before = b"# A\n\n```sh\nmake\n```\n\nend\n"
    answer = "README.md\n```markdown\n# B\n\n```sh\nmake\n```\n\nend\n```\nbye\n"
    applied = apply_answer(answer, {"README.md": SourceText(before)})
    assert applied.changes[0].after == before.replace(b"# A", b"# B")


def test_a_quotation_next_to_a_diff_is_not_a_whole_file() -> None:
    quote = '`app.py`:\n```python\ndef part(name):\n    return "goodbye " + name\n```\n'
    assert after(quote + fenced(f"@@\n{HUNK}")) == CHANGED
    assert reasons(quote.replace("goodbye", "bye") + fenced(f"@@\n{HUNK}")) == {"overlap"}


def test_a_long_bare_diff_is_read_in_linear_time() -> None:
    body = "".join(f" line {number}\n\n" for number in range(3000))
    start = time.perf_counter()
    patch_spans(f"--- a/app.py\n+++ b/app.py\n@@ -1,9999 +1,9999 @@\n{body}")
    assert time.perf_counter() - start < 2
