"""The secrets of the environment: which they are, and a text without them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

SHORTEST = 8  # characters; what is shorter is a word like any other, and would be found everywhere
MASK = "***"
# Parts of a variable's name, between underscores, that say so: ANTHROPIC_API_KEY, GITHUB_TOKEN, PGPASSWORD.
_NAME = re.compile(
    r"(^|_)(KEY|TOKEN|PAT|PASS|PWD|PASSPHRASE|AUTH)S?\d*(_|$)|APIKEY|ACCESS_?KEY|SECRET|PASSWOR[DT]|PASSWD|CREDENTIAL"
)
_NO_SECRETS = {"PWD", "OLDPWD"}


def secrets_of(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of those variables whose name says that it is a secret, by name; see SHORTEST.

    The path of a file is none, though the file may hold one.
    """
    return {
        name: value
        for name, value in (os.environ if env is None else env).items()
        if len(value) >= SHORTEST
        and name not in _NO_SECRETS
        and _NAME.search(name.upper())
        and not _is_file(value)
    }


def _is_file(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except OSError:  # too long for one, or in a folder that is not ours
        return False


def without_secrets(text: str, env: Mapping[str, str] | None = None) -> str:
    """`text` with MASK wherever it holds a secret of the environment: for what other programs print."""
    for value in sorted(set(secrets_of(env).values()), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
