"""What an engine's own counters and answers say: of one turn, and of the turns of one arm together."""

from typing import Literal

import msgspec

from soak.facts.key import TurnKey

Attributed = Literal["alone", "overlap"]
"""
Whose the counted amounts are. alone: the turn was the only one in flight between two readings around it, so they are
its own. overlap: several turns were in flight between the readings, and each was given a share by its time in them.
"""

EngineFindingKind = Literal["acceptance_full", "acceptance_none", "preemption", "corrupted", "restart"]


class EngineFinding(msgspec.Struct, frozen=True, kw_only=True):
    """
    Something that befell the engine while a turn was in flight; it never changes the class of the turn.

    `attributed` None: the server told it with the answer. `text` is the sentence a person reads.
    """

    kind: EngineFindingKind
    text: str
    attributed: Attributed | None = None


class EngineTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    What the engine did for one turn. None: not measured.

    `attributed` is whose the counters' amounts are (None: the metrics page was not read around the turn), `others` the
    most other turns that were in flight with it between two readings. Draft figures are the server's own, told with
    the answer, where `told`; else the counters', and so are `prefix_queries` and `prefix_hits` (tokens).
    `cached` are the prompt tokens that came from the prefix cache, as the usage of the answer tells. `preemptions`,
    `corrupted` (requests with NaN in their logits) and `restarts` are counted over all readings that the turn touches
    and are never shared out: with `overlap` they befell one of the turns in flight, not surely this one.
    """

    key: TurnKey
    attributed: Attributed | None = None
    others: int = 0
    told: bool = False
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] | None = None
    prompt: int | None = None
    cached: int | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    corrupted: float | None = None
    restarts: int = 0
    findings: tuple[EngineFinding, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the draft figures are this turn's own and no share of a sum."""
        return self.told or self.attributed == "alone"

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / draft tokens; None where nothing was drafted."""
        if self.accepted_tokens is None or not self.draft_tokens:
            return None
        return self.accepted_tokens / self.draft_tokens

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted tokens / drafts; None where nothing was drafted."""
        return 1 + self.accepted_tokens / self.drafts if self.accepted_tokens is not None and self.drafts else None

    @property
    def per_position(self) -> tuple[float, ...]:
        """Accepted tokens at each position per draft; empty where that is not known."""
        return tuple(count / self.drafts for count in self.accepted_per_position or ()) if self.drafts else ()


class AcceptanceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """
    Acceptance of some turns together; `turns` are those with a draft. `exact`: the share of their draft tokens that is
    known turn by turn; the rest was shared out by overlap, which draws groups towards each other.
    """

    turns: int
    drafts: float
    draft_tokens: float
    accepted_tokens: float
    acceptance_length: float | None
    acceptance_rate: float | None
    exact: float


class AcceptanceBand(msgspec.Struct, frozen=True, kw_only=True):
    """Acceptance of the turns whose prompts have `low` tokens and more, and fewer than `high` (None: no limit)."""

    low: int
    high: int | None
    acceptance: AcceptanceGroup


class AcceptanceDrift(msgspec.Struct, frozen=True, kw_only=True):
    """
    How the acceptance rate changed from the first to the second half of the engine's uptime.

    `early` and `late` are all turns of the halves, `pooled_change` their difference, which a changed mix of turns moves
    as much as a changed engine. `change` is that between like turns only (same conversation, same prompt-length band),
    `ci95` its interval over `conversations` conversations; None with `unknown_because`.
    """

    early: float | None = None
    late: float | None = None
    pooled_change: float | None = None
    change: float | None = None
    ci95: tuple[float, float] | None = None
    conversations: int = 0
    exposure_s: float = 0.0
    unknown_because: str | None = None


class SeenInTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the engine and the turn it belongs to, as `episode:turn:pass:arm`."""

    turn: str
    finding: EngineFinding


class EngineEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """
    The engine's evidence on one arm, over its finished turns.

    `alone`, `overlap`, `unread`: turns by how the counters were attributed; `told`: turns whose answers told their
    acceptance. `findings`: in how many turns each kind was found; an event between two readings counts for each turn
    that was in flight then. A kind that could not be measured is absent, never 0.
    `seen` shows the first twenty, the rarest kinds first. `alarms`: what is wrong with the acceptance of the whole arm.
    """

    alone: int = 0
    overlap: int = 0
    unread: int = 0
    told: int = 0
    findings: dict[str, int] = {}
    seen: list[SeenInTurn] = []
    by_depth: list[AcceptanceBand] = []
    by_class: dict[str, AcceptanceGroup] = {}
    drift: AcceptanceDrift = AcceptanceDrift()
    alarms: list[str] = []
