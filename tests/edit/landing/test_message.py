"""Commit messages: nothing is lost, and git users find the shape they expect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from repoagent.edit.landing.message import SUBJECT_WIDTH, compose, with_trailers
from tests.conftest import GitRepo


def test_the_models_account_becomes_subject_and_body() -> None:
    account = "handle a missing config file.\n\nThe loader raised; it now returns the defaults."
    assert (
        compose(account, "x")
        == "Handle a missing config file\n\nThe loader raised; it now returns the defaults.\n"
    )


def test_without_an_account_the_request_is_the_subject() -> None:
    assert (
        compose("", "return a default when the file is missing")
        == "Return a default when the file is missing\n"
    )


def test_a_long_subject_goes_on_in_the_body() -> None:
    words = "replace the handwritten parser with a table driven one because nobody could follow the old one"
    subject, _, body = compose(words, "").partition("\n\n")
    assert len(subject) <= SUBJECT_WIDTH
    assert subject.endswith("…") and body.startswith("…")
    joined = (subject[:-1] + " " + body[1:].replace("\n", " ").strip()).lower()
    assert joined == words


def test_prose_is_wrapped_and_shapes_are_kept() -> None:
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


def test_code_in_a_subject_keeps_its_case() -> None:
    assert compose("fix: close the file", "").startswith("fix: close")
    assert compose("foo_bar returns early", "").startswith("foo_bar returns")


@given(st.text(max_size=400))
def test_no_word_of_the_account_is_lost(account: str) -> None:
    message = compose(account, "Do it")
    for word in account.split()[5:]:
        assert word.strip("#*.…") in message


def test_trailers_follow_a_body_with_dashes_and_comment_lines(repo: GitRepo) -> None:
    message = "Subject\n\nbefore\n---\n# after\n"
    done = with_trailers(message, [("Assisted-by", "repoagent:m"), ("Repoagent-Edit", "1")], repo.top)
    assert done == "Subject\n\nbefore\n---\n# after\n\nAssisted-by: repoagent:m\nRepoagent-Edit: 1\n"
