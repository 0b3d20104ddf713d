"""Names: which are taken, which are refused, and that none leads out of the folder."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.memory.conversations import check_name, refuse_reserved

BAD = {
    "": "empty",
    "  ": "empty",
    ".": "dot",
    "..": "dot",
    ".past": "begin with a dot",
    "-x": "a dot or a dash",
    "a/b": "a slash; use file:PATH for the conversation about a file",
    "../../etc/passwd": "dot",
    "src/../../x": "a slash",
    "a\\b": "a slash",
    "file:a.py": "cannot contain any of :",
    "a\0b": "unprintable",
    "a\nb": "unprintable",
    "a\x1b[31m": "unprintable",
    "a\u202eb": "unprintable",
    "a\udcff": "unprintable",
    " a": "a space",
    "a ": "a space",
    "a.": "a dot",
    "notes.md": "leave out the ending .md",
    "x" * 201: "longer than 200 bytes",
    "名" * 67: "longer than 200 bytes",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str) -> None:
    with pytest.raises(UsageError, match="invalid conversation name") as caught:
        check_name(name)
    assert BAD[name] in str(caught.value)


@pytest.mark.parametrize("name", ["edit-1", "EDIT-1", "kept-x", "run-2026", "Chat-a"])
def test_reserved_names(name: str) -> None:
    assert check_name(name) == name
    with pytest.raises(UsageError, match="is reserved"):
        refuse_reserved(name)


def test_one_name_for_both_forms_of_a_letter() -> None:
    assert check_name(unicodedata.normalize("NFD", "café")) == "café"


@settings(max_examples=60)
@given(st.text(max_size=300))
def test_no_name_leads_anywhere_else(name: str) -> None:
    try:
        valid = check_name(name)
    except UsageError:
        return
    assert (
        valid == check_name(valid) and "/" not in valid and not valid.startswith(".") and valid.isprintable()
    )
    assert len(f"{valid}.md.lock".encode()) < 255
