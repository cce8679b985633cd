"""Short ways to spell answers in the tests of this room."""

from typing import Any

from soak.classify import Context, judge
from soak.facts import Ending, Judgement, Observation, ToolCall, TurnKey, Usage


def call(arguments: str, name: str = "run") -> ToolCall:
    """Return one tool call."""
    return ToolCall(id="call_0", name=name, arguments=arguments)


def answer(
    content: str = "", finish: str | None = "stop", ending: Ending | None = None, tokens: int | None = None, **rest: Any
) -> Observation:
    """Return an answer that ended as `finish` says."""
    return Observation(
        key=TurnKey(episode="e", turn=0, pass_=0, arm="a"),
        started_at=0.0,
        ending=ending or ("complete" if finish else "no_finish"),
        max_tokens=20000,
        content=content,
        finish_reason=finish,
        usage=None if tokens is None else Usage(completion=tokens),
        **rest,
    )


def judged(content: str = "", finish: str | None = "stop", context: Context | None = None, **rest: Any) -> Judgement:
    """Return the judgement of such an answer."""
    return judge(answer(content, finish, **rest), context or Context())


def kinds(judgement: Judgement) -> list[str]:
    """Return the kinds of the findings."""
    return [finding.kind for finding in judgement.findings]
