"""Find keys, tokens and passwords in text, and replace them with placeholders before the text is sent or stored.

Three ways to find them: as values of environment variables with names such as API_KEY, by Kingfisher's rules (loaded
only for text that may contain a key), and by context: `DB_PASSWORD=`, `Authorization: Bearer`, a line of `.netrc`. Each
pattern in this module begins with a fixed word and matches a bounded number of characters, so a search takes linear
time.

A placeholder is derived from its secret, so a key has the same placeholder in each prompt, conversation and cached
prefix. Only this process knows the secret behind a placeholder.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from repoagent.storage.layout import to_stderr

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

SHORTEST = 8  # characters; shorter values are ordinary words, and would match everywhere
MASK = "***"
# Names of variables with secrets: ANTHROPIC_API_KEY, GITHUB_TOKEN, PGPASSWORD.
_NAME = re.compile(
    r"(^|_)(KEY|TOKEN|PAT|PASS|PWD|PASSPHRASE|AUTH)S?\d*(_|$)|APIKEY|ACCESS_?KEY|SECRET|PASSWOR[DT]|PASSWD|CREDENTIAL"
)
_NO_SECRETS = {"PWD", "OLDPWD"}


def secrets_of(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables whose names mark them as secrets, from `env` or, without it, the environment of this
    process. Short values and paths of existing files are left out."""
    return {
        name: value
        for name, value in (os.environ if env is None else env).items()
        if len(value) >= SHORTEST
        and name not in _NO_SECRETS
        and _NAME.search(name.upper())
        and not (value.startswith("/") and os.access(value, os.F_OK))  # a file
    }


def without_secrets(text: str) -> str:
    """`text` with MASK in place of each secret from the environment; for the output of other programs."""
    for value in sorted(set(secrets_of().values()), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


# Random strings change often between letters and digits, lower and upper case; names rarely do.
_RUN = re.compile(r"[A-Za-z0-9_-]{16,}")
_CHANGE = re.compile(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])")
CHANGES, OF = 4, 16  # at least CHANGES changes in OF characters
_PRIVATE_KEY = "PRIVATE KEY"
UNAVAILABLE = (
    "API keys in prompts and files are sent and stored unmasked: "
    "install kingfisher-secret-scanner to mask them"
)


def may_hold_secrets(text: str) -> bool:
    """Whether anything in `text` looks random or is a private key's header. Takes a millisecond per 64 KB.

    The rules take a third of a second to load, and few texts need them. Identifiers, hashes, UUIDs and names with a
    short hash do not look random.
    """
    if _PRIVATE_KEY in text:
        return True
    for run in set(_RUN.findall(text)):
        if run.strip("0123456789abcdef-") and run.strip("0123456789ABCDEF-"):
            pieces = re.split("[_-]", run)
            name = "-".join(piece for piece in pieces if len(piece) >= OF or piece.strip("0123456789abcdef"))
            for piece in (name, *pieces):
                if len(piece) >= OF and len(_CHANGE.findall(piece)) * OF >= CHANGES * len(piece):
                    return True
    return False


def find_secrets(text: str) -> list[str]:
    """The keys, tokens and private keys that Kingfisher finds in `text`; [] if Kingfisher is not installed.

    A match of a generic rule, or of one half of a key pair, must also look random, because such rules match the
    examples in every manual. Keys are not validated online.
    """
    scanner = _scanner()
    findings = [] if scanner is None else scanner.scan(text.encode("utf-8", "replace"))
    return [
        finding.secret
        for finding in findings
        if len(finding.secret) >= OF
        and ((finding.visible and "generic" not in finding.rule_id) or may_hold_secrets(finding.secret))
    ]


@lru_cache(maxsize=1)
def _scanner() -> Scanner | None:
    """The scanner, compiled once: some seconds the first time on a machine, a third of a second from its cache."""
    try:
        from kingfisher_sdk import Rules, Scanner
    except ImportError:  # there is no package for some systems (Alpine)
        to_stderr(UNAVAILABLE)
        return None
    return Scanner(Rules(confidence="medium"), base64=False)


LEAST_VALUE = 8  # characters of a password
ENOUGH = 12  # characters; a longer password needs two kinds of characters only
LONG = 20  # characters; a longer value may be random without symbols
# Changes of kind per character in a random value; names and sentences have fewer.
RANDOM_CHANGES = 0.3

# A quoted value is anything but white space; an unquoted one also ends at delimiters.
_VALUE = r"(?:[\"'`]([^\s\"'`]{8,4096})[\"'`]|([^\s\"'`<>{}()\[\],;|\\]{8,4096}))"
# Upper and lower case are spelled out: ignoring case takes three times as long.
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

