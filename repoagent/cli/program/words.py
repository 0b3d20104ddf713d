"""The words of a person for a model, from a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from repoagent.errors import UsageError


def words_in(file: Path, what: str) -> str:
    """The text of `file`, of standard input for "-". `what` it is is said where it is no UTF-8. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the {what} in {file} is no UTF-8 text: save it as UTF-8") from error
