"""Images and PDFs by their content, attachments of requests, and their copies for conversations."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.config.layers import load_settings
from repoagent.errors import UsageError
from repoagent.llm.cassettes import Recorder, Replay
from repoagent.llm.complete import complete
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.media import Attachments, Media, media_of, page_count, refuse_over
from repoagent.llm.model import Reply, render_request
from repoagent.llm.open_model import attachment_refusal, check_attachments
from repoagent.llm.providers.command import CommandModel
from repoagent.llm.providers.llamacpp import LocalModel
from repoagent.llm.providers.manual import ManualModel
from repoagent.llm.usage import Meter
from tests.llm.helpers import Scripted
from tests.llm.media.files import gif, jpeg, media, pdf, pdf_of, png, showing, webp

IMAGES = {"image/png": png(), "image/jpeg": jpeg(), "image/gif": gif(), "image/webp": webp()}
OTHER = [
    b"BM is short for Bestmann\n" * 4,
    b"BZh, he said\n",
    b"ID3 tags are old\n",
    b"RIFF and raff\n",
    b"how to tell a PDF: it begins with %PDF-1.7\n",
    b"<svg xmlns='http://www.w3.org/2000/svg'/>\n",
    b"",
    b"\0\0\0\x18ftypheic\0\0\0\0",
    b"PK\x03\x04\x14\0\0\0a.txt",
]


def test_other_content_is_not_media() -> None:
    for text in OTHER:
        assert media_of(text, "a.png") is None


def test_an_image_is_recognized_and_a_broken_png_is_refused() -> None:
    for kind, data in IMAGES.items():
        assert media(data, "shot.png").type == kind  # the content counts, not the name
    whole = png()
    for end in range(12, len(whole)):
        with pytest.raises(UsageError, match=r"shot\.x is truncated or broken"):
            media_of(whole[:end], "shot.x")
    with pytest.raises(UsageError, match="truncated or broken"):
        media_of(png(0, 5), "x")


@pytest.mark.soak
@given(st.integers(1, 65_535), st.integers(1, 65_535), st.binary(max_size=200), st.integers(0, 60))
def test_the_size_is_read_from_the_header_and_no_bytes_break_the_reader(
    width: int, height: int, junk: bytes, at: int
) -> None:
    whole = png(width, height)
    found = media(whole)
    assert (found.width, found.height) == (width, height)
    with suppress(UsageError):
        found = media_of(whole[:at] + junk + whole[at + len(junk) // 2 :], "x")
        assert found is None or not found.is_image or (found.width > 0 and found.height > 0)


def test_pages_are_counted() -> None:
    for pages in (0, 1, 300):
        assert media(pdf(pages), "a.pdf").pages == pages


def test_a_pdf_with_minor_defects_is_counted_silently(capfd: pytest.CaptureFixture[str]) -> None:
    assert page_count(pdf(3) + b"\n-- \nsent by mail\n") == 3
    assert page_count(pdf(3).replace(b"startxref\n", b"startxref\n9")) == 3
    assert page_count(pdf(3).replace(b"/Count 3", b"/Count 9999999")) == 3
    assert capfd.readouterr() == ("", "")


def test_the_pages_of_a_large_pdf_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repoagent.llm.media._LARGEST_COUNTED", 200)
    found = media(pdf(3), "a.pdf")
    assert found.pages == 0 and found.tokens > 0


CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
DOUBLING = (b"<< /Type /Pages /Kids [%b%b] >>" % ((b"%d 0 R " % (n + 3),) * 2) for n in range(40))
XREF = b"1 0 obj\n<< /Type /XRef /Size 9 /W [1 2 1] /Filter /FlateDecode /Length 1000000 /Root 1 0 R >>\nstream\n"


_packer = zlib.compressobj()
_ZLIB_HEAD = _packer.compress(b"") + _packer.flush(zlib.Z_FULL_FLUSH)
ZEROS = _packer.compress(bytes(1_000_000)) + _packer.flush(zlib.Z_FULL_FLUSH)  # can be repeated


@pytest.mark.parametrize("data", [
    pdf(encrypted=True),
    pdf()[:-20],
    pdf() + b"\0" * 5_000,
    pdf()[:100] + b"%%EOF",
    b"%PDF-1.7\n\n%%EOF\n",
    b"%PDF-1.7\n" + b" " * 1_000_000 + b"startxref\n9\n%%EOF",
    pdf_of(CATALOG, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 5 >>"),
    pdf_of(CATALOG, b"[" * 20_000),
    pdf_of(CATALOG, *(b"<< /Type /Pages /Kids [%d 0 R] >>" % (n + 3) for n in range(3000))),
    pdf_of(CATALOG, *DOUBLING, b"<< /Type /Page >>"),
    b"%PDF-1.7\n"
    + XREF
    + _ZLIB_HEAD
    + ZEROS * 300
    + b"\nendstream\nendobj\nstartxref\n9\n%%EOF",
])  # fmt: skip
def test_an_unreadable_pdf(data: bytes) -> None:
    began = time.process_time()
    reason = r"cannot read the pages of a\.pdf: it is truncated, broken or encrypted"
    with pytest.raises(UsageError, match=reason):
        media_of(data, "a.pdf")
    assert time.process_time() - began < 5.0


def test_tokens_match_the_documentation_of_the_provider() -> None:
    """The examples of platform.claude.com, for the models with the highest resolution."""
    sizes = {
        (200, 200): 64, (1000, 1000): 1296, (1092, 1092): 1521, (1920, 1080): 2691, (2000, 1500): 3888, (3840, 2160): 4784,
        (60_000, 1): 92,
    }  # fmt: skip
    assert {size: media(png(*size)).tokens for size in sizes} == sizes
    assert media(jpeg()).tokens == 4784  # of unknown size
    assert media(pdf(10)).tokens == 30_000


# Attachments: what a model does not accept is reported before anything is sent.


def test_attachments_over_a_limit_are_refused() -> None:
    big, mid = media(png(noise=8_000_000), "big.png"), media(png(noise=5_000_000), "mid.png")
    for shown, words in (
        ([big], r"big.png is 10,666,.* accepts at most 10,485,760"),
        ([media(png(8001, 9), "wide.png")], "wide.png is 8001 x 9 pixels"),
        ([mid] * 4, "the attachments are 26,.* one request may have 24,000,000"),
    ):
        with pytest.raises(UsageError, match=words):
            refuse_over(showing(*shown), "some/model")
    refuse_over(showing(mid, media(pdf(101), "a.pdf")), "some/model")


def test_a_text_only_model_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [media(png(), name) for name in ("a.png", "b.png", "c.png", "d.png")]
    words = r"accepts only text.*: cannot send a\.png, b\.png, c\.png and 1 more"
    for model in (CommandModel("touch asked"), ManualModel(), LocalModel("nowhere.gguf")):
        with pytest.raises(UsageError, match=words):
            complete(model, showing(*shown), Meter())
    assert not list(tmp_path.iterdir())


def test_a_prompt_and_a_cassette_contain_the_hash_only(tmp_path: Path) -> None:
    shown = media(png(noise=100_000))
    text = render_request(showing(shown))
    assert f"[image/png, 30 x 20 pixels, {len(shown.data):,} bytes, sha256 {shown.sha256}]" in text
    assert len(text) < 1_000
    assert text == render_request(showing(shown)) != render_request(showing(media(png(noise=100_004))))
    path = tmp_path / "a.jsonl"
    Recorder(Scripted([Reply("a cat", "end")]), path).complete(showing(shown), print)
    assert shown.sha256 in path.read_text() and path.stat().st_size < 2_000
    assert complete(Replay(path), showing(shown), Meter()).text == "a cat"


DOUBT = "cannot tell whether"
NO_IMAGES, NO_PDFS = (f"is not known to accept {kind}" for kind in ("images", "PDFs"))


@pytest.mark.parametrize(("spec", "data", "words"), [
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
])  # fmt: skip
def test_known_and_unknown_media(spec: str, data: bytes, words: str) -> None:
    settings, attached = load_settings(None), [media(data)]
    if words in ("", DOUBT):
        assert bool(check_attachments(settings, spec, attached)) is (words == DOUBT)
    else:
        with pytest.raises(UsageError, match=re.escape(words)):
            check_attachments(settings, spec, attached)
    refusal = attachment_refusal(settings, spec, attached)
    assert words in refusal and bool(refusal) is bool(words)
    assert check_attachments(settings, spec, []) == ""


def test_a_model_of_text_only_refuses_before_or_by_itself() -> None:
    settings = load_settings(None)
    for spec in ("manual", "command:cat"):
        assert check_attachments(settings, spec, [media(png())]) == ""  # these raise the error themselves
    assert NO_IMAGES in attachment_refusal(settings, "command:cat", [media(png())])
    wide = media(png(9000, 20), "w.png")
    assert "w.png is 9000 x 20 pixels" in attachment_refusal(settings, "anthropic/claude-sonnet-5-5", [wide])


def test_what_a_run_does_not_send_because_claude_would_reject_it() -> None:
    settings, heavy = load_settings(None), media(png() + bytes(5_000_000), "heavy.png")
    bedrock, claude = "bedrock/anthropic.claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"
    assert "heavy.png is 6,6" in attachment_refusal(settings, bedrock, [heavy])
    assert attachment_refusal(settings, claude, [heavy]) == ""
    assert "at most 600 images" in attachment_refusal(settings, claude, [media(png())] * 601)


def test_the_configuration_overrides_the_catalog(clean_environment: Path) -> None:
    config = clean_environment / ".config/repoagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[models."openai/gpt-4"]\nmedia = ["image"]\n[models."mine/new"]\nmedia = []\n')
    assert check_attachments(load_settings(None), "openai/gpt-4", [media(png())]) == ""
    for spec, data, words in (("openai/gpt-4", pdf(), NO_PDFS), ("mine/new", png(), NO_IMAGES)):
        with pytest.raises(UsageError, match=words):
            check_attachments(load_settings(None), spec, [media(data)])
    config.write_text('[models."mine/new"]\nmedia = ["smell"]\n')
    with pytest.raises(UsageError, match="unknown value 'smell': use image or pdf"):
        check_attachments(load_settings(None), "mine/new", [media(png())])


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
