"""Images and PDFs by their bytes: what they are, how large, whether they are whole; and a clear no to the rest."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.llm.media import media_of
from repoagent.llm.media.images import Broken, size_of
from repoagent.llm.media.pdf import page_count
from tests.llm.media.files import gif, jpeg, media, pdf, png, webp

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
FOREIGN = {
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0",
    "AVIF": b"\0\0\0\x18ftypavif\0\0\0\0",
    "TIFF": b"II*\0\x08\0\0\0",
    "BMP": b"BM\x9a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + b"\0" * 100,
    "Photoshop": b"8BPS\0\x01" + b"\0" * 20,
    "Office": b"PK\x03\x04\x14\0\x06\0[Content_Types].xml",
    "ZIP": b"PK\x03\x04\x14\0\0\0a.txt",
    "gzip": b"\x1f\x8b\x08\0\0\0",
    "a video": b"\0\0\0\x20ftypisom\0\0\2\0",
    "sound": b"RIFF\x24\0\0\0WAVEfmt ",
}
TEXTS = [
    b"BM is short for Bestmann\n" * 4,
    b"BZh, he said\n",
    b"ID3 tags are old\n",
    b"RIFF and raff\n",
    b"how to tell a PDF: it begins with %PDF-1.7\n",
    b"<svg xmlns='http://www.w3.org/2000/svg'/>\n",
    b"",
]


@pytest.mark.parametrize("what", FOREIGN)
def test_what_can_not_be_sent_is_named_with_what_to_do(what: str) -> None:
    with pytest.raises(UsageError, match=f"photo.x is .*{what}.*, which can't be sent: .{{9}}"):
        media_of(FOREIGN[what], "photo.x")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_stays_one(text: bytes) -> None:
    assert media_of(text, "a.png") is None


@pytest.mark.parametrize("kind", IMAGES)
def test_a_cut_image_is_refused_wherever_it_is_cut(kind: str) -> None:
    type_, make = IMAGES[kind]
    whole = make(30, 20).removesuffix(b"behind it")
    for end in range(12, len(whole) - (kind == "gif")):  # the last byte of a GIF is only its end mark
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
    """A size, or the one error that says what is wrong."""
    whole = IMAGES[kind][1](30, 20)
    try:
        found = media_of(whole[:at] + junk + whole[at + len(junk) // 2 :], "x")
    except UsageError:
        return
    assert found is None or not found.is_image or (found.width > 0 and found.height > 0)


def test_an_image_of_no_size() -> None:
    for data in (png(0, 5), jpeg(5, 0), gif(0, 0)):
        with pytest.raises(UsageError, match="its header says no size"):
            media_of(data, "x")
    with pytest.raises(UsageError, match="no picture in it"):
        media_of(gif()[:25] + b";", "x")


def test_a_gif_without_its_end_mark_and_a_name_that_lies() -> None:
    assert media(gif(ended=False)).type == "image/gif"
    assert media(jpeg(), "shot.png").type == "image/jpeg"


@given(pages=st.integers(1, 300), packed=st.booleans())
def test_pages_are_counted(pages: int, packed: bool) -> None:
    assert media(pdf(pages, packed=packed), "a.pdf").pages == pages
    assert page_count(pdf(pages, packed=packed, plain_tree=False)) == pages


def test_a_pdf_that_was_saved_twice_or_says_nothing() -> None:
    assert page_count(pdf(3) + pdf(3)) == 3
    assert page_count(b"%PDF-1.7\n\n%%EOF\n") == 0
    assert media(b"%PDF-1.7\n" + b"x" * 200_000 + b"\n%%EOF\n").tokens > 10_000  # by its size, then


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pdf(trailer=b"/Encrypt 9 0 R "), "is encrypted: .*qpdf --decrypt"),
        (pdf()[:-20], "ends too early"),
        (pdf() + b"\0" * 5_000, "ends too early"),
    ],
)
def test_a_pdf_that_can_not_be_read(data: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        media_of(data, "a.pdf")


@given(st.binary(max_size=400))
def test_no_bytes_break_the_counting_of_pages(junk: bytes) -> None:
    data = pdf(2, packed=True)
    try:
        assert page_count(data[:60] + junk + data[60:]) >= 0
    except Broken:
        assert b"Encrypt" in junk


def test_a_small_file_that_unpacks_to_a_large_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repoagent.llm.media.pdf._MOST", 100_000)
    bomb = zlib.compress(b"/Type /Page " * 20_000)
    stream = b"1 0 obj << /Type /ObjStm >> stream\n" + bomb + b"\nendstream\n"
    assert 8_000 < page_count(b"%PDF-1.7\n" + stream * 4 + b"%%EOF") <= 100_000 // 12


def test_tokens_follow_what_the_provider_says() -> None:
    """The examples of platform.claude.com, for the models that see the most."""
    sizes = {
        (200, 200): 64,
        (1000, 1000): 1296,
        (1092, 1092): 1521,
        (1920, 1080): 2691,
        (2000, 1500): 3888,
        (3840, 2160): 4784,
    }
    for (width, height), tokens in sizes.items():
        assert media(png(width, height)).tokens == tokens
    assert media(png(60_000, 1)).tokens == 92
    assert media(pdf(10)).tokens == 30_000


def test_size_of_is_total_over_each_type() -> None:
    with pytest.raises(Broken):
        size_of("image/webp", b"RIFF\x04\0\0\0WEBP")


def test_a_pdf_that_is_made_to_take_ages_does_not() -> None:
    """Each of its streams would go on to the end of the file."""
    began = time.process_time()
    assert page_count(b"%PDF-1.7\n" + b"/Type /ObjStm stream\n" * 20_000 + b"endstream %%EOF") == 0
    assert time.process_time() - began < 1.0
