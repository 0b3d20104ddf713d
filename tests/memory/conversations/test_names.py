"""Names: which are taken, which are refused, and that none leads out of the folder."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.memory.conversations import check_name, refuse_reserved

BAD = [
    "", "  ", ".", "..", ".past", "-x", "a/b", "../../etc/passwd", "src/../../x", "a\\b", "file:a.py", "a\0b", "a\nb",
    "a\x1b[31m", "a\u202eb", "a\udcff", " a", "a ", "a.", "notes.md", "x" * 201, "名" * 67,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str) -> None:
    with pytest.raises(UsageError, match=r"invalid conversation name .* use file:PATH"):
        check_name(name)


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