# Words before `key` that mean it is public, and `key` alone, which is common in tables.
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
_HEAD = 64  # characters of a value searched for words: in a long one they occur by chance
_CODE = re.compile(
    r"^[$@%&]|://|^arn:|\.(?:pem|key|crt|json|ya?ml|txt|py|js|ts|env)$|^[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$"
)


def assigned_secrets(text: str) -> Iterator[str]:
    """The secrets in `text` recognized by their context; may contain duplicates."""
    for match in _ASSIGNED.finditer(text):
        if _is_secret(text[max(0, match.start() - _BEFORE) : match.start()], match):
            yield match[1] or match[2]
    for match in _HEADER.finditer(text):
        if _is_pair(match[2]) if match[1] else _is_random(match[2]):
            yield match[2]
    for pattern in (_URL, _NETRC, _PGPASS, _CURL):
        yield from (match[1] for match in pattern.finditer(text) if _is_password(match[1]))


def _is_secret(before: str, match: re.Match[str]) -> bool:
    """Whether the value in `match` is a secret; its name begins in `before` and ends in `match`."""
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
    """Whether `value` is `user:password` in base64."""
    try:
        user, colon, password = (
            base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode().partition(":")
        )
    except ValueError:
        return False
    return bool(user and colon) and _is_password(password)


def _is_random(value: str) -> bool:
    """Whether `value` looks random: long, with letters, digits and symbols mixed."""
    return len(value) >= LONG and _has_changes(value, 0) and not _is_dummy(value)


def _is_password(value: str) -> bool:
    """Whether `value` looks like a strong password: not a word, nor a word with a number."""
    if len(value) < LEAST_VALUE or _is_dummy(value):
        return False
    kinds = [any(map(kind, value)) for kind in (str.isupper, str.islower, str.isdigit)]
    kinds.append(any(not letter.isalnum() and letter not in "_-./:" for letter in value))  # a symbol
    return sum(kinds) >= 3 - (len(value) >= ENOUGH) and _has_changes(value, 3)


def _is_dummy(value: str) -> bool:
    head = value[:_HEAD]
    return bool(_DUMMY.search(head) or _DUMMY.search(head.translate(_LEET)) or _CODE.search(value))


def _has_changes(value: str, least: int) -> bool:
    """Whether the kind of character changes as often as in a random value, and `least` times."""
    return len(_KIND_CHANGE.findall(value)) >= max(least, RANDOM_CHANGES * len(value))


PLACEHOLDER = re.compile(r"<<secret ([0-9a-f]{8,64})>>")
SHORT = 65_536  # characters; shorter texts are searched once, however often they are masked
LEAST = 12  # characters; shorter lines of a multi-line secret are not masked

_values: dict[str, str] = {}  # secrets by placeholder; never stored


def mask(text: str) -> str:
    """`text` with a placeholder for each key or token; the number of lines stays the same.

    A secret that was found once is masked everywhere from then on. In a multi-line secret, all lines but the header and
    footer are masked.
    """
    (_look_once if len(text) <= SHORT else _look)(text)
    # longest first: a secret may contain another one
    for placeholder, value in sorted(_values.items(), key=lambda item: -len(item[1])):
        if value in text:
            text = text.replace(value, placeholder)
    return text


def unmask(text: str) -> str:
    """`text` with each placeholder replaced by its secret; unknown placeholders stay."""
    if "<<secret " not in text:
        return text
    return PLACEHOLDER.sub(lambda match: _values.get(match[0], match[0]), text)


def placeholders(text: str) -> list[str]:
    """Everything in `text` that has the form of a placeholder."""
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def unknown_in(text: str) -> list[str]:
    """The placeholders in `text` whose secret is unknown."""
    return [name for name in placeholders(text) if name not in _values]


def _look(text: str) -> None:
    for value in secrets_in(text):
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        for size in range(8, 65):  # the first that no other secret has
            if _values.setdefault(f"<<secret {digest[:size]}>>", value) == value:
                break


_look_once = lru_cache(maxsize=2048)(_look)  # each request of a long run repeats the text of the previous one


def secrets_in(text: str) -> list[str]:
    """The keys, tokens and passwords in `text`; for a multi-line secret, its lines without header and footer."""
    values = [value for value in assigned_secrets(text) if not PLACEHOLDER.search(value)]
    if may_hold_secrets(text):
        for secret in find_secrets(text):
            lines = [line.strip() for line in secret.strip().splitlines()]
            if len(lines) > 1:
                lines = [line for line in lines if len(line) >= LEAST and "-----" not in line]
            values += lines
        values += [value for value in secrets_of().values() if may_hold_secrets(value) and value in text]
    return values
