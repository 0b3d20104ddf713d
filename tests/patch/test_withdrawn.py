"""Answers that withdraw, correct or keep earlier patches: the prose decides, regardless of their location."""

from __future__ import annotations

import pytest

from repoagent.patch.model import Revision
from repoagent.patch.parse.retractions import revision_of
from tests.patch.helpers import changed, reasons

SOURCE = "".join(
    f"def f{n}(x):\n    a = {n}\n    b = x + a\n    i += {n}\n    return b * {n}\n\n\n" for n in range(8)
).encode()

BY_REVISION = {
    Revision.WITHDRAWS: (
        "Scratch that.", "Ignore the patch above, use this instead.", "That's wrong, the correct patch:", "Use this instead:",
        "Please ignore the above diff.", "Disregard that.", "Never mind, this one:", "The above is incorrect.",
        "The above patch is wrong. Here is another:", "This replaces the patch above.", "This supersedes the previous patch:",
        "Instead of the above:", "Do not apply the patch above.", "Let me start over.", "I take that back.",
        "Forget the first version, here it is:", "My previous patch was wrong.", "Instead, use the following:",
        "Ignore the patch above, it fails if the list is empty.", "Hmm, the above would break the tests. The final patch:",
        "Thought enough.\n</think>\n\nHere is the change:", "**Scratch that**, and:", "The above edit targets the wrong method. This:",
        "Not needed: only apply this one:", "Cancel that.", "Discard that one.", "The patch I gave above should be ignored.", "This one instead:",
        "The earlier patch can be discarded.", "Drop the above.", "The patch above turned out to be wrong.", "Apply this one instead.",
    ),
    Revision.NEW: ("Here is the corrected diff:", "The final patch:", "## Correct patch"),
    Revision.CORRECTS: (
        "Wait, let me reconsider.", "Oops.", "Correction:", "Actually, this is better:", "On second thought:", "Let me fix the diff above:",
        "Sorry, my mistake:", "No, that is wrong:", "Second attempt:", "That's wrong.", "Scratch that, the rest stays:",
        "Actually, that isn't quite right. Corrected version:", "Hmm, wait, is that right?",
        "Let's try again:", "Wrong file, sorry:", "The real fix:", "Take 2:", "Nope, wrong one. This:", "That was the wrong function:",
    ),
    Revision.VERSION: ("Final version:", "# corrected", "Here's a better version:", "Corrected hunk:"),
    Revision.NEUTRAL: (
        "", "next, also", "and in the same file", "second part", "Step 2:", "then apply", "This does not replace the patch above.",
        "In addition to the above:", "Keep the patch above and add:", "Please do not ignore the patch above:", "Apply both patches:",
        "Wait, I also need to update main():", "Oops, I forgot the import:", "Sorry, one more:", "Wait for the lock before reading:",
        "In the second function, return None instead:", "Use `foo` instead of `bar` here:", "Use this instead of os.path:",
        "Here is the updated version of the caller:", "The old value is ignored, so drop the first argument:", "And the final change:",
        "The patch above needs a new import:", "That is wrong because callers expect None:", "Never mind the warnings:",
        "Ignore the patch above if you have it.", 'The text that says "use this instead":', "Start over at index 0:",
        "Ignore the change of the case in names:", "All together:", "Only apply this if you use Python 3:", "Apply this after the patch above:",
        "As the patch above changes the signature, the caller changes:", "That way the wrong value is never used:", "Typo correction",
        "I promise to break it later, so I ignore it here", "The previous code was wrong, since it reads twice:",
    ),
}  # fmt: skip


@pytest.mark.parametrize("revision", BY_REVISION)
def test_prose_about_the_patch_above(revision: Revision) -> None:
    texts = BY_REVISION[revision]
    assert {prose: revision_of(prose) for prose in texts} == dict.fromkeys(texts, revision)


def hunk(number: int, new: object, old: str = "") -> str:
    return f"@@\n def f{number}(x):\n-{old or f'    a = {number}'}\n+    a = {new}\n     b = x + a\n"


def short(number: int, new: int) -> str:
    """A hunk with hardly any distinctive lines."""
    return f"@@\n     b = x + a\n-    i += {number}\n+    i = {new}\n     return b * {number}\n"


def diff(*hunks: str, path: str = "app.py") -> str:
    return f"```diff\n--- a/{path}\n+++ b/{path}\n{''.join(hunks)}```\n"


A, B = diff(hunk(1, 10)), diff(hunk(4, 40))
OTHER = diff(hunk(4, 40), path="other.py")
FILES = {"app.py": SOURCE, "other.py": SOURCE}


def made(answer: str) -> dict[str, list[str]]:
    """The added lines by file."""
    known = SOURCE.decode().splitlines()
    files = changed(answer, FILES, may_create=lambda path: path == "new.py")
    return {
        name: [line.strip() for line in (text or b"").decode().splitlines() if line not in known]
        for name, text in files.items()
    }


