"""What SARIF 2.1.0 says of the objects that we write: which members they may have, which they must, of what kind.

The whole schema is a third party's file. With its path in SARIF_SCHEMA and `jsonschema` installed the tests ask it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Check = Callable[[object], None]


def a(
    kind: type, *, least: int | None = None, words: frozenset[str] | None = None, pattern: str = ""
) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, kind) and not (kind is int and isinstance(value, bool)), (value, kind)
        if least is not None:
            assert isinstance(value, int) and value >= least, value
        assert words is None or value in words, value
        assert not pattern or re.fullmatch(pattern, str(value)), value

    return check


def many(one: Check, *, unique: bool = True) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, list), value
        for item in value:
            one(item)
        if unique:
            assert len({repr(item) for item in value}) == len(value), value

    return check


def record(must: Mapping[str, Check], may: Mapping[str, Check] | None = None) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, dict), value
        assert set(must) <= set(value) <= set(must) | set(may or {}), value.keys()
        for name, member in value.items():
            {**must, **(may or {})}[name](member)

    return check


def strings(value: object) -> None:
    assert isinstance(value, dict) and all(isinstance(item, str) for item in value.values()), value


LEVEL = a(str, words=frozenset({"none", "note", "warning", "error"}))
URI = a(str, pattern=r"(?:[A-Za-z0-9\-._~/]|%[0-9A-F]{2})+")  # what a relative reference of ours is made of
TEXT = record({"text": a(str)})
BOTH = record({"text": a(str)}, {"markdown": a(str)})
ARTIFACT = record({"uri": URI, "uriBaseId": a(str, words=frozenset({"%SRCROOT%"}))})
LINE = a(int, least=1)
REGION = record({"startLine": LINE}, {"startColumn": LINE, "endLine": LINE, "endColumn": LINE})
LOCATION = record({"physicalLocation": record({"artifactLocation": ARTIFACT}, {"region": REGION})})
REPLACEMENT = record({"deletedRegion": REGION}, {"insertedContent": TEXT})
FIX = record(
    {"artifactChanges": many(record({"artifactLocation": ARTIFACT, "replacements": many(REPLACEMENT)}))},
    {"description": TEXT},
)
RESULT = record(
    {
        "message": TEXT,
        "ruleId": a(str),
        "ruleIndex": a(int, least=0),
        "level": LEVEL,
        "locations": many(LOCATION),
        "partialFingerprints": strings,
        "suppressions": many(
            record({"kind": a(str, words=frozenset({"external"}))}, {"justification": a(str)})
        ),
    },
    {"fixes": many(FIX), "rank": a(float), "properties": a(dict)},
)
RULE = record(
    {"id": a(str)},
    {
        "name": a(str),
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": BOTH,
        "defaultConfiguration": record({"level": LEVEL}, {"enabled": a(bool)}),
        "properties": a(dict),
    },
)
DRIVER = record({"name": a(str), "version": a(str), "semanticVersion": a(str), "rules": many(RULE)})
NOTIFICATION = record({"message": TEXT, "level": LEVEL})
RUN = record(
    {
        "tool": record({"driver": DRIVER}),
        "automationDetails": record({"id": a(str)}),
        "columnKind": a(str, words=frozenset({"utf16CodeUnits"})),
        "originalUriBaseIds": a(dict),
        "invocations": many(
            record(
                {
                    "executionSuccessful": a(bool),
                    "toolExecutionNotifications": many(NOTIFICATION, unique=False),
                }
            )
        ),
        "results": many(RESULT, unique=False),
    }
)
check = record({"$schema": a(str), "version": a(str, words=frozenset({"2.1.0"})), "runs": many(RUN)})
