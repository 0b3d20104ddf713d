"""Which strings of a text are keys and tokens: Kingfisher's rules decide, loaded only for a text that may hold one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from repoagent.store.report import to_stderr

if TYPE_CHECKING:
    from kingfisher_sdk import Finding

# What may be random, and how much it changes between letters and digits, small letters and capitals: names hardly do.
_RUN = re.compile(r"[A-Za-z0-9_-]{16,}")
_CHANGE = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])")
CHANGES, OF = 4, 16  # so many in so many characters
_PRIVATE_KEY = "PRIVATE KEY"
UNAVAILABLE = (
    "what may be a key here is sent and kept as it is: install kingfisher-secret-scanner to have it masked"
)


def may_hold_secrets(text: str) -> bool:
    """Whether anything in `text` looks random, or is the head of a private key.

    A look of a millisecond for each 64 KB, since the rules take a third of a second to load and few texts need them.
    Names of programs do not look so, nor do hashes, UUIDs, and names with a short hash (`observation-3a5fc4e1`).
    """
    return _PRIVATE_KEY in text or any(map(_looks_random, set(_RUN.findall(text))))


def _looks_random(run: str) -> bool:
    if not (run.strip("0123456789abcdef-") and run.strip("0123456789ABCDEF-")):
        return False
    pieces = re.split("[_-]", run)
    name = "-".join(piece for piece in pieces if len(piece) >= OF or piece.strip("0123456789abcdef"))
    return any(
        len(piece) >= OF and len(_CHANGE.findall(piece)) * OF >= CHANGES * len(piece)
        for piece in (name, *pieces)
    )


def find_secrets(text: str) -> list[str]:
    """The keys, tokens and private keys in `text` that a rule of Kingfisher's is sure enough of; [] without it.

    What a rule for just any password finds (in a URL) must look random: such rules find the examples of each manual.

    Nothing is sent anywhere: whether a key is valid is not asked. Bytes that are no UTF-8 (as lone surrogates) are in
    none of them.
    """
    scan = _scanner()
    return [] if scan is None else scan(text.encode("utf-8", "replace"))


def _is_sure(found: Finding) -> bool:
    """Whether it is a key by itself: no part of one (of a pair), and no password of just any kind."""
    return found.visible and "generic" not in found.rule_id


@lru_cache(maxsize=1)
def _scanner() -> Callable[[bytes], list[str]] | None:
    """The rules, made ready once: seconds the first time on a machine, a third of one from its cache."""
    try:
        from kingfisher_sdk import Rules, Scanner
    except ImportError:  # no package for this system (Alpine)
        to_stderr(UNAVAILABLE)
        return None
    scanner = Scanner(Rules(confidence="medium"), base64=False)

    def scan(data: bytes) -> list[str]:
        return [
            found.secret
            for found in scanner.scan(data)
            if len(found.secret) >= OF and (_is_sure(found) or may_hold_secrets(found.secret))
        ]

    return scan
