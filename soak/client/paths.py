"""The two stream paths under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak.client.target import Target
from soak.client.wire import WireClient
from soak.facts.scenario import ClientPath

if TYPE_CHECKING:
    from soak.client.sdk import SdkClient


def open_client(target: Target, path: ClientPath) -> WireClient | SdkClient:
    """Return the client for a scenario's `client`: the timed wire path, or the openai package."""
    if path == "wire":
        return WireClient(target)
    from soak.client.sdk import SdkClient  # importing openai takes a second, which no other command should pay

    return SdkClient(target)
