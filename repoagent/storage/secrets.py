"""Find keys, tokens and passwords in texts, and replace them by placeholders before a text is sent or stored.

They are found as values of environment variables with telling names, by the rules of Kingfisher (loaded only for a text
that may hold a key), and by what precedes them: `DB_PASSWORD=`, `Authorization: Bearer`, a line of `.netrc`. Each own
pattern begins with a fixed word and takes a bounded number of characters, so a search takes linear time.

A placeholder is derived from its secret, so the same key has the same one in each prompt, conversation and cached
prefix. What it stands for is known to this process only.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.storage.layout import to_stderr

if TYPE_CHECKING:
    from kingfisher_sdk import Finding

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


# What may be random, and how much it changes between letters and digits, small letters and capitals: names hardly do.
_RUN = re.compile(r"[A-Za-z0-9_-]{16,}")
_CHANGE = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])")
CHANGES, OF = 4, 16  # so many in so many characters
_PRIVATE_KEY = "PRIVATE KEY"
UNAVAILABLE = "keys in texts are sent and stored unmasked: install kingfisher-secret-scanner to mask them"


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


def _is_sure(finding: Finding) -> bool:
    """Whether it is a key by itself: no part of one (of a pair), and no password of just any kind."""
    return finding.visible and "generic" not in finding.rule_id


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
            finding.secret
            for finding in scanner.scan(data)
            if len(finding.secret) >= OF and (_is_sure(finding) or may_hold_secrets(finding.secret))
        ]

    return scan


LEAST_VALUE = 8  # characters of a password
ENOUGH = 12  # from which on two kinds of characters are enough for one
LONG = 20  # characters from which on a value may be random without symbols in it
RANDOM_CHANGES = (
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
_KIND_CHANGE = re.compile(
    r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9]|[A-Z][a-z])|[0-9](?=[A-Za-z])"
    r"|[^A-Za-z0-9_./:-](?=[A-Za-z0-9])|[A-Za-z0-9](?=[^A-Za-z0-9_./:-])"
)
_LEET = str.maketrans("4@013$5", "aaoiess")
_HEAD = 64  # characters of a value that are looked at for words: in a long one they are chance
_CODE = re.compile(
    r"^[$@%&]|://|^arn:|\.(?:pem|key|crt|json|ya?ml|txt|py|js|ts|env)$|^[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$"
)


def assigned_secrets(text: str) -> Iterator[str]:
    """The secrets in `text` that their context gives away; some more than once."""
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
        return len(set(value)) >= LEAST_VALUE and not _DUMMY.search(value)
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
    """Whether it looks random: long, and letters, digits and symbols mixed."""
    return len(value) >= LONG and _mixed(value) >= RANDOM_CHANGES * len(value) and not _is_dummy(value)


def _is_password(value: str) -> bool:
    """Whether it looks like a strong password: not a word, nor a word with a number."""
    if len(value) < LEAST_VALUE or _is_dummy(value):
        return False
    kinds = sum(any(map(kind, value)) for kind in (str.isupper, str.islower, str.isdigit, _is_symbol))
    return kinds >= 3 - (len(value) >= ENOUGH) and _mixed(value) >= max(3, RANDOM_CHANGES * len(value))


def _is_dummy(value: str) -> bool:
    head = value[:_HEAD]
    return bool(_DUMMY.search(head) or _DUMMY.search(head.translate(_LEET)) or _CODE.search(value))


def _is_symbol(letter: str) -> bool:
    return not letter.isalnum() and letter not in "_-./:"


def _mixed(value: str) -> int:
    """How often one kind of character follows another; a word with a capital counts once, a separator not at all."""
    return len(_KIND_CHANGE.findall(value))


PLACEHOLDER = re.compile(r"<<secret ([0-9a-f]{8,64})>>")
SHORT = 65_536  # characters of a text that is looked at once, however often it is masked
LEAST = 12  # characters of a line of a longer secret, from which on it is masked wherever it stands

_values: dict[str, str] = {}  # of placeholders; of this process, never stored


def mask(text: str) -> str:
    """`text` with a placeholder for each key or token in it; the lines stay the same in number.

    What was found once is masked wherever it stands, also where half of the text around it is missing. Of a secret of
    several lines (a private key) each line is masked but its head and its end.
    """
    (_learn if len(text) <= SHORT else _look)(text)
    for placeholder, value in sorted(_values.items(), key=lambda item: -len(item[1])):  # one may hold another
        if value in text:
            text = text.replace(value, placeholder)
    return text


def unmask(text: str) -> str:
    """`text` with what each placeholder of `mask` stands for; unknown ones stay."""
    if "<<secret " not in text:
        return text
    return PLACEHOLDER.sub(lambda match: _values.get(match[0], match[0]), text)


def placeholders(text: str) -> list[str]:
    """What in `text` has the form of a placeholder."""
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def unknown_in(text: str) -> list[str]:
    """The placeholders in `text` without a known value."""
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
    values = [value for value in assigned_secrets(text) if not PLACEHOLDER.search(value)]
    if may_hold_secrets(text):
        values += [value for secret in find_secrets(text) for value in _lines(secret)]
        values += [value for value in secrets_of().values() if may_hold_secrets(value) and value in text]
    return values


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
