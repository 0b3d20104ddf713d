"""Commit messages: no text is lost, and the layout is that of git."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.edit.commit import SUBJECT_WIDTH, compose, with_trailers, without_claims
from tests.conftest import GitRepo


def test_the_summary_of_the_model_becomes_subject_and_body() -> None:
    account = "handle a missing config file.\n\nThe loader raised; it now returns the defaults."
    assert (
        compose(account, "x")
        == "handle a missing config file\n\nThe loader raised; it now returns the defaults.\n"
    )


def test_without_a_summary_the_request_is_the_subject() -> None:
    assert (
        compose("", "return a default when the file is missing")
        == "Return a default when the file is missing\n"
    )


def test_a_long_subject_continues_in_the_body() -> None:
    words = "replace the handwritten parser with a table driven one because nobody could follow the old one"
    subject, _, body = compose(words, "").partition("\n\n")
    assert len(subject) <= SUBJECT_WIDTH
    assert subject.endswith("…") and body.startswith("…")
    joined = (subject[:-1] + " " + body[1:].replace("\n", " ").strip()).lower()
    assert joined == words


def test_prose_is_wrapped_and_lists_are_not() -> None:
    prose = "word " * 40
    message = compose(
        f"Subject\n\n{prose}\n\n- a list item that is much longer than seventy-two columns and stays one line as it was\n\n    code = 1\n# not a comment",
        "",
    )
    assert max(len(line) for line in message.splitlines() if line.startswith("word")) <= 72
    assert (
        "- a list item that is much longer than seventy-two columns and stays one line as it was\n" in message
    )
    assert "    code = 1\n# not a comment" in message


def test_code_in_a_subject_is_not_capitalised() -> None:
    assert compose("fix: close the file", "").startswith("fix: close")
    assert compose("foo_bar returns early", "").startswith("foo_bar returns")


@given(st.text(max_size=400))
def test_no_word_of_the_summary_is_lost(account: str) -> None:
    message = compose(account, "Do it")
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


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    "account",
    [
        "Fix it\n\n{}\n", "{}\nFix it\n", "# {}\n\nFix it\n", "Sure, {}\n\nFix it", "Fix it\n\nWhy.\n\n{}\n\nMore words.",
        "Fix it\n\n" + "It was seen by all who work on this part of it, ok " * 4 + "{}", "Fix it\u2028{}\u2028", "Fix it\r\n\r\n{}\r\n",
    ],
)  # fmt: skip
def test_trailers_by_a_model_are_removed(account: str, claim: str) -> None:
    message = compose(account.format(claim), "Do it", "Made-With")
    assert message.startswith("Fix it\n") or "# " in account or "Sure" in account
    name = claim.strip().split(":")[0].strip().lower()
    assert not any(line.strip().lower().startswith(name) for line in message.splitlines()), message


def test_continuation_lines_of_a_trailer_are_removed() -> None:
    assert compose("Fix it\n\nReviewed-by: A,\n\tB <b@x>\n  and C\nMore.", "") == "Fix it\n\nMore.\n"


def test_a_message_of_only_trailers_falls_back_to_the_request() -> None:
    words = "Fix it\n\nReviewed-by: Ada <ada@x>"
    assert compose("Reviewed-by: R\nReview-Ignore: *", words) == words + "\n"  # the user's own trailer stays


@pytest.mark.parametrize("token", ["[skip ci]", "[CI skip]", "[no ci]", "[skip actions]", "***NO_CI***"])
def test_a_model_cannot_skip_ci(token: str) -> None:
    assert compose(f"Fix it {token}\n\nAll {token} of it.", "") == "Fix it\n\nAll of it.\n"


def test_descriptive_trailers_stay() -> None:
    text = "Fix it\n\nsort-by: the name of a column\nIt skips [a list].\n\nFixes: 1234567 (x)\nCloses: #12\n"
    assert compose(text, "") == text and without_claims(text) == text


def test_an_applied_commit_keeps_only_sign_offs() -> None:
    text = "Fix it\n\nReview-Ignore: *\nSigned-off-by: Ada <ada@x>\n"
    assert without_claims(text, people=False) == "Fix it\n\nSigned-off-by: Ada <ada@x>\n"


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("The docstring says **tries**:", "The docstring says tries"),
        ("**Fix the parser.**", "Fix the parser"),
        ("Pass **kwargs on to **options", "Pass **kwargs on to **options"),
        ("Compute 2**3**4 in __init__", "Compute 2**3**4 in __init__"),
    ],
)
def test_markup_is_removed_from_the_subject(line: str, subject: str) -> None:
    assert compose(f"{line}\n\nMore.", "x").split("\n")[0] == subject
