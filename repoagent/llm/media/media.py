"""One image or PDF, and what is known of it: its size, its pages, about how many tokens it is."""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from typing import Literal, get_args

from repoagent.dataclass import dataclass

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
PDF: Literal["application/pdf"] = "application/pdf"

# A token for each patch of so many pixels a side; what is larger is made smaller first, and then has at most so many.
# As of platform.claude.com, "Vision", 2026, for Claude Opus 4.7 and later; earlier models have a third of it at most.
_PATCH, _LONGEST, _MOST = 28, 2576, 4784
# Of one page, as text and as an image: the upper end of what platform.claude.com, "PDF support", names for the text.
_PAGE = 3_000
_PAGE_BYTES = 50_000  # of a page, where the pages could not be counted; rather too few than too many


@dataclass(frozen=True)
class Media:
    """The bytes of a file and their type. `name` is for people and the model. `width` and `height` are pixels of an
    image; `pages` those of a PDF, 0 where it is too large to count them."""

    type: MediaType
    data: bytes = field(repr=False)
    name: str = ""
    width: int = 0
    height: int = 0
    pages: int = 0

    @property
    def is_image(self) -> bool:
        return self.type in get_args(ImageType)

    @property
    def sha256(self) -> str:
        """The hash of the bytes, in hexadecimal."""
        return sha256(self.data).hexdigest()

    @property
    def tokens(self) -> int:
        """About how many tokens it is, rather too many than too few; for limits, not for bills."""
        if not self.is_image:
            return _PAGE * (self.pages or -(-len(self.data) // _PAGE_BYTES))
        scale = min(1.0, _LONGEST / max(self.width, self.height, 1))
        across, down = (max(1, round(side * scale)) for side in (self.width, self.height))
        return min(_MOST, -(-across // _PATCH) * -(-down // _PATCH))

    @property
    def base64_size(self) -> int:
        """How many bytes it has as it is sent."""
        return 4 * -(-len(self.data) // 3)

    def described(self) -> str:
        """What it is, in a few words: "image/png, 800 x 600 pixels, 12,345 bytes"."""
        if self.is_image:
            size = f", {self.width} x {self.height} pixels"
        else:
            size = f", {self.pages} page{'s' * (self.pages != 1)}" if self.pages else ""
        return f"{self.type}{size}, {len(self.data):,} bytes"

    def in_words(self) -> str:
        """A line that stands for it where there is only text: in what is kept of a prompt, and in a cassette."""
        return f"[{self.described()}, sha256 {self.sha256}]\n"