@pytest.mark.parametrize("prose", ["Wait, let me reconsider.", "Oops.", "Final version:"])
def test_unclear_prose_decides_only_for_the_same_lines(prose: str) -> None:
    assert made(f"{A}\n{prose}\n\n{diff(hunk(1, 11))}") == {"app.py": ["a = 11"]}
    not_there = diff(hunk(1, 10, old="    nothing = 1"))
    assert made(f"{not_there}\n{prose}\n\n{B}") == {"app.py": ["a = 40"]}
    for first, second in (
        (A, B),
        (diff(hunk(1, 10), hunk(4, 40)), B),
        (diff(short(1, 1), short(4, 4)), diff(short(4, 4))),
    ):
        assert reasons(f"{first}\n{prose}\n\n{second}", SOURCE) == {"ambiguous"}


@pytest.mark.parametrize(
    "prose",
    [
        "Also handle the case where either value is missing:",
        "update the docstring for version 2:",
        "Another way to get here:",
        "Here is the new code:",
    ],
)
def test_words_about_the_code_leave_patches_of_different_lines_together(prose: str) -> None:
    assert made(f"{A}\n{prose}\n\n{B}") == {"app.py": ["a = 10", "a = 40"]}
    assert reasons(f"{A}\n{prose}\n\n{diff(hunk(1, 11))}", SOURCE) <= {"ambiguous", "overlap"}


@pytest.mark.parametrize(
    "prose", ["Option B:", "Version 2 (shorter):", "Or change the caller:", "Either of these:"]
)
def test_a_choice_is_refused_wherever_its_patches_are(prose: str) -> None:
    assert reasons(f"{A}\n{prose}\n\n{B}", SOURCE) == {"ambiguous"}


def test_a_later_patch_of_the_same_lines_needs_words() -> None:
    assert reasons(f"{A}\nand\n\n{diff(hunk(1, 11))}", SOURCE) == {"overlap"}
    assert reasons(f"{A}{B}\nand\n\n{diff(hunk(1, 10), hunk(4, 41))}", SOURCE) == {"overlap"}


def test_a_last_patch_that_has_all_changes_of_the_others_counts_alone() -> None:
    whole = diff(hunk(1, 10), hunk(4, 40, old="    a = 4\n-    b = x + a"))
    assert made(f"{A}\nAll together:\n\n{diff(hunk(1, 10), hunk(4, 40))}") == {"app.py": ["a = 10", "a = 40"]}
    all_three = diff(hunk(1, 10), hunk(2, 20), hunk(4, 40))
    assert made(f"{A}{B}\nIn full:\n\n{all_three}") == {"app.py": ["a = 10", "a = 20", "a = 40"]}
    kept = "    b = x + a\n+    a = 10\n+    b = x + a\n     i += 1\n"  # deletes and adds a line again
    again = diff(f"@@\n def f1(x):\n-    a = 1\n-{kept}", hunk(4, 40))
    assert made(f"{A}\nAll together:\n\n{again}") == {"app.py": ["a = 10", "a = 40"]}
    assert reasons(f"{A}{B}\nIn full:\n\n{whole}", SOURCE)


@pytest.mark.parametrize("at_end", [True, False])
def test_prose_is_read_at_both_ends(at_end: bool) -> None:
    prose = ["All tests of this part pass. " * 600, "Scratch that, use this instead:"]
    between = "\n\n".join(prose if at_end else prose[::-1])
    assert made(f"{A}\n{between}\n\n{B}") == {"app.py": ["a = 40"]}


TWO_FILES = diff(hunk(1, 10)) + diff(hunk(1, 10), path="other.py")
BROKEN = "```diff\n--- a/app.py\n+++ b/app.py\n@@ -1,3 +1,4 @@\n nope\n no sign\n```\n"


def block(number: int, new: int) -> str:
    return f"app.py\n<<<<<<< SEARCH\n    a = {number}\n    b = x + a\n=======\n    a = {new}\n    b = x + a\n>>>>>>> REPLACE\n"


def whole(number: int, new: int) -> str:
    return f"`app.py`\n```python\n{SOURCE.decode().replace(f'a = {number}', f'a = {new}')}```\n"


