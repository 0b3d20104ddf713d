"""`repoagent conversation edit`: a model's diff is validated, shown, applied and undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append, loads
from repoagent.storage.secrets import mask
from tests.cli.apply_patch import Ask
from tests.cli.conversation.conftest import diff, texts
from tests.conftest import GitRepo
from tests.edit.conftest import Open, Script
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


@pytest.fixture
def rewrite(ui: Ask, script: Script) -> Ask:
    """`repoagent conversation edit fast REQUEST OPTIONS --yes` with the scripted model."""
    return lambda *words: ui("edit", "fast", *words, "--model", script.spec, "--yes")


def test_a_diff_is_applied_and_undone(ui: Ask, rewrite: Ask, script: Script, file: Path) -> None:
    before = file.read_bytes()
    script.replies(SHORTER)
    done = rewrite("leave the list out")
    assert done.code == 0, done.err
    assert done.out == "changed fast (+0 -2); undo it with `repoagent conversation undo fast`\n"
    assert loads(file.read_text()).turns[-1].text == "Because all readers see the same file.\n"
    assert ui("undo", "fast").code == 0 and file.read_bytes() == before
    [prompt] = script.prompts
    assert "leave the list out" in prompt and file.read_text() in prompt
    assert ui("show", "fast", "--json").json["sha256"] in prompt


def test_a_patch_in_a_turn_is_not_applied_and_user_turns_change_with_an_option(
    ui: Ask, rewrite: Ask, script: Script
) -> None:
    script.replies(NO_CODE)
    assert "changed fast (+0 -7);" in rewrite("leave code out").out
    assert texts(ui("show", "fast", "--json"))[1] == "I share the cache."
    script.replies(NO_QUESTION)
    done = rewrite("leave the question out", "--user-turns")
    assert done.code == 0, done.err
    assert len(texts(ui("show", "fast", "--json"))) == 3


def test_one_correction_round(rewrite: Ask, script: Script) -> None:
    script.replies(NOTHING_FITS, SHORTER)
    result = rewrite("shorter", "--json").json
    assert result["written"] and result["spent"]["calls"] == 2
    assert "Nothing was changed. Send the whole diff again" in script.prompts[1]
    assert result["diff"].count("\n-") == 3 and result["words"] == "I did that."


BAD = {
    "what does not fit": (NOTHING_FITS, "nothing was applied"),
    "another file": (SHORTER.replace("conversation.md", "src/app.py"), "nothing was applied"),
    "a conversation that is gone": ("```diff\n--- a/conversation.md\n+++ /dev/null\n```\n", ""),
    "a question left out": (NO_QUESTION, "use --user-turns to allow it"),
    "a key made up": (diff("-- first", "+- <<secret 0123456789>>"), "There is no <<secret 0123456789>>"),
}


def test_a_refusal_changes_nothing(rewrite: Ask, script: Script, file: Path) -> None:
    before = file.read_bytes()
    for name, (answer, why) in BAD.items():
        script.replies(answer, answer)
        done = rewrite("do it")
        assert (done.code, done.out) == (3, "") and why in done.err, name
        assert len(script.prompts) == 2 and file.read_bytes() == before, name
    script.replies("All is well as it is.\n", "Really.\n")  # no error of the model
    done = rewrite("do it")
    assert done.code == 1 and "sent no change; it said: Really." in done.err
    assert not (file.parent / ".past").exists()


def test_a_dry_run_and_the_prompt_write_nothing(ui: Ask, script: Script, file: Path) -> None:
    before = sorted(file.parent.iterdir()), file.read_bytes()
    script.replies(SHORTER, SHORTER)
    words = ("edit", "fast", "shorter", "--model", script.spec, "--dry-run")
    done = ui(*words)
    assert done.code == 0 and "\n-- second\n" in done.out
    assert ui(*words, "--json").json["written"] is False
    shown = ui("edit", "fast", "shorter", "--show-prompt", "--json")
    assert [block["name"] for block in shown.json["blocks"]] == ["instructions", "conversation", "request"]
    assert len(script.prompts) == 2 and (sorted(file.parent.iterdir()), file.read_bytes()) == before


def test_a_concurrent_write_is_not_overwritten(
    talked: GitRepo, rewrite: Ask, script: Script, file: Path
) -> None:
    script.replies(SHORTER)
    script.act(0, f"printf 'and more\\n' >> {file}")
    done = rewrite("shorter")
    assert done.code == 3 and "has changed" in done.err
    assert file.read_text().endswith("- second\nand more\n")
    [saved] = (talked.top / ".git/repoagent/proposals").iterdir()
    assert str(saved) in done.err and "-- second" in saved.read_text()


@pytest.mark.soak
def test_keys_are_masked_and_restored(ui: Ask, rewrite: Ask, script: Script, file: Path) -> None:
    token = made("ghp" + "_", 36)
    append(file, Turn("user", f"use {token}", {"edit": "3"}), Turn("assistant", f"I used {token}.\nDone."))
    script.replies(diff(f" I used {mask(token)}.", "-Done.", "+All done."))
    done = rewrite(f"say all, {token}")
    assert done.code == 0, done.err
    assert token not in "".join(script.prompts) and mask(token) in script.prompts[0]
    assert texts(ui("show", "fast", "--json"))[-1].endswith("\nAll done.")
    assert ui("undo", "fast").code == 0 and token in file.read_text()


def test_the_diff_is_shown_before_the_question(screen: Open, script: Script, file: Path) -> None:
    before = file.read_bytes()
    script.replies(SHORTER, SHORTER)
    for answer, code in (("n", 1), ("y", 0)):
        with screen("conversation", "edit", "fast", "shorter") as window:
            shown = window.answer("Write this to fast [y,n,?]? ", f"{answer}\n")
            assert "- second" in shown and "I did that." in shown
            assert window.end() == code
        assert (file.read_bytes() == before) == (answer == "n")
    with screen("conversation", "edit", "fast", "shorter", "--json") as window:
        window.expect("cannot ask for confirmation with --json")
        assert window.end() == 2 and len(script.prompts) == 2
