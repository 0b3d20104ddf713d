"""Images and PDFs by their content: type, size, completeness; and errors for other files."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.llm.media import BrokenMedia, media_of, page_count, size_of
from tests.llm.media.files import gif, jpeg, media, pdf, pdf_of, png, webp

Make = Callable[[int, int], bytes]
IMAGES: dict[str, tuple[str, Make]] = {
    "png": ("image/png", png),
    "jpeg": ("image/jpeg", jpeg),
    "progressive": ("image/jpeg", lambda width, height: jpeg(width, height, frame=0xC2)),
    "gif": ("image/gif", gif),
    "webp": ("image/webp", webp),
    "webp lossless": ("image/webp", lambda width, height: webp(width, height, form=b"VP8L")),
    "webp extended": ("image/webp", lambda width, height: webp(width, height, form=b"VP8X")),
}
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


@pytest.mark.parametrize("kind", IMAGES)
def test_a_cut_image_is_refused_wherever_it_is_cut(kind: str) -> None:
    type_, make = IMAGES[kind]
    whole = make(30, 20).removesuffix(b"behind it")
    for end in range(12, len(whole)):
        with pytest.raises(UsageError, match=r"shot\.x (ends too early|is broken)"):
            media_of(whole[:end], "shot.x")
    assert media(whole).type == type_


@pytest.mark.soak
@pytest.mark.parametrize("kind", IMAGES)
@given(data=st.data())
def test_the_size_is_read_from_the_header(kind: str, data: st.DataObject) -> None:
    most = 16_383 if kind.startswith("webp") else 65_535
    width, height = (data.draw(st.integers(1, most)) for _ in range(2))
    type_, make = IMAGES[kind]
    found = media(make(width, height))
    assert (found.type, found.width, found.height) == (type_, width, height)


@pytest.mark.soak
@pytest.mark.parametrize("kind", IMAGES)
@given(junk=st.binary(max_size=200), at=st.integers(0, 60))
def test_no_bytes_break_the_reader(kind: str, junk: bytes, at: int) -> None:
    """Returns a size, or raises the one error that describes the problem."""
    whole = IMAGES[kind][1](30, 20)
    try:
        found = media_of(whole[:at] + junk + whole[at + len(junk) // 2 :], "x")
    except UsageError:
        return
    assert found is None or not found.is_image or (found.width > 0 and found.height > 0)


def test_an_image_of_no_size() -> None:
    for data in (png(0, 5), jpeg(5, 0), gif(0, 0)):
        with pytest.raises(UsageError, match="its header gives no size"):
            media_of(data, "x")
    with pytest.raises(BrokenMedia):
        size_of("image/webp", b"RIFF\x04\0\0\0WEBP")


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


@given(st.binary(max_size=400), st.integers(0, 900))
def test_no_bytes_break_the_counting_of_pages(junk: bytes, at: int) -> None:
    data = pdf(2, packed=True)
    with suppress(BrokenMedia):
        assert page_count(data[:at] + junk + data[at + len(junk) // 2 :]) >= 0


def test_tokens_match_the_documentation_of_the_provider() -> None:
    """The examples of platform.claude.com, for the models with the highest resolution."""
    sizes = {
        (200, 200): 64, (1000, 1000): 1296, (1092, 1092): 1521, (1920, 1080): 2691, (2000, 1500): 3888, (3840, 2160): 4784,
    }  # fmt: skip
    for (width, height), tokens in sizes.items():
        assert media(png(width, height)).tokens == tokens
    assert media(png(60_000, 1)).tokens == 92
    assert media(pdf(10)).tokens == 30_000
