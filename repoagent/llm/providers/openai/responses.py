"""OpenAI's Responses API: for models that think, since only there their reasoning can be sent back.

Nothing is stored at the provider: reasoning comes back encrypted, and stands in the input of each later request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repoagent.llm.model import Blocks, Message, OnText, Request, Wishes
from repoagent.llm.providers.openai.media import media_part
from repoagent.llm.providers.openai.parameters import (
    THINKING_ROOM,
    Learned,
    beside_results,
    held,
    result_text,
)
from repoagent.llm.providers.openai.stream import Received
from repoagent.llm.rendering import wire_text

_KNOWN = {"reasoning", "message", "function_call"}
_STOPS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def response_parameters(
    spec: str, name: str, request: Request, wishes: Wishes, learned: Learned
) -> dict[str, Any]:
    """The fields of the request, without what the server does not take."""
    effort = learned.highest_effort or wishes.effort
    sent: dict[str, Any] = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": wire_text("".join(part.text for part in request.system)) or None,
        "max_output_tokens": request.max_output_tokens + THINKING_ROOM,
        "reasoning": {"effort": effort} if effort else None,
        "temperature": wishes.temperature if request.temperature is None else request.temperature,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        or None,
    }
    return {
        "model": name,
        "input": _input(request, spec),
        "stream": True,
        **{key: value for key, value in sent.items() if value is not None and key not in learned.without},
    }


def _input(request: Request, spec: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message, blocks, live in held(request, spec):
        if blocks is not None:
            items += [{**item} for item in blocks.items]
        elif message.role == "assistant":
            items.append({"role": "assistant", "content": wire_text(message.text)})
        else:
            items += [
                {"type": "function_call_output", "call_id": part.answers, "output": result_text(part)}
                for part in message.parts
                if part.answers in live
            ]
            items += _said(Message("user", beside_results(message, live)))
    return items


def _said(message: Message) -> list[dict[str, Any]]:
    """The user's words: one text, and after the text of its part what is attached to it."""
    content: list[dict[str, Any]] = []
    text = ""
    for part in message.parts:
        text += part.text
        if part.media is not None:
            content += [{"type": "input_text", "text": wire_text(text)}] if text.strip() else []
            content.append(_attached(media_part(part.media)))
            text = ""
    if text.strip():
        content.append({"type": "input_text", "text": wire_text(text)})
    return [{"role": "user", "content": content}] if content else []


def _attached(part: Mapping[str, Any]) -> dict[str, Any]:
    """An image or PDF, from the form that Chat Completions has for it."""
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
    return {"type": "input_file", **part["file"]}


class ReceivedResponse(Received):
    """What has come of a response so far."""

    def _chunk(self, chunk: object, on_text: OnText) -> None:
        if not isinstance(chunk, dict):
            return
        kind = str(chunk.get("type", ""))
        if kind == "error":
            self.error = chunk.get("error") or chunk
        elif not kind.startswith("response."):
            self.other = self.other or str(chunk)[:200]
            self.error = chunk.get("error") or self.error
        else:
            self.began = True
            self._event(kind.removeprefix("response."), chunk, on_text)

    def _event(self, kind: str, chunk: Mapping[str, Any], on_text: OnText) -> None:
        delta = chunk.get("delta")
        if kind == "output_text.delta" and isinstance(delta, str):
            self._hear("", delta, on_text)
        elif kind == "refusal.delta" and isinstance(delta, str):
            self.refusal += delta
        elif kind in {"reasoning_text.delta", "reasoning_summary_text.delta"} and isinstance(delta, str):
            self._thoughts.append(delta)
        elif kind == "output_item.done" and isinstance(chunk.get("item"), dict):
            self._item(chunk["item"], on_text)
        whole = chunk.get("response")
        if isinstance(whole, dict):
            self._whole(kind, whole)

    def _item(self, item: dict[str, Any], on_text: OnText) -> None:
        self.items.append(item)
        if item.get("type") == "function_call":
            self._call(
                str(item.get("call_id")), str(item.get("name")), str(item.get("arguments") or ""), on_text
            )

    def _whole(self, kind: str, whole: Mapping[str, Any]) -> None:
        self.model = whole["model"] if isinstance(whole.get("model"), str) else self.model
        used = whole.get("usage")
        if isinstance(used, dict):
            self._count(
                {
                    "prompt_tokens": used.get("input_tokens"),
                    "completion_tokens": used.get("output_tokens"),
                    "prompt_tokens_details": used.get("input_tokens_details"),
                }
            )
        if kind == "completed":
            self.finish = "stop"
        elif kind == "incomplete":
            why = whole.get("incomplete_details")
            self.finish = _STOPS.get(str(why.get("reason")) if isinstance(why, dict) else "", "length")
        elif kind == "failed":
            self.error = whole.get("error") or {"message": "the response failed"}

    def blocks(self, spec: str) -> Blocks | None:
        """The items to be sent back; none where the reasoning came without what it is known by."""
        kinds = {item.get("type") for item in self.items}
        if not kinds <= _KNOWN or kinds <= {"message"}:
            return None
        if any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in self.items):
            return None
        return Blocks(spec, tuple(self.items), "", tuple(self.calls))
