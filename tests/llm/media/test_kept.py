"""The copies that a conversation refers to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repoagent.config.layers import load
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.media import Attachments, Media
from repoagent.llm.open_model import attachment_refusal
from repoagent.storage.layout import Layout
from tests.llm.media.files import media, pdf, png


def turns(shelf: Attachments, *found: Media) -> list[Turn]:
    return [
        Turn("observation", "it follows.", {"kind": "read", "attached": shelf.keep(one)}) for one in found
    ]


def test_too_many_at_once_are_left_out_the_oldest_first_and_several_together(tmp_path: Path) -> None:
    """So that most requests begin as the one before."""

    def at_most_twenty(media: Sequence[Media]) -> str:
        return "too many" if len(media) > 20 else ""

    shelf = Attachments(tmp_path, at_most_twenty)
    said = turns(shelf, *(media(png(30 + n, 20), f"{n}.png") for n in range(30)))
    sent = [
        [
            one.media is not None
            for message in to_messages(said[:n], attached=shelf.of(said[:n]))
            for one in message.parts
        ]
        for n in (20, 21, 28, 29)
    ]
    assert [some.count(False) for some in sent] == [0, 8, 8, 16]
    assert all(some == sorted(some) for some in sent)
    first = to_messages(said, attached=shelf.of(said))[0].parts[0].text
    assert "0.png is not attached: too many." in first


def test_a_reference_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "key.png").write_bytes(png())
    shelf = Attachments(tmp_path / "copies", lambda media: "")
    for said in ("../key.png 1 key.png", f"{'a' * 32}.png 1 key.png", "key.png", ""):
        found = shelf.of([Turn("observation", "x", {"attached": said})])
        assert not any(isinstance(one, Media) for one in found.values())


def test_what_each_model_takes_is_known_before(tmp_path: Path) -> None:
    shot, wide, paper = media(png(), "a.png"), media(png(9000, 20), "w.png"), media(pdf(), "p.pdf")
    settings = load(Layout(tmp_path / ".repoagent", tmp_path), cwd=tmp_path)
    claude = "anthropic/claude-sonnet-5-5"
    assert attachment_refusal(settings, claude, [shot, paper]) == ""
    assert "w.png is 9000 x 20 pixels" in attachment_refusal(settings, claude, [shot, wide])
    assert "does not take images" in attachment_refusal(settings, "anthropic/claude-2.1", [shot])
    assert "does not take images" in attachment_refusal(settings, "command:cat", [shot])
    assert "does not take PDFs" in attachment_refusal(settings, "openai/gpt-4-turbo", [paper])
    assert "is not known whether ollama/mine takes images" in attachment_refusal(
        settings, "ollama/mine", [shot]
    )
