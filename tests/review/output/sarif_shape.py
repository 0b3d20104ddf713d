"""The members that SARIF 2.1.0 allows and requires in the objects that we write, and their types.

The whole schema is a third party's file. With its path in SARIF_SCHEMA and `jsonschema` installed the tests use it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Check = Callable[[object], None]


def integer(least: int) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, int) and not isinstance(value, bool) and value >= least, value

    return check


def text(pattern: str = "(?s).*") -> Check:
    def check(value: object) -> None:
        assert isinstance(value, str) and re.fullmatch(pattern, value), value

    return check


def of(kind: type) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, kind), (value, kind)

    return check


def many(item: Check, *, unique: bool = True) -> Check:
    def check(value: object) -> None:
        assert isinstance(value, list), value
        for entry in value:
            item(entry)
        assert not unique or len({repr(entry) for entry in value}) == len(value), value

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


LEVEL = text("none|note|warning|error")
URI = text(r"(?:[A-Za-z0-9\-._~/]|%[0-9A-F]{2})+")  # a relative reference of ours
TEXT = record({"text": text()})
ARTIFACT = record({"uri": URI, "uriBaseId": text("%SRCROOT%")})
LINE = integer(1)
REGION = record({"startLine": LINE}, {"startColumn": LINE, "endLine": LINE, "endColumn": LINE})
LOCATION = record({"physicalLocation": record({"artifactLocation": ARTIFACT}, {"region": REGION})})
SUPPRESSION = record({"kind": text("external")}, {"justification": text()})
RESULT = record(
    {
        "message": TEXT, "ruleId": text(), "ruleIndex": integer(0), "level": LEVEL, "locations": many(LOCATION),
        "partialFingerprints": strings, "suppressions": many(SUPPRESSION),
    },
    {"rank": of(float), "properties": of(dict)},
)  # fmt: skip
RULE = record(
    {"id": text()},
    {
        "name": text(), "shortDescription": TEXT, "fullDescription": TEXT, "properties": of(dict),
        "help": record({"text": text()}, {"markdown": text()}),
        "defaultConfiguration": record({"level": LEVEL}, {"enabled": of(bool)}),
    },
)  # fmt: skip
DRIVER = record({"name": text(), "version": text(), "semanticVersion": text(), "rules": many(RULE)})
NOTIFICATION = record({"message": TEXT, "level": LEVEL})
INVOCATION = record(
    {"executionSuccessful": of(bool), "toolExecutionNotifications": many(NOTIFICATION, unique=False)}
)
RUN = record(
    {
        "tool": record({"driver": DRIVER}), "automationDetails": record({"id": text()}),
        "columnKind": text("utf16CodeUnits"), "originalUriBaseIds": of(dict), "invocations": many(INVOCATION),
        "results": many(RESULT, unique=False),
    }
)  # fmt: skip
check = record({"$schema": text(), "version": text(r"2\.1\.0"), "runs": many(RUN)})
