"""How many pages a PDF has, and whether it can be read at all."""

from __future__ import annotations

import io
import logging

from repoagent.llm.media.images import Broken

_TAIL = 2_048  # bytes: the mark of the end stands in them; after it there may be something of a mail
_MOST = 32_000_000  # bytes; pypdf takes up to a fifth of a second to search each million


def page_count(data: bytes) -> int:
    """The pages; 0 for a file that is too large to count them.

    Raises Broken for one that is encrypted, cut, or can't be read.
    """
    if b"%%EOF" not in data[-_TAIL:]:
        raise Broken("ends too early: it was cut, or is still being written")
    if len(data) > _MOST:
        return 0
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of each oddity on standard error
    try:
        reader = PdfReader(io.BytesIO(data))
        if not reader.is_encrypted:
            return len(reader.pages)
    except (DependencyError, FileNotDecryptedError):
        pass
    except Exception as error:  # what a broken file leads to is of any kind
        raise Broken("is broken: its pages can't be read; open it and save it as PDF again") from error
    raise Broken("is encrypted: take the password off first (qpdf --decrypt IN.pdf OUT.pdf)")
