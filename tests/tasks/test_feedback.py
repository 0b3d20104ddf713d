"""Observations tell the model what to do next."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, go

DONE = f"<commit>\nsay it once\n</commit>\n{FINISH}"
QUOTED = "one\ntwo\nthree\nfour\nfive\nsix\n\u201cseven\u201d is it\neight\n"
COMMITTED = {"f.txt": QUOTED}
LOOSE = (
    "```diff\n--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    '@@ -7,2 +7,2 @@\n "seven" is it\n-eight\n+8\n'
)


PUNCTUATION = (
    "\nHunk 2 of f.txt, line 7: lines matched ignoring typographic punctuation; the file's own was kept."
)
UNCLOSED = "\nThe fence of the diff was not closed; the diff was read to the end of the answer."


@pytest.mark.parametrize(
    ("patch", "remarks"),
    [
        (f"{LOOSE}```\n", PUNCTUATION),
        (LOOSE, PUNCTUATION + UNCLOSED),
        (LOOSE.replace('"seven"', "\u201cseven\u201d") + "```\n", ""),  # an exact one
    ],
)
def test_tolerances_of_a_hunk_are_reported(repo: GitRepo, patch: str, remarks: str) -> None:
    outcome, model, user = go(repo, patch, DONE)
    said = f"Applied: f.txt:1, f.txt:7.{remarks}"
    assert outcome.kind == "done" and user.observations[0].text == said and f"{said}\n" in model.last_prompt
    assert repo.read("f.txt").decode() == QUOTED.replace("two", "2").replace("eight", "8")


def test_the_message_of_a_skipped_finish_is_kept(repo: GitRepo) -> None:
    kept = "Its commit message is kept: send only `<finish>`"
    outcome, model, _ = go(repo, f"{LOOSE}```\n<run>false</run>\n{DONE}", FINISH, mode="auto")
    assert outcome.kind == "done" and kept in model.last_prompt
    assert repo.git("log", "-1", "--format=%s") == "say it once\n"
    _, _, user = go(repo, f"<run>false</run>\n{FINISH}", "no", mode="auto", name="run-20260101-000001-abcdef")
    assert user.observations[-1].text == "finish was not performed because an earlier `run` failed."
