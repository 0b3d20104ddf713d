"""What the Anthropic API says when something went wrong, for the sentences of failures.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import ModelError
from repoagent.llm.model import Usage
from repoagent.llm.providers.failures import (
    WAYS,
    Rejection,
    brief,
    broken_stream,
    rejection,
    retry_after,
    unreachable,
)

if TYPE_CHECKING:
    import anthropic

__all__ = ["broken_stream", "no_connection", "no_key", "rejected", "retry_after", "unusable"]

# An error that comes inside a stream has no status of its own.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG = ("prompt is too long", "context limit", "context window", "maximum context")
_SPENT = ("contract_spend_limit_reached", "enforced_spend_limit_reached")  # a 429 that waiting does not end


def no_key(detail: str = "") -> ModelError:
    why = f" ({detail})" if detail else ""
    return ModelError(f"there is no key for Anthropic's models{why}. {WAYS}")


def rejected(error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]) -> ModelError:
    """For a status of 400 and above, or an error event in a stream; `usage` is what the attempt has cost."""
    in_stream = error.status_code < 400
    status = _STATUS.get(error.type or "", 500) if in_stream else error.status_code
    said = brief(error.api_message or error.message, secrets)
    headers = {} if in_stream else error.response.headers
    return rejection(
        Rejection(
            status,
            said,
            error.request.url.host,
            spec,
            key_advice="set a valid one as ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
            name_advice=(
                "check the name, for example anthropic/claude-sonnet-5-5, and ANTHROPIC_BASE_URL if you set it"
            ),
            too_long=status == 400 and any(mark in said.lower() for mark in _TOO_LONG),
            spent=error.error_code in _SPENT,
            passes={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
            wait=retry_after(headers),
            usage=usage,
        )
    )


def no_connection(error: anthropic.APIConnectionError, read_seconds: float, secrets: list[str]) -> ModelError:
    """For a request that got no answer."""
    import anthropic

    return unreachable(
        error,
        error.request.url.host or str(error.request.url),
        read_seconds,
        secrets,
        timed_out=isinstance(error, anthropic.APITimeoutError),
        settings="ANTHROPIC_BASE_URL and the key",
    )


def unusable(error: anthropic.AnthropicError, spec: str, secrets: list[str]) -> ModelError:
    """For an answer that is none of the Messages API."""
    return ModelError(
        f"what answers for {spec} does not speak the Messages API ({brief(str(error), secrets)})"
    )
