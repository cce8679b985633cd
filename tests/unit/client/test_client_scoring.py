"""What a server says that its model makes of given tokens, whatever it says."""

import json
from typing import Any

import pytest
from fakes import FakeServer

from soak.client import Desk, Target, scores
from soak.errors import TargetError

GOOD = {"logprob": -0.5, "rank": 1}


async def scored(rows: list[Any]) -> Any:
    """Score the second of two tokens with a server that answers with these rows."""
    server = FakeServer()
    body = json.dumps({"choices": [{"prompt_logprobs": rows}]}).encode()
    server.fixed["/v1/completions"] = (200, "application/json", body)
    async with server, Desk(Target.parse(server.url)) as desk:
        return await scores(desk, "m", (7, 8), 1)


async def test_a_row_is_read() -> None:
    """A place of the prompt is its token with log probability and rank from 0, and the likeliest first."""
    (row,) = await scored([None, {"8": {"logprob": -1.5, "rank": 2}, "9": GOOD}])
    assert (row.token, row.logprob, row.rank) == (8, -1.5, 1)
    assert row.top == ((9, -0.5), (8, -1.5))


@pytest.mark.parametrize(
    "rows",
    [
        [None],
        [None, None],
        [None, {}],
        [None, {"9": GOOD}],
        [None, {"8": {"logprob": 1000.0, "rank": 1}}],
        [None, {"8": {"logprob": "much", "rank": 1}}],
        [None, {"8": {"logprob": 10**400, "rank": 1}}],
        [None, {"8": {"logprob": float("nan"), "rank": 1}}],
        [None, {"8": {"logprob": -0.5, "rank": 0}}],
        [None, {"8": {"logprob": -0.5, "rank": float("inf")}}],
        [None, {"8": GOOD, "nine": GOOD}],
    ],
)
async def test_a_row_that_cannot_be_is_refused(rows: list[Any]) -> None:
    """Rows that are missing, of no token, or hold no log probability or rank are an error in words."""
    with pytest.raises(TargetError, match="log probabilities of a prompt"):
        await scored(rows)
