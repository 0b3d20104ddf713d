"""The clients of Claude on Amazon Bedrock and Google Vertex AI, with the credentials that AWS's and Google's own
tools use."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from repoagent.errors import ModelError
from repoagent.extras import install_extra
from repoagent.llm.providers.anthropic.cloud_errors import library_errors, no_credentials
from repoagent.llm.providers.failures import unusable_key

if TYPE_CHECKING:
    import httpx2

    from repoagent.llm.providers.anthropic.client import Client, Door

# What tells that somebody uses the platform, without asking its libraries.
SIGNS = {
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "vertex": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_NEEDED = {"bedrock": ("boto3",), "vertex": ("google.auth", "requests")}
_BASE_URLS = {
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL and AWS_REGION",
    "mantle": "ANTHROPIC_BEDROCK_MANTLE_BASE_URL and AWS_REGION",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL and CLOUD_ML_REGION",
}


def missing(platform: str) -> str:
    """The sentence for a platform whose libraries are not installed, "" when they are."""
    try:
        if all(find_spec(module) for module in _NEEDED[platform]):
            return ""
    except ModuleNotFoundError:  # of the package above
        pass
    return f"models of {platform}/ need more packages: {install_extra(platform)}"


def refuse_missing(door: Door) -> None:
    if sentence := missing(_platform(door)):
        raise ModelError(sentence)


def new_client(door: Door, http: httpx2.Client) -> Client:
    """The SDK's client for a cloud. Raises ModelError for settings that are missing or wrong."""
    import httpx2

    # Both libraries speak of old Pythons and of quotas, which says nothing about an edit.
    warnings.filterwarnings("ignore", module=r"(google|boto3)\.")
    # a ValueError is a private key that is none
    wrong: tuple[type[Exception], ...] = (ValueError, *library_errors(door))
    try:
        client = _vertex(http) if door == "vertex" else _bedrock(door, http)
    except httpx2.InvalidURL as error:
        raise ModelError(f"there is no such address ({error}): check {_BASE_URLS[door]}") from error
    except wrong as error:
        raise no_credentials(door, error) from error
    if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
        raise ModelError(f"{client.base_url} is no address of a server: check {_BASE_URLS[door]}")
    if unusable_key(getattr(client, "api_key", None) or ""):
        raise ModelError(
            "AWS_BEARER_TOKEN_BEDROCK holds a line end or another character no key has: set it again"
        )
    return client


def _bedrock(door: Door, http: httpx2.Client) -> Client:
    import anthropic
    import boto3

    import_module("botocore.auth")  # here, so that the first signature need not

    region = (
        os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or boto3.Session().region_name
    )
    if not region:
        raise ModelError(
            "no AWS region is set: set AWS_REGION, for example to us-east-1, or one for your profile"
        )
    if door == "mantle":
        return anthropic.AnthropicBedrockMantle(aws_region=region, http_client=http, max_retries=0)
    return anthropic.AnthropicBedrock(aws_region=region, http_client=http, max_retries=0)


def _vertex(http: httpx2.Client) -> Client:
    import anthropic
    import google.auth
    import google.auth.transport.requests  # here, so that the first call need not

    region = os.environ.get("CLOUD_ML_REGION")
    if not region:
        raise ModelError(
            "no region is set for Vertex AI: set CLOUD_ML_REGION, for example to global or us-east5"
        )
    credentials, found = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    project = os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID") or found
    if not project:
        raise ModelError("no Google Cloud project is set: set ANTHROPIC_VERTEX_PROJECT_ID to its id")
    return anthropic.AnthropicVertex(
        region=region, project_id=project, credentials=credentials, http_client=http, max_retries=0
    )


def _platform(door: Door) -> str:
    return "bedrock" if door == "mantle" else door
