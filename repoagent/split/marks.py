"""The byte-order marks that a text may begin with."""

from __future__ import annotations

import codecs

UTF8_MARK = codecs.BOM_UTF8
WIDE_MARKS = {  # the longer ones first: UTF-32 begins as UTF-16 does
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
