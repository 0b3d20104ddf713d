"""`repoagent conversation summarize`: summaries are cached by the hash of the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append
from tests.cli.conversation.conftest import Script, Talk
from tests.conftest import GitRepo


@pytest.fixture
def file(talked: GitRepo) -> Path:
    return talked.top / ".repoagent/conversations/fast.md"


def test_the_same_text_is_paid_for_once(ui: Talk, model: Script, file: Path) -> None:
    model.answers("They share a cache.\n", "They share a cache, and it is done.\n")
    first = ui("summarize", "fast", "--model", model.spec, "--json").json
    assert first["summary"] == "They share a cache." and first["spent"]["calls"] == 1
    again = ui("summarize", "fast", "--model", "command:false", "--json").json
    assert again["summary"] == first["summary"] and again["spent"] is None
    ui("branch", "fast", "copy")
    assert ui("summarize", "copy", "--model", "command:false").out == "They share a cache.\n"
    assert first["sha256"] in Path(first["file"]).read_text()
    append(file, Turn("user", "is it done?"))
    assert ui("summarize", "fast", "--model", model.spec).out == "They share a cache, and it is done.\n"
    assert len(model.prompts) == 2 and "why is it shared?" in model.prompts[0]


def test_a_corrected_summary_stays(ui: Talk, model: Script) -> None:
    model.answers("They share a cache.\n", "Something else.\n")
    saved = Path(ui("summarize", "fast", "--model", model.spec, "--json").json["file"])
    assert ui("summarize", "fast", "--model", model.spec, "--refresh").out == "Something else.\n"
    saved.write_text(saved.read_text().replace("Something else.", "Readers share it."))
    done = ui("summarize", "fast", "--model", model.spec, "--refresh", "--json").json
    assert done["summary"] == "Readers share it." and done["edited"] and len(model.prompts) == 2


@pytest.mark.soak
def test_a_longer_conversation_pays_for_its_end(ui: Talk, model: Script, file: Path) -> None:
    long = [Turn("user", f"request {number} " + "word " * 2200) for number in range(10)]
    append(file, *long)
    model.answers(*(f"Summary {number}.\n" for number in range(9)))
    first = ui("summarize", "fast", "--model", model.spec, "--json").json
    assert first["spent"]["calls"] == len(model.prompts) == 3
    assert "Summary of turns 1 to" in model.prompts[1] and "Summary 0." in model.prompts[1]
    append(file, Turn("user", "the last word"))
    assert ui("summarize", "fast", "--model", model.spec, "--json").json["spent"]["calls"] == 1
    assert "the last word" in model.prompts[3]


def test_many_calls_need_confirmation(ui: Talk, model: Script, file: Path) -> None:
    append(file, *(Turn("user", "word " * 2200) for _ in range(30)))
    model.answers("x\n")
    done = ui("summarize", "fast", "--model", model.spec)
    assert done.code == 2 and "confirm with --yes" in done.err and model.prompts == []


@pytest.mark.parametrize(("answer", "code"), [("\n", 4), ("word " * 2000, 4)])
def test_an_unusable_summary_is_not_saved(
    ui: Talk, model: Script, file: Path, answer: str, code: int
) -> None:
    model.answers(answer)
    assert ui("summarize", "fast", "--model", model.spec).code == code
    assert not list(file.parent.glob(".summaries/*/*.md"))


def test_an_empty_conversation_has_no_summary(ui: Talk, talked: GitRepo) -> None:
    talked.write(
        ".repoagent/conversations/none.md", "# repoagent conversation, version 1, nonce aaaaaaaa\n\n"
    )
    done = ui("summarize", "none", "--model", "command:false")
    assert done.code == 1 and "nothing to summarize" in done.err
