"""Unsupported attachments are reported before anything is sent; and the copies for conversations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from repoagent.config.layers import load
from repoagent.errors import UsageError
from repoagent.llm.cassettes import Recorder, Replay
from repoagent.llm.complete import complete
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.media import Attachments, Media, MediaLimits, refuse_over
from repoagent.llm.model import Model, Reply, render
from repoagent.llm.open_model import attachment_refusal, check_attachments
from repoagent.llm.providers.anthropic import media_limits
from repoagent.llm.providers.command import CommandModel
from repoagent.llm.providers.llamacpp import LocalModel
from repoagent.llm.providers.manual import ManualModel
from repoagent.llm.usage import Meter
from tests.llm.helpers import Scripted
from tests.llm.media.files import media, pdf, png, showing

CLAUDE = media_limits("anthropic", 1_000_000)


def refused(limits: MediaLimits, *shown: Media) -> str:
    with pytest.raises(UsageError) as raised:
        refuse_over(showing(*shown), limits, "some/model")
    return str(raised.value)


def test_attachments_over_a_limit_are_refused() -> None:
    big, mid = media(png(noise=8_000_000), "big.png"), media(png(noise=5_000_000), "mid.png")
    small, paper = media(png(), "a.png"), media(pdf(101), "a.pdf")
    bedrock, old = media_limits("bedrock", 1_000_000), media_limits("anthropic", 200_000)
    assert "big.png has 10,666," in refused(CLAUDE, big)
    assert "accepts at most 10,485,760" in refused(CLAUDE, big)
    assert "accepts at most 5,242,880" in refused(bedrock, mid)
    assert "wide.png is 8001 x 9 pixels" in refused(CLAUDE, media(png(8001, 9), "wide.png"))
    assert "the request would have 3" in refused(CLAUDE, *[mid] * 5)
    assert "accepts at most 100 images at once, not 101" in refused(old, *[small] * 101)
    assert "at most 100 pages at once, but a.pdf has 101" in refused(old, paper)
    refuse_over(showing(mid, paper), CLAUDE, "some/model")


@pytest.mark.parametrize(
    "model",
    [CommandModel("touch asked"), ManualModel(), LocalModel("nowhere.gguf")],
    ids=lambda model: model.spec,
)
def test_a_text_only_model_is_not_called(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [media(png(), name) for name in ("a.png", "b.png", "c.png", "d.png")]
    words = r"accepts only text.*: cannot send a\.png, b\.png, c\.png and 1 more"
    with pytest.raises(UsageError, match=words):
        complete(model, showing(*shown), Meter())
    assert not list(tmp_path.iterdir())


def test_a_prompt_and_a_cassette_contain_the_hash_only(tmp_path: Path) -> None:
    shown = media(png(noise=100_000))
    text = render(showing(shown))
    assert f"[image/png, 30 x 20 pixels, {len(shown.data):,} bytes, sha256 {shown.sha256}]" in text
    assert len(text) < 1_000
    assert text == render(showing(shown)) != render(showing(media(png(noise=100_004))))
    path = tmp_path / "a.jsonl"
    Recorder(Scripted([Reply("a cat", "end")]), path).complete(showing(shown), print)
    assert shown.sha256 in path.read_text() and path.stat().st_size < 2_000
    assert complete(Replay(path), showing(shown), Meter()).text == "a cat"


DOUBT = "cannot tell whether"
NO_IMAGES, NO_PDFS = (f"is not known to accept {kind}" for kind in ("images", "PDFs"))


@pytest.mark.parametrize(
    ("spec", "data", "words"),
    [
        ("openai/gpt-3.5-turbo", png(), NO_IMAGES),
        ("openai/gpt-4", pdf(), NO_PDFS),
        ("openai/gpt-4-turbo", pdf(), NO_PDFS),
        ("ollama/llava:7b", pdf(), '`media` under [models."ollama/llava:7b"]'),
        ("openrouter/deepseek/deepseek-chat", pdf(), NO_PDFS),
        ("bedrock/anthropic.claude-2", png(), NO_IMAGES),
        ("anthropic/claude-2.1", png(), NO_IMAGES),
        ("anthropic/claude-sonnet-5-5", pdf(), ""),
        ("vertex/claude-sonnet-5-5@20260901", png(), ""),
        ("openai/gpt-6.1-sol", png(), ""),
        ("mine/something-new", png(), DOUBT),
    ],
)
def test_known_and_unknown_media(spec: str, data: bytes, words: str) -> None:
    settings, attached = load(None), [media(data)]
    if words in ("", DOUBT):
        assert bool(check_attachments(settings, spec, attached)) is (words == DOUBT)
    else:
        with pytest.raises(UsageError, match=re.escape(words)):
            check_attachments(settings, spec, attached)
    refusal = attachment_refusal(settings, spec, attached)
    assert words in refusal and bool(refusal) is bool(words)
    assert check_attachments(settings, spec, []) == ""


def test_a_model_of_text_only_refuses_before_or_by_itself(tmp_path: Path) -> None:
    settings = load(None)
    for spec in ("manual", "command:cat"):
        assert check_attachments(settings, spec, [media(png())]) == ""  # these raise the error themselves
    assert NO_IMAGES in attachment_refusal(settings, "command:cat", [media(png())])
    wide = media(png(9000, 20), "w.png")
    assert "w.png is 9000 x 20 pixels" in attachment_refusal(settings, "anthropic/claude-sonnet-5-5", [wide])


def test_the_configuration_overrides_the_catalog(clean_environment: Path) -> None:
    config = clean_environment / ".config/repoagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[models."openai/gpt-4"]\nmedia = ["image"]\n[models."mine/new"]\nmedia = []\n')
    assert check_attachments(load(None), "openai/gpt-4", [media(png())]) == ""
    for spec, data, words in (("openai/gpt-4", pdf(), NO_PDFS), ("mine/new", png(), NO_IMAGES)):
        with pytest.raises(UsageError, match=words):
            check_attachments(load(None), spec, [media(data)])
    config.write_text('[models."mine/new"]\nmedia = ["smell"]\n')
    with pytest.raises(UsageError, match="unknown value 'smell': use image or pdf"):
        check_attachments(load(None), "mine/new", [media(png())])


def test_attachments_over_a_limit_are_omitted_in_groups_oldest_first(tmp_path: Path) -> None:
    """So that most requests begin like the previous one."""

    def at_most_twenty(media: Sequence[Media]) -> str:
        return "too many" if len(media) > 20 else ""

    shelf = Attachments(tmp_path, at_most_twenty)
    kept = [shelf.keep(media(png(30 + n, 20), f"{n}.png")) for n in range(30)]
    said = [Turn("observation", "it follows.", {"kind": "read", "attached": one}) for one in kept]
    sent = []
    for n in (20, 21, 28, 29):
        messages = to_messages(said[:n], attached=shelf.of(said[:n]))
        sent.append([one.media is not None for message in messages for one in message.parts])
    assert [some.count(False) for some in sent] == [0, 8, 8, 16]
    assert all(some == sorted(some) for some in sent)
    first = to_messages(said, attached=shelf.of(said))[0].parts[0].text
    assert "0.png is not attached: too many." in first


def test_a_reference_cannot_leave_the_folder(tmp_path: Path) -> None:
    (tmp_path / "key.png").write_bytes(png())
    shelf = Attachments(tmp_path / "copies", lambda media: "")
    for said in ("../key.png 1 key.png", f"{'a' * 32}.png 1 key.png", "key.png", ""):
        found = shelf.of([Turn("observation", "x", {"attached": said})])
        assert not any(isinstance(one, Media) for one in found.values())
