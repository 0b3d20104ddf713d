"""Keys and tokens in a text become placeholders before it is sent or stored, and the placeholders the real text again.

A placeholder is derived from what it stands for, so that the same key has the same one in each prompt, each
conversation and each cached prefix. What it stands for is known to this process only, and written nowhere.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from repoagent.store.assigned import assigned_secrets
from repoagent.store.detector import find_secrets, may_hold_secrets
from repoagent.store.secrets import SHORTEST, secrets_of

PLACEHOLDER = re.compile(r"<<secret ([0-9a-f]{8,64})>>")
SHORT = 65_536  # characters of a text that is looked at once, however often it is masked
MANY = 64  # secrets; looking for each of more of them in a long text takes longer than looking at each of its places
LEAST = 12  # characters of a line of a longer secret, from which on it is masked wherever it stands

_values: dict[str, str] = {}  # of placeholders; of this process, never stored


def mask(text: str) -> str:
    """`text` with a placeholder for each key or token in it; the lines stay the same in number.

    What was found once is masked wherever it stands, also where half of the text around it is missing. Of a secret of
    several lines (a private key) each line is masked but its head and its end.
    """
    (_learn if len(text) <= SHORT else _look)(text)
    if len(_values) > MANY:
        return _mask_many(text)
    for placeholder, value in sorted(_values.items(), key=lambda item: -len(item[1])):  # one may hold another
        if value in text:
            text = text.replace(value, placeholder)
    return text


def _mask_many(text: str) -> str:
    """The same in one pass, whatever the number of secrets: at each place the longest one that begins there."""
    starts: dict[str, list[tuple[str, str]]] = {}
    for placeholder, value in sorted(_values.items(), key=lambda item: -len(item[1])):
        starts.setdefault(value[:SHORTEST], []).append((value, placeholder))
    done, parts = 0, []
    for at in range(len(text) - SHORTEST + 1):
        known = starts.get(text[at : at + SHORTEST])
        if known is None or at < done:
            continue
        for value, placeholder in known:
            if text.startswith(value, at):
                parts += [text[done:at], placeholder]
                done = at + len(value)
                break
    return "".join([*parts, text[done:]])


def unmask(text: str) -> str:
    """`text` with what each placeholder of `mask` stands for; unknown ones stay."""
    if "<<secret " not in text:
        return text
    return PLACEHOLDER.sub(lambda match: _values.get(match[0], match[0]), text)


def placeholders(text: str) -> list[str]:
    """What in `text` has the form of a placeholder."""
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def unknown_in(text: str) -> list[str]:
    """The placeholders in `text` that stand for nothing."""
    return [name for name in placeholders(text) if name not in _values]


@lru_cache(maxsize=2048)  # each request of a long run says again all that the one before it said
def _learn(text: str) -> None:
    _look(text)


def _look(text: str) -> None:
    """Find what is secret in `text`."""
    for value in secrets_in(text):
        _values[_placeholder(value)] = value


def secrets_in(text: str) -> list[str]:
    """The keys, tokens and passwords in `text`; of one of several lines, each line but its head and its end."""
    found = [value for value in assigned_secrets(text) if not PLACEHOLDER.search(value)]
    if may_hold_secrets(text):
        found += [value for secret in find_secrets(text) for value in _lines(secret)]
        found += [value for value in secrets_of().values() if may_hold_secrets(value) and value in text]
    return found


def _placeholder(value: str) -> str:
    digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    size = next(n for n in range(8, 65) if _values.get(f"<<secret {digest[:n]}>>", value) == value)
    return f"<<secret {digest[:size]}>>"


def _lines(secret: str) -> list[str]:
    """What is masked of one secret: all of it, or each of its lines but those that say what it is."""
    lines = [line.strip() for line in secret.strip().splitlines()]
    if len(lines) == 1:
        return lines
    return [line for line in lines if len(line) >= LEAST and "-----" not in line]
