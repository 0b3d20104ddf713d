"""The protocols of Bedrock and Vertex AI for `messages_server`, and the environments that direct the SDK to it."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.llm.providers.messages_server import Handler, Server, text
from tests.llm.providers.streaming_server import Behaviour

ACCESS_KEY = "AKIATESTTESTTEST"
SECRET = "aws-secret-0123456789abcdef"
SESSION = "aws-session-0123456789abcdef"
TOKEN = "google-token-0123456789abcdef"


def eventstream(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of "application/vnd.amazon.eventstream": two lengths and their CRC, headers, a payload, and a CRC
    over all of it; all numbers are big-endian. Header values are strings (type 7)."""
    block = b""
    for name, value in headers.items():
        block += struct.pack("!B", len(name)) + name.encode()
        block += b"\x07" + struct.pack("!H", len(value)) + value.encode()
    lengths = struct.pack("!II", 16 + len(block) + len(payload), len(block))
    prelude = lengths + struct.pack("!I", zlib.crc32(lengths))
    whole = prelude + block + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def aws_exception(kind: str, message: str = "scripted", *, after: str = "") -> Behaviour:
    """An exception inside the stream, such as `throttlingException`, after the text `after`."""
    begun = text(after).events[:-3] if after else ()
    return Behaviour(events=(*begun, {"type": "aws-exception", "kind": kind, "message": message}))


def aws_status(code: int, kind: str, message: str) -> Behaviour:
    return Behaviour(code, {"x-amzn-errortype": f"{kind}:http://internal/"}, {"message": message})


def google_status(code: int, kind: str, message: str) -> Behaviour:
    return Behaviour(code, body=[{"error": {"code": code, "message": message, "status": kind}}])


class Bedrock(Handler):
    content_type = "application/vnd.amazon.eventstream"

    def is_message(self) -> bool:
        return re.fullmatch(r"/model/[^/]+/invoke-with-response-stream", self.path) is not None

    def frame(self, event: Mapping[str, Any]) -> bytes:
        if event["type"] == "aws-exception":
            headers = {":exception-type": event["kind"], ":message-type": "exception"}
            payload = {"message": event["message"]}
        else:
            headers = {":event-type": "chunk", ":message-type": "event"}
            payload = {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcdefgh"}
        headers[":content-type"] = "application/json"
        return eventstream(headers, json.dumps(payload).encode())


class Vertex(Handler):
    grant = Behaviour(body={"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    def is_message(self) -> bool:
        return self.path.endswith(":streamRawPredict")

    def other(self) -> Behaviour:
        return self.grant if self.path == "/token" else super().other()


def aws_environment(server: Server, home: Path) -> dict[str, str]:
    """Static keys, and no other source of credentials for the libraries of AWS."""
    return {
        "ANTHROPIC_BEDROCK_BASE_URL": server.url,
        "AWS_REGION": "eu-north-9",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        **no_aws(home),
    }


def no_aws(home: Path) -> dict[str, str]:
    return {
        "AWS_CONFIG_FILE": str(home / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


def google_environment(server: Server, home: Path, **more: str) -> dict[str, str]:
    """The key file of a service account whose token endpoint is the server's; `more` changes its content."""
    file = home / "google.json"
    account = {
        "type": "service_account",
        "client_email": "robot@a-project.iam.gserviceaccount.com",
        "private_key": _private_key(),
        "project_id": "project-of-the-account",
        "token_uri": f"{server.url}/token",
    }
    file.write_text(json.dumps({**account, **more}))
    return {
        "ANTHROPIC_VERTEX_BASE_URL": f"{server.url}/v1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "a-project",
        "CLOUD_ML_REGION": "europe-north9",
        "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        **no_google(home),
    }


def no_google(home: Path) -> dict[str, str]:
    return {"CLOUDSDK_CONFIG": str(home / "gcloud"), "NO_GCE_CHECK": "true", "NO_PROXY": "127.0.0.1"}


@cache
def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    coding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(coding, form, serialization.NoEncryption()).decode()


# The dialect of each platform, and the environment for a server that speaks it.
PLATFORMS: Mapping[str, tuple[type[Handler], Callable[..., dict[str, str]]]] = {
    "anthropic": (Handler, lambda server, folder: server.environment),
    "bedrock": (Bedrock, aws_environment),
    "vertex": (Vertex, google_environment),
}
