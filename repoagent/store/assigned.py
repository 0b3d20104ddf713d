"""Secrets that are known by what stands before them: `DB_PASSWORD=`, `Authorization: Bearer`, a line of `.netrc`.

Each pattern begins with a fixed word and takes a bounded number of characters, so a search takes linear time.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

LEAST = 8  # characters of a password
ENOUGH = 12  # from which on two kinds of characters are enough for one
LONG = 20  # characters from which on a value may be random without symbols in it
CHANGES = (
    0.3  # of the characters of a random value, so many begin another kind: names and sentences hardly do
)

# Between quotes anything but white space is a value; without them what the syntax around it needs ends it.
_VALUE = r"(?:[\"'`]([^\s\"'`]{8,4096})[\"'`]|([^\s\"'`<>{}()\[\],;|\\]{8,4096}))"
# Cases are spelled out: a search that ignores them takes three times as long.
_ASSIGNED = re.compile(
    r"(?:[Kk](?:ey|EY)(?:-data|_base|_BASE)?|[Tt](?:oken|OKEN)|[Ss](?:ecret|ECRET)|[?&]sig|[Aa](?:uth|UTH)"
    r"|[Pp](?:(?:ass|ASS)(?:[Ww](?:or|OR)?[Dd]|phrase|PHRASE)?|wd|WD))"
    r"(?:[\"'\]]{0,2}[ \t]{0,16}(?:=>|:=|[:=>])[ \t]{0,16}|[\"']?,?[ \t]{1,4}(?=['\"]))" + _VALUE
)
_HEADER = re.compile(
    r"(?:[Bb](?:earer|EARER|(asic|ASIC))|[Tt]oken|[Aa]pi[Kk]ey)[ \t]{1,4}([A-Za-z0-9+/=._~-]{16,4096})"
)
_URL = re.compile(r"://[^\s/:@\"'<>]{0,64}:([^\s/@\"'<>]{8,256})@")
_NETRC = re.compile(r"login[ \t\n]{1,16}\S{1,128}[ \t\n]{1,16}password[ \t\n]{1,16}(\S{8,256})")
_PGPASS = re.compile(r"(?m):(?:[0-9]{1,5}|\*):[^:\s]{1,64}:[^:\s]{1,64}:([^\s:]{8,256})$")
_CURL = re.compile(r" -(?:u|-user)[ =]?[\"']?[\w.@-]{1,64}:([^\s\"'$]{8,256})")

# What stands before `key` and the like and says that it is none, and a `key` alone that any table has.
_PUBLIC = re.compile(
    r"(?:pub(?:lic)?|publishable|cache|foreign|primary|sort|partition|row|object|idempotency|translation|i18n|site|lock"
    r"|group|index|sharding|routing)[ _.-]?\Z|(?:^|[^\w.-])\Z",
    re.IGNORECASE,
)
_BEFORE = 16
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OF_UUIDS = re.compile(
    r"(?:api_?key|access_?key|secret|auth_?token|api_?token|access_?token|passw)", re.IGNORECASE
)
_HEX = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)
_DUMMY = re.compile(
    r"example|your|placeholder|change.?me|dummy|sample|redacted|replace|insert|xxxx|\*\*\*|\.\.\.|\$\{|\$\(|%\(|\{\{|^<"
    r"|0123456789|1234567890|abcdef0|^test|^fake|^(?:pass|secret|admin|root|hunter|welcome|letmein|qwerty)",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9]|[A-Z][a-z])|[0-9](?=[A-Za-z])"
    r"|[^A-Za-z0-9_./:-](?=[A-Za-z0-9])|[A-Za-z0-9](?=[^A-Za-z0-9_./:-])"
)
_LEET = str.maketrans("4@013$5", "aaoiess")
_HEAD = 64  # characters of a value that are looked at for words: in a long one they are chance
_CODE = re.compile(
    r"^[$@%&]|://|^arn:|\.(?:pem|key|crt|json|ya?ml|txt|py|js|ts|env)$|^[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$"
)


def assigned_secrets(text: str) -> Iterator[str]:
    """The secrets in `text` that what stands before them gives away; some more than once."""
    for match in _ASSIGNED.finditer(text):
        if _is_secret(text[max(0, match.start() - _BEFORE) : match.start()], match):
            yield match[1] or match[2]
    for match in _HEADER.finditer(text):
        if _is_pair(match[2]) if match[1] else _is_random(match[2]):
            yield match[2]
    for pattern in (_URL, _NETRC, _PGPASS, _CURL):
        yield from (match[1] for match in pattern.finditer(text) if _is_password(match[1]))


def _is_secret(before: str, match: re.Match[str]) -> bool:
    """Whether the name, the end of which is the start of `match`, has a secret for its value."""
    name, value = match[0].lower(), match[1] or match[2]
    if name.startswith("auth") and _is_pair(value):
        return True
    if name.startswith("key") and _PUBLIC.search(before):
        return False
    if _UUID.fullmatch(value):
        return _OF_UUIDS.search(before + name) is not None
    if _HEX.fullmatch(value):
        return len(set(value)) >= LEAST and not _DUMMY.search(value)
    if name.startswith(("pass", "pwd")):
        return _is_password(value)
    return _is_random(value)


def _is_pair(value: str) -> bool:
    """Whether it is `user:password` in base64."""
    try:
        user, colon, password = (
            base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode().partition(":")
        )
    except ValueError:
        return False
    return bool(user and colon) and _is_password(password)


def _is_random(value: str) -> bool:
    """Whether nobody has written it: long, and letters, digits and symbols mixed."""
    return len(value) >= LONG and _mixed(value) >= CHANGES * len(value) and not _is_dummy(value)


def _is_password(value: str) -> bool:
    """Whether it is one that a program or a careful person has made: no word, and no word with a number."""
    if len(value) < LEAST or _is_dummy(value):
        return False
    kinds = sum(any(map(kind, value)) for kind in (str.isupper, str.islower, str.isdigit, _is_symbol))
    return kinds >= 3 - (len(value) >= ENOUGH) and _mixed(value) >= max(3, CHANGES * len(value))


def _is_dummy(value: str) -> bool:
    head = value[:_HEAD]
    return bool(_DUMMY.search(head) or _DUMMY.search(head.translate(_LEET)) or _CODE.search(value))


def _is_symbol(letter: str) -> bool:
    return not letter.isalnum() and letter not in "_-./:"


def _mixed(value: str) -> int:
    """How often one kind of character follows another; a word with a capital counts once, a separator not at all."""
    return len(_CHANGE.findall(value))
