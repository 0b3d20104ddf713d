"""The byte-order marks that a text may begin with."""

from __future__ import annotations

import codecs

UTF8_MARK = codecs.BOM_UTF8
WIDE_MARKS = {  # the longer ones first: UTF-32 begins as UTF-16 does
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
