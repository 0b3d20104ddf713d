"""`repoagent conversation edit`: a model's diff is validated, shown, applied and undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append, loads
from repoagent.storage.secrets import mask
from tests.cli.conversation.conftest import Script, Talk, diff, texts
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.prompt.test_masking import made

SHORTER = diff(" Because all readers see the same file.", " ", "-- first", "-- second")
NOTHING_FITS = diff(" Because of something.", "-- first")
NO_QUESTION = diff(
    "-## [aaaaaaaa] user · time=2026-11-21T10:00:00+00:00 · edit=2",
    "-why is it shared?",
    "-## [aaaaaaaa] assistant",
    "-Because all readers see the same file.",
    "-",
    "-- first",
    "-- second",
)
NO_CODE = diff(
    " I share the cache.",
    "-```diff",
    "---- a/a.py",
    "-+++ b/a.py",
    "-@@ -1 +1 @@",
    "--x = 1",
    "-+x = 2",
    "-```",
    " ## [aaaaaaaa] observation · kind=edit · ok=yes",
)


@pytest.fixture
def file(talked: GitRepo) -> Path:
    return talked.top / ".repoagent/conversations/fast.md"


def test_a_diff_is_applied_and_undone(ui: Talk, model: Script, file: Path) -> None:
    before = file.read_bytes()
    model.answers(SHORTER)
    done = ui("edit", "fast", "leave the list out", "--model", model.spec, "--yes")
    assert done.code == 0, done.err
    assert done.out == "changed fast (+0 -2); undo it with `repoagent conversation undo fast`\n"
    assert loads(file.read_text()).turns[-1].text == "Because all readers see the same file.\n"
    assert ui("undo", "fast").code == 0 and file.read_bytes() == before
    [prompt] = model.prompts
    assert "leave the list out" in prompt and file.read_text() in prompt
    assert ui("show", "fast", "--json").json["sha256"] in prompt


def test_a_patch_in_a_turn_is_not_applied(ui: Talk, model: Script, file: Path) -> None:
    model.answers(NO_CODE)
    done = ui("edit", "fast", "leave code out", "--model", model.spec, "--yes", "--json")
    assert done.code == 0, done.out
    assert texts(ui("show", "fast", "--json"))[1] == "I share the cache."


def test_one_correction_round(ui: Talk, model: Script, file: Path) -> None:
    model.answers(NOTHING_FITS, SHORTER)
    done = ui("edit", "fast", "shorter", "--model", model.spec, "--yes", "--json")
    assert done.json["written"] and done.json["spent"]["calls"] == 2
    assert "Nothing was changed. Send the whole diff again" in model.prompts[1]
    assert done.json["diff"].count("\n-") == 3 and done.json["words"] == "I did that."


BAD = {
    "what does not fit": (NOTHING_FITS, "nothing was applied"),
    "another file": (SHORTER.replace("conversation.md", "src/app.py"), "nothing was applied"),
    "a conversation that is gone": ("```diff\n--- a/conversation.md\n+++ /dev/null\n```\n", ""),
    "the person's words": (diff("-why is it shared?", "+is it shared?"), "use --user-turns to allow it"),
    "a question left out": (NO_QUESTION, "use --user-turns to allow it"),
    "the first line": (
        diff("-# repoagent conversation, version 1, nonce aaaaaaaa", "+# repoagent"),
        "not a valid conversation",
    ),
    "another nonce": (
        diff(
            "-# repoagent conversation, version 1, nonce aaaaaaaa",
            "+# repoagent conversation, version 1, nonce bbbbbbbb",
        ),
        "before the first turn",
    ),
    "two answers": (
        diff(" I share the cache.", "+## [aaaaaaaa] assistant", "+And more."),
        "(assistant) cannot follow assistant",
    ),
    "a key made up": (diff("-- first", "+- <<secret 0123456789>>"), "There is no <<secret 0123456789>>"),
}


def test_a_refusal_changes_nothing(ui: Talk, model: Script, file: Path) -> None:
    before = file.read_bytes()
    for name, (answer, why) in BAD.items():
        for old in model.folder.glob("prompt-*"):
            old.unlink()
        model.answers(answer, answer)
        done = ui("edit", "fast", "do it", "--model", model.spec, "--yes")
        assert (done.code, done.out) == (3, "") and why in done.err, name
        assert len(model.prompts) == 2 and file.read_bytes() == before, name
    assert not (file.parent / ".past").exists()


def test_no_change_is_not_an_error_of_the_model(ui: Talk, model: Script, file: Path) -> None:
    model.answers("All is well as it is.\n", "Really.\n")
    done = ui("edit", "fast", "do it", "--model", model.spec, "--yes")
    assert done.code == 1 and "sent no change; it said: Really." in done.err


def test_user_turns_change_only_with_the_option(ui: Talk, model: Script) -> None:
    model.answers(NO_QUESTION)
    done = ui("edit", "fast", "leave the question out", "--user-turns", "--model", model.spec, "--yes")
    assert done.code == 0, done.err
    assert len(texts(ui("show", "fast", "--json"))) == 3


def test_a_dry_run_and_the_prompt_write_nothing(ui: Talk, model: Script, file: Path) -> None:
    before = sorted(file.parent.iterdir()), file.read_bytes()
    model.answers(SHORTER)
    done = ui("edit", "fast", "shorter", "--model", model.spec, "--dry-run")
    assert done.code == 0 and "\n-- second\n" in done.out
    shown = ui("edit", "fast", "shorter", "--show-prompt", "--json")
    assert [block["name"] for block in shown.json["blocks"]] == ["instructions", "conversation", "request"]
    assert len(model.prompts) == 1 and (sorted(file.parent.iterdir()), file.read_bytes()) == before


def test_a_concurrent_write_is_not_overwritten(talked: GitRepo, model: Script, file: Path, ui: Talk) -> None:
    model.answers(SHORTER)
    script = model.folder / "model.sh"
    script.write_text(script.read_text() + f"printf 'and more\\n' >> {file}\n")
    done = ui("edit", "fast", "shorter", "--model", model.spec, "--yes")
    assert done.code == 3 and "has changed" in done.err
    assert file.read_text().endswith("- second\nand more\n")
    [saved] = (talked.top / ".git/repoagent/proposals").iterdir()
    assert str(saved) in done.err and "-- second" in saved.read_text()


@pytest.mark.soak
def test_keys_are_masked_and_restored(ui: Talk, model: Script, file: Path) -> None:
    token = made("ghp" + "_", 36)
    append(file, Turn("user", f"use {token}", {"edit": "3"}), Turn("assistant", f"I used {token}.\nDone."))
    model.answers(diff(f" I used {mask(token)}.", "-Done.", "+All done."))
    done = ui("edit", "fast", f"say all, {token}", "--model", model.spec, "--yes")
    assert done.code == 0, done.err
    assert token not in "".join(model.prompts) and mask(token) in model.prompts[0]
    assert texts(ui("show", "fast", "--json"))[-1].endswith("\nAll done.")
    assert ui("undo", "fast").code == 0 and token in file.read_text()


def test_the_diff_is_shown_before_the_question(talked: GitRepo, model: Script, file: Path) -> None:
    before = file.read_bytes()
    model.answers(SHORTER, SHORTER)
    command = [*PROGRAM, "conversation", "edit", "fast", "shorter", "--model", model.spec]
    for answer, code in (("n", 1), ("y", 0)):
        with Screen(command, talked.top) as window:
            shown = window.expect("Write this to fast [y,n,?]? ")
            assert "- second" in shown and "I did that." in shown
            window.send(f"{answer}\n")
            assert window.end() == code
        assert (file.read_bytes() == before) == (answer == "n")