NEW = "```diff\n--- /dev/null\n+++ b/new.py\n@@\n+n = {}\n```\n"


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (f"{A}\nScratch that:\n\n{diff(hunk(1, 11))}\nNo, that is wrong. The final patch:\n\n{diff(hunk(1, 12))}", {"app.py": ["a = 12"]}),
        (f"{A}\nScratch that:\n\n{B}\nand further down\n\n{diff(hunk(6, 60))}", {"app.py": ["a = 40", "a = 60"]}),
        (f"{A}\nScratch that:\n\n{OTHER}", {"other.py": ["a = 40"]}),
        (f"{A}\nHere is the corrected diff of the other file:\n\n{OTHER}", {"app.py": ["a = 10"], "other.py": ["a = 40"]}),
        (f"{TWO_FILES}\nScratch that, use this instead:\n\n{OTHER}", {"app.py": ["a = 10"], "other.py": ["a = 40"]}),
        (f"{TWO_FILES}\nIgnore all of the above:\n\n{OTHER}", {"other.py": ["a = 40"]}),
        (f"{TWO_FILES}\nThe patch for `app.py` above is wrong. Corrected patch for app.py:\n\n{diff(hunk(1, 11))}", {"other.py": ["a = 10"], "app.py": ["a = 11"]}),
        (f"{TWO_FILES}\nWait, that's wrong. Corrected:\n\n{diff(hunk(1, 11))}{diff(hunk(1, 11), path='other.py')}", {"app.py": ["a = 11"], "other.py": ["a = 11"]}),
        (f"{A}\n{B}\nPlease ignore the first diff.\n", {"app.py": ["a = 40"]}),
        (f"{A}\nScratch that. First look:\n\n```sh\ngrep x app.py\n```\n\nthen\n\n{B}", {"app.py": ["a = 40"]}),
        (f"<think>\n{A}\n</think>\nHere it is:\n\n{B}", {"app.py": ["a = 40"]}),
        (A + B.replace("```diff\n", "```diff\n# ignore the patch above, use this instead\n"), {"app.py": ["a = 40"]}),
        (A.removesuffix("```\n") + "# Scratch that, use this instead:\n" + B.removeprefix("```diff\n"), {"app.py": ["a = 40"]}),
        (f"```diff\n--- a/app.py\n+++ b/app.py\n{hunk(1, 10)}\n# Scratch that, use this:\n{hunk(4, 40)}```\n", {"app.py": ["a = 40"]}),
        (A.replace("```diff\n", "").replace("```\n", "") + "Scratch that:\n" + B.replace("```diff\n", ""), {"app.py": ["a = 40"]}),
        (f"{block(1, 10)}\nScratch that, use this instead:\n\n{block(4, 40)}", {"app.py": ["a = 40"]}),
        (f"```\n{block(1, 10)}Scratch that, use this instead:\n{block(4, 40)}```\n", {"app.py": ["a = 40"]}),
        (f"{block(1, 10)}{block(4, 40)}\nWait, that's wrong. Corrected:\n\n{block(1, 11)}{block(4, 41)}", {"app.py": ["a = 11", "a = 41"]}),
        (f"{A}\nActually, the whole file:\n\n{whole(4, 40)}", {"app.py": ["a = 40"]}),
        (f"{whole(1, 10)}\nWait, corrected version:\n\n{whole(4, 40)}", {"app.py": ["a = 40"]}),
        (f"{NEW.format(1)}\nWait, correction:\n\n{NEW.format(2)}", {"new.py": ["n = 2"]}),
        (f"{diff(hunk(1, 10), path='nowhere.py')}\nSorry, ignore the patch above:\n\n{B}", {"app.py": ["a = 40"]}),
        (f"{BROKEN}\nScratch that:\n\n{B}", {"app.py": ["a = 40"]}),
    ],
)  # fmt: skip
def test_locations_of_prose_and_its_effect(answer: str, left: dict[str, list[str]]) -> None:
    assert made(answer) == left


@pytest.mark.parametrize(
    "answer",
    [
        f"{A}\nand\n\n{B}\nScratch that:\n\n{diff(hunk(4, 41))}",  # the last, or both?
        f"{A}\nOn second thought, ignore the patch above.\n",
        f"{A}\n{B}\nIgnore the patch above.\n",
        f"{A}\nLet me reconsider.\n\n{OTHER}",
        f"{A}\nIf that does not work, use this instead:\n\n{B}",
        A + B.replace("```diff\n", "```diff\n# corrected\n"),
        f"{TWO_FILES.replace('```' + chr(10) + '```diff' + chr(10), '')}\nScratch that:\n\n{OTHER}",  # one fence
    ],
)
def test_unclear_withdrawals(answer: str) -> None:
    assert reasons(answer, FILES) == {"ambiguous"}


def test_the_messages_of_mails_withdraw_and_offer_nothing() -> None:
    head = f"From {'0123456789' * 4} Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nSubject: "
    mails = [
        f"{head}{prose}\n\n---\n f | 2\n\n{text[8:-4]}-- \n2.39.5\n\n"
        for prose, text in (("One", A), ("Scratch that\n\nAlternatively, sort:", B))
    ]
    assert made("".join(mails)) == {"app.py": ["a = 10", "a = 40"]}


@pytest.mark.parametrize("prose", ["", "and further down"])
def test_a_part_without_a_location_is_not_replaced_by_one_with_a_common_line(prose: str) -> None:
    """The first hunk has no location; the second one is not another version of it."""
    first = "```diff\n--- a/app.py\n+++ b/app.py\n@@ -1,0 +2 @@\n+    # is public\n```\n"
    second = "```diff\n@@ -10,2 +11,3 @@\n     a = 4\n-    b = x + a\n+    # is public\n+    b = a\n+    c = b\n```\n"
    assert reasons(f"{first}\n{prose}\n\n{second}", SOURCE) == {"no-context"}


def test_a_correction_of_a_part_keeps_all_other_parts() -> None:
    """The first hunk fits nowhere, and it is not the corrected one."""
    first = diff("@@ -1,2 +1,2 @@\n nowhere\n-no such line\n+there\n", hunk(4, 40))
    answer = f"{first}\nOne correction, the rest stays:\n\n{diff(hunk(4, 41))}"
    assert reasons(answer, SOURCE) == {"deleted-line-missing"}
