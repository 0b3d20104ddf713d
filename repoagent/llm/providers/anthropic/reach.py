"""Whether Claude can be reached, without a call that is paid for."""

from __future__ import annotations

import os

from repoagent.errors import ModelError
from repoagent.llm.providers.anthropic.client import Platform
from repoagent.llm.providers.anthropic.clouds import SIGNS, missing
from repoagent.llm.providers.anthropic.signs import any_sign
from repoagent.llm.providers.failures import brief, causes
from repoagent.llm.providers.http_client import new_http_client

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID")
SECONDS = 5.0


def key_origin(platform: Platform) -> str:
    """Where the credentials of `platform` most likely come from, "" where nothing tells."""
    names = KEYS if platform == "anthropic" else SIGNS[platform]
    found = next((name for name in names if os.environ.get(name)), "")
    return f"environment {found}" if found else ""


def reach(platform: Platform) -> tuple[str, bool]:
    """Why the platform can't be used, in a few words, "" where nothing is known against it; and whether it was
    asked. A cloud is not asked: that would take its libraries, and its credentials may need a person."""
    if platform != "anthropic":
        problem = "" if key_origin(platform) else missing(platform) or "no credentials in the environment"
        return problem, False
    key, token = os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN")
    if not (key or token):
        return ("", False) if any_sign() else ("no key: set ANTHROPIC_API_KEY", False)
    return _ask(os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com", key, token), True


def _ask(base_url: str, key: str | None, token: str | None) -> str:
    import httpx2

    headers = {"anthropic-version": "2023-06-01"}
    headers |= {"x-api-key": key} if key else {"authorization": f"Bearer {token}"}
    secrets = [secret for secret in (key, token) if secret]
    try:
        with new_http_client() as http:
            answer = http.get(f"{base_url.rstrip('/')}/v1/models?limit=1", headers=headers, timeout=SECONDS)
    except (ModelError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        host = base_url.partition("://")[2].partition("/")[0] or base_url
        return brief(f"{host} can't be reached ({_without_number(list(causes(error))[-1])})", secrets)
    if answer.status_code in {401, 403}:
        return f"{answer.url.host} rejected the key"
    # Gateways need not list their models: that they answer at all is enough.
    failing = answer.status_code >= 500 and answer.status_code != 501
    return f"{answer.url.host} fails ({answer.status_code})" if failing else ""


def _without_number(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
