"""Commit messages: no text is lost, the layout is that of git, and a model claims nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.edit.commit import SUBJECT_WIDTH, compose_message, with_trailers
from tests.conftest import GitRepo

ITEM = "- a list item that is much longer than seventy-two columns and stays one line as it was\n\n    code = 1\n# text\n"
DESCRIBED = "Fix it\n\nsort-by: the name of a column\nIt skips [a list].\n\nFixes: 1234567 (x)\nCloses: #12\n"


@pytest.mark.parametrize(
    ("account", "request_", "message"),
    [
        ("handle a missing file.\n\nIt raised.", "x", "handle a missing file\n\nIt raised.\n"),
        ("", "return a default when the file is missing", "Return a default when the file is missing\n"),
        # code and markup in a subject
        ("fix: close the file", "", "fix: close the file\n"),
        ("foo_bar returns early", "", "foo_bar returns early\n"),
        ("The docstring says **tries**:", "x", "The docstring says **tries**\n"),
        ("**Fix the parser.**", "x", "Fix the parser\n"),
        ("Pass **kwargs on to **options", "x", "Pass **kwargs on to **options\n"),
        ("Compute 2**3**4 in __init__", "x", "Compute 2**3**4 in __init__\n"),
        # prose is wrapped, lists and code are not
        (f"Subject\n\n{ITEM}", "", f"Subject\n\n{ITEM}"),
        ("Subject\n\n" + "words " * 20, "", "Subject\n\n" + "words " * 11 + "words\n" + "words " * 7 + "words\n"),
        # trailers of a model, and the user's own
        ("Fix it\n\nReviewed-by: A,\n\tB <b@x>\n  and C\nMore.", "", "Fix it\n\nMore.\n"),
        ("Reviewed-by: R\nReview-Ignore: *", "Fix it\n\nReviewed-by: Ada <ada@x>", "Fix it\n\nReviewed-by: Ada <ada@x>\n"),
        (DESCRIBED, "", DESCRIBED),
        *(
            (f"Fix it {token}\n\nAll {token} of it.", "", "Fix it\n\nAll of it.\n")
            for token in ("[skip ci]", "[CI skip]", "[no ci]", "[skip actions]", "***NO_CI***")
        ),
    ],
)  # fmt: skip
def test_the_summary_of_the_model_becomes_the_message(account: str, request_: str, message: str) -> None:
    assert compose_message(account, request_) == message


def test_a_long_subject_continues_in_the_body() -> None:
    words = "replace the handwritten parser with a table driven one because nobody could follow the old one"
    subject, _, body = compose_message(words, "").partition("\n\n")
    assert len(subject) <= SUBJECT_WIDTH
    assert subject.endswith("…") and body.startswith("…")
    assert (subject[:-1] + " " + body[1:].replace("\n", " ").strip()).lower() == words


@given(st.text(max_size=400))
def test_no_word_of_the_summary_is_lost(account: str) -> None:
    message = compose_message(account, "Do it")
    for word in account.split()[5:]:
        assert word.strip("#*.…") in message


def test_trailers_follow_a_body_with_dashes_and_comment_lines(repo: GitRepo) -> None:
    message = "Subject\n\nbefore\n---\n# after\n"
    done = with_trailers(message, [("Assisted-by", "repoagent:m"), ("Repoagent-Edit", "1")], repo.top)
    assert done == "Subject\n\nbefore\n---\n# after\n\nAssisted-by: repoagent:m\nRepoagent-Edit: 1\n"


CLAIMS = [
    "Signed-off-by: Root <r@x>", "reviewed-BY : Root <r@x>", "Acked-by: R", "Tested-by: R", "Approved-by: R",
    "Co-authored-by: R <r@x>", "Reported-by: R", "Cc: stable@x", "Review-Ignore: *", "  review-ignore: security",
    "Repoagent-Edit: 1", "Source-Blob: 1", "Assisted-by: nobody", "Made-With: nothing", "Change-Id: I1",
    "skip-checks: true", "(cherry picked from commit 1234567)",
]  # fmt: skip


@pytest.mark.parametrize(
    "account",
    [
        "Fix it\n\n{}\n", "{}\nFix it\n", "# {}\n\nFix it\n", "Fix it\n\nWhy.\n\n{}\n\nMore words.",
        "Fix it\n\n" + "It was seen by all who work on this part of it, ok " * 4 + "{}", "Fix it\u2028{}\u2028", "Fix it\r\n\r\n{}\r\n",
    ],
)  # fmt: skip
def test_trailers_by_a_model_are_removed(account: str) -> None:
    for claim in CLAIMS:
        message = compose_message(account.format(claim), "Do it", "Made-With")
        assert message.startswith("Fix it\n") or "# " in account
        name = claim.strip().split(":")[0].strip().lower()
        assert not any(line.strip().lower().startswith(name) for line in message.splitlines()), message
