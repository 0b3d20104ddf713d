"""All tools of a server, and how one is used: arguments held against its schema, the answer as it may be sent."""

from __future__ import annotations

from dataclasses import replace

from repoagent.work.mcp.applying import apply_offer
from repoagent.work.mcp.bench import sent
from repoagent.work.mcp.checked import checked
from repoagent.work.mcp.finding import OFFERS as FINDING
from repoagent.work.mcp.finding import review_offer
from repoagent.work.mcp.looking import OFFERS as LOOKING
from repoagent.work.mcp.offer import Call, Offer, Service, Told
from repoagent.work.mcp.parts import OFFER as SEGMENTS


def offers(service: Service) -> dict[str, Offer]:
    """The tools of a server that was started so, by name."""
    every = (*LOOKING, SEGMENTS, *FINDING, review_offer(service), apply_offer(service))
    return {offer.name: offer for offer in every}


def performed(offer: Offer, call: Call) -> Told:
    """The answer. Raises UsageError for arguments that are not as the schema says, and what the tool raises."""
    arguments = checked(offer.name, offer.takes, call.arguments)
    told = offer.perform(replace(call, arguments=arguments))
    return Told(sent(told.text), sent(told.data), told.image)
