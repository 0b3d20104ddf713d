"""Images and PDFs by their content: type, size, completeness; and errors for other files."""

from __future__ import annotations

import time
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.llm.media import media_of, page_count
from tests.llm.media.files import gif, jpeg, media, pdf, pdf_of, png, webp

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
    assert media(jpeg(), "shot.png").type == "image/jpeg"  # the content counts, not the name


def test_an_image_is_recognized_and_a_broken_png_is_refused() -> None:
    for kind, data in IMAGES.items():
        assert media(data).type == kind
    whole = png()
    for end in range(12, len(whole)):
        with pytest.raises(UsageError, match=r"shot\.x (ends too early|is broken)"):
            media_of(whole[:end], "shot.x")
    with pytest.raises(UsageError, match="its header gives no size"):
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
        for packed in (False, True):
            assert media(pdf(pages, packed=packed), "a.pdf").pages == pages


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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pdf(encrypted=True), "is encrypted: .*qpdf --decrypt"),
        (pdf()[:-20], "ends too early"),
        (pdf() + b"\0" * 5_000, "ends too early"),
        (pdf()[:100] + b"%%EOF", "is broken: cannot read its pages"),
        (b"%PDF-1.7\n\n%%EOF\n", "is broken"),
        (b"%PDF-1.7\n" + b" " * 1_000_000 + b"startxref\n9\n%%EOF", "is broken"),
        (pdf_of(CATALOG, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 5 >>"), "is broken"),
        (pdf_of(CATALOG, b"[" * 20_000), "is broken"),
        (pdf_of(CATALOG, *(b"<< /Type /Pages /Kids [%d 0 R] >>" % (n + 3) for n in range(3000))), "is broken"),
        (pdf_of(CATALOG, *DOUBLING, b"<< /Type /Page >>"), "is broken"),
        (b"%PDF-1.7\n" + XREF + zlib.compress(bytes(300_000_000)) + b"\nendstream\nendobj\nstartxref\n9\n%%EOF", "is broken"),
    ],
)  # fmt: skip
def test_an_unreadable_pdf(data: bytes, words: str) -> None:
    began = time.process_time()
    with pytest.raises(UsageError, match=f"a.pdf {words}"):
        media_of(data, "a.pdf")
    assert time.process_time() - began < 5.0


def test_tokens_match_the_documentation_of_the_provider() -> None:
    """The examples of platform.claude.com, for the models with the highest resolution."""
    sizes = {
        (200, 200): 64, (1000, 1000): 1296, (1092, 1092): 1521, (1920, 1080): 2691, (2000, 1500): 3888, (3840, 2160): 4784,
    }  # fmt: skip
    for (width, height), tokens in sizes.items():
        assert media(png(width, height)).tokens == tokens
    assert media(png(60_000, 1)).tokens == 92
    assert media(jpeg()).tokens == 4784  # of unknown size
    assert media(pdf(10)).tokens == 30_000
