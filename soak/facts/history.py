"""The records of a history: append-only; verdicts are computed from them and can be computed again."""

from typing import Any, Literal

import msgspec

from soak.facts.finding import Judgement
from soak.facts.key import TurnKey
from soak.facts.observation import Observation, ObservationOutline

Outcome = Literal["finished", "skipped", "indeterminate", "aborted"]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """
    A turn is about to be sent: written before anything is. `start` numbers the starts of one key from 0.

    `prefix` and `answer` are digests of stored messages (the last one the model sees; the recorded answer, if any),
    `tools` that of the stored tool schemas, `request` that of the body as first sent, without the model's name and with
    the scenario's sampling where the arm has its own: equal for both arms of a pair. `door` is the API path it went to,
    below its version.
    """

    key: TurnKey
    start: int
    at: float
    seed: int
    prefix: str
    request: str
    answer: str | None = None
    answer_tokens: int | None = None
    tools: str | None = None
    door: str = "chat/completions"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """
    The end of one start of a planned turn.

    finished: `observation` and `judgement` are set. skipped, indeterminate: `reason` is set. aborted: the plan marks
    the turn to be closed by us, so that it says nothing of the server; `observation` and `reason` are set.
    """

    key: TurnKey
    outcome: Outcome
    at: float
    observation: Observation | None = None
    judgement: Judgement | None = None
    reason: str | None = None


class RecordOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record without what was generated: all that counting and timing need, read from the same JSON."""

    key: TurnKey
    outcome: Outcome
    observation: ObservationOutline | None = None
    judgement: Judgement | None = None
    reason: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the run and not to one turn: resumed, drained, server down or back, stopped."""

    at: float
    kind: str
    arm: str | None = None
    text: str = ""
    data: dict[str, Any] = {}
