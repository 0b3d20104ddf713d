"""The members that SARIF 2.1.0 requires and allows in the objects that repoagent writes.

The full schema is a third party's file. The tests use it too if SARIF_SCHEMA is its path and `jsonschema` is there.
"""

from __future__ import annotations

import re
from typing import Any

MEMBERS = {  # required members | optional ones
    "log": "$schema version runs |",
    "run": "tool automationDetails columnKind originalUriBaseIds invocations results |",
    "driver": "name version semanticVersion rules |",
    "rule": "id | name shortDescription fullDescription properties help defaultConfiguration",
    "help": "text | markdown",
    "text": "text |",
    "level": "level | enabled",
    "invocation": "executionSuccessful toolExecutionNotifications |",
    "notification": "message level |",
    "result": "message ruleId ruleIndex level locations partialFingerprints suppressions | rank properties",
    "suppression": "kind justification |",
    "location": "artifactLocation | region",
    "artifact": "uri uriBaseId |",
    "region": "startLine endLine |",
}
LEVELS = {"none", "note", "warning", "error"}


def of(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    """Assert that `value` has the members of an object of this kind, and return it."""
    required, _, optional = (set(part.split()) for part in MEMBERS[kind].partition("|"))
    assert required <= set(value) <= required | optional, (kind, value.keys())
    return value


def check(document: dict[str, Any]) -> None:
    """Assert that `document` is a valid log."""
    assert of("log", document)["version"] == "2.1.0"
    for run in document["runs"]:
        of("run", run)
        rules = of("driver", run["tool"]["driver"])["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert of("level", of("rule", rule)["defaultConfiguration"])["level"] in LEVELS
            for name in ("shortDescription", "fullDescription", "help"):
                of("help" if name == "help" else "text", rule[name])
        for invocation in run["invocations"]:
            for each in of("invocation", invocation)["toolExecutionNotifications"]:
                assert isinstance(of("text", of("notification", each)["message"])["text"], str)
        for result in run["results"]:
            assert of("result", result)["level"] in LEVELS and 0 <= result["ruleIndex"] < len(rules)
            assert isinstance(of("text", result["message"])["text"], str)
            assert all(isinstance(text, str) for text in result["partialFingerprints"].values())
            assert all(of("suppression", each)["kind"] == "external" for each in result["suppressions"])
            for location in result["locations"]:
                physical = of("location", location["physicalLocation"])
                uri = of("artifact", physical["artifactLocation"])["uri"]
                assert re.fullmatch(r"(?:[A-Za-z0-9\-._~/]|%[0-9A-F]{2})+", uri), uri  # a relative reference
                if "region" in physical:
                    assert 1 <= of("region", physical["region"])["startLine"] <= physical["region"]["endLine"]
