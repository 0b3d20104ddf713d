"""A line of backticks in a hunk that lost its first column: continue the hunk, or refuse it; never apply half of it."""

from __future__ import annotations

import pytest

from repoagent.patch.refusal import PatchRefused
from tests.patch import helpers

NOTES = "# T\n\nintro\n\n```\nrun one\n```\n\ntext\n\n```sh\nrun two\n```\n\nend\n"
HUNK = "@@ -3,7 +3,7 @@\n-intro\n+INTRO\n \n```\n run one\n```\n \n-text\n+TEXT\n"
BARE = HUNK.replace("\n run", "\nrun").replace("\n \n", "\n\n")
BOTH = NOTES.replace("intro", "INTRO").replace("text", "TEXT")


def fenced(hunks: str, mark: str = "```", info: str = "diff", after: str = "Done.\n") -> str:
    return f"Here:\n\n{mark}{info}\n--- a/notes.md\n+++ b/notes.md\n{hunks}{mark}\n{after}"


def after(answer: str, notes: str = NOTES) -> str:
    return helpers.after(answer, {"notes.md": notes.encode()}).decode()


@pytest.mark.parametrize(
    "answer",
    [
        fenced(HUNK),
        fenced(HUNK, info=""),
        fenced(HUNK, mark="````"),
        fenced(HUNK, mark="~~~"),
        fenced(HUNK).replace("\n", "\r\n"),
        fenced(BARE),
        f"--- a/notes.md\n+++ b/notes.md\n{HUNK}",
        "1. Do:\n\n" + helpers.each("   ", fenced(HUNK, after="").partition("\n\n")[2]),
        fenced(HUNK).removesuffix("```\nDone.\n"),  # the fence in it does not close it
        fenced("@@ -3,3 +3,3 @@\n-intro\n+INTRO\n \n```\n@@ -9,3 +9,3 @@\n-text\n+TEXT\n \n ```sh\n"),
    ],
)
def test_a_fence_line_included_in_the_counts_is_context(answer: str) -> None:
    assert after(answer) == BOTH


def test_fences_with_a_language_in_a_hunk() -> None:
    nested = "@@ -9,7 +9,7 @@\n-text\n+TEXT\n \n```sh\n run two\n```\n \n-end\n+END\n"
    assert after(fenced(nested)) == NOTES.replace("text", "TEXT").replace("\nend", "\nEND")
    assert after(fenced("@@ -9,3 +9,3 @@\n-text\n+TEXT\n \n```sh\n")) == NOTES.replace("text", "TEXT")
    cut = fenced("@@ -3,4 +3,4 @@\n-intro\n+INTRO\n \n```\n run one\n")
    assert after(cut) == NOTES.replace("intro", "INTRO")
    assert after(fenced("@@ -5,3 +5,2 @@\n ```\n-run one\n```\n")) == NOTES.replace("run one\n", "")


@pytest.mark.parametrize("hunks", [HUNK, BARE])
@pytest.mark.parametrize("numbers", [" -3,9 +3,9 ", ""])
@pytest.mark.parametrize("fence", [True, False])
def test_an_unclear_end_is_refused(hunks: str, numbers: str, fence: bool) -> None:
    hunks = hunks.replace(" -3,7 +3,7 ", numbers)
    answer = fenced(hunks) if fence else f"--- a/notes.md\n+++ b/notes.md\n{hunks}"
    with pytest.raises(PatchRefused):
        after(answer)


def test_added_fences_without_their_sign_are_refused() -> None:
    with pytest.raises(PatchRefused, match="four backticks"):
        after(fenced("@@ -1,3 +1,6 @@\n # T\n \n```\n+make\n```\n intro\n"))


def test_a_whole_file_that_ends_at_a_fence_in_it_is_refused() -> None:
    notes = "".join(f"line {number}\n" for number in range(60)) + NOTES
    new = notes.replace("line 3\n", "LINE 3\n")
    with pytest.raises(PatchRefused, match="four backticks"):
        after(f"`notes.md`:\n\n```markdown\n{new}```\nDone.\n", notes)
    assert after(f"`notes.md`:\n\n````markdown\n{new}````\nDone.\n", notes) == new


@pytest.mark.parametrize(
    "text",
    [
        "# T\n\n```\nmake\n```\n\nLicense: MIT\n",
        "# T\n\n```\n\nmake\n```\n\nLicense: MIT\n",
        "# T\n\n```sh\nmake\n```\n\n```\nok\n```\n\nend\n",
        "# T\n\n```\nmain.py\n```\nend\n",
    ],
)
@pytest.mark.parametrize("notes", ["", "# T\n\nLicense: MIT\n"])
def test_a_whole_file_with_a_fence_without_a_language_is_refused(text: str, notes: str) -> None:
    sources = {"notes.md": notes.encode()} if notes else {}
    for answer in ("`notes.md`\n```markdown\n{}```\n", "`notes.md`\n```\n{}```\nDone.\n"):
        for whole in (answer.format(text), "> " + answer.format(text).replace("\n", "\n> ")):
            with pytest.raises(PatchRefused, match="four backticks"):
                helpers.run(whole, sources, may_create=lambda path: True)
        whole = answer.replace("```", "````").format(text)
        assert helpers.after(whole, sources, may_create=lambda path: True).decode() == text


@pytest.mark.parametrize(
    "text",
    [
        "# T\n\n```\nmake\n",
        "# T\n\n```\nmake\n\nmore\n",
        "# T\nRun:\n```\nmake\n",
        "# T\nRun:\n\n```\n\nmake\n",
        "# T\n\n```sh\nmake\n```\nThis prints:\n\n```\n",
    ],
)
def test_a_whole_file_that_is_cut_inside_a_fence_is_refused(text: str) -> None:
    for info in ("markdown", ""):
        with pytest.raises(PatchRefused, match="four backticks"):
            helpers.run(f"`notes.md`\n```{info}\n{text}", {}, may_create=lambda path: True)
        with pytest.raises(PatchRefused, match="in the middle"):
            helpers.run(f"`notes.md`\n```{info}\n# T\nRun:\n", {}, may_create=lambda path: True)


@pytest.mark.parametrize("end", ["\n```", "\n```\n", "\n```\n\nDone.\n", "```\nDone.\n", "```\n\nDone:\n"])
def test_a_whole_file_that_is_not_cut(end: str) -> None:
    text = "# T\n\nLast line.\n"
    result = helpers.after(f"`notes.md`\n```markdown\n{text}{end}", {}, may_create=lambda path: True)
    assert result.decode().rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    "below",
    [
        "",
        "Done.\n",
        "\n`a.py`\n```\nx = 2\ny\nz\n```\n",
        "\nThe full `a.py`:\n\n```\nx = 2\ny\nz\n```\n",
        "a.py\n```python\nx = 2\ny\nz\n```\n",
        "\nThen:\n\n```\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y\n```\n",
        "\nThen run:\n\n```sh\nmake\n```\n",
    ],
)
def test_fences_below_a_whole_markdown_file(below: str) -> None:
    sources = {"notes.md": b"# A\n", "a.py": b"x = 1\ny\nz\n"}
    new = helpers.changed(f"notes.md\n```markdown\n# B\n```\n{below}", sources)
    assert new == {"notes.md": b"# B\n", **({"a.py": b"x = 2\ny\nz\n"} if "x = 2" in below else {})}
