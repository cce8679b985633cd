"""Plans, corpora, episodes and imports as text."""

from types import SimpleNamespace

from soak.facts import Message, ToolCall, make_episode
from soak.plan import PlanOutline
from soak.plan.outline import DepthQuantiles, PlannedConversation
from soak.report import terminal_corpora, terminal_corpus, terminal_episode, terminal_import, terminal_plan

CORPUS = SimpleNamespace(
    name="swe\x1b[31m",
    path="transcripts/swe",
    digest="sha256:d",
    episodes=2,
    turns=60,
    calls=70,
    deepest_characters=240_000,
    deepest_tokens=60_000,
    licences={"Apache-2.0": 2},
)
EPISODE = SimpleNamespace(id="e1", turns=30, messages=61, calls=35, deepest_characters=240_000, deepest_tokens=60_000)


def plan(turns: int | None) -> PlanOutline:
    return PlanOutline(
        scenario="swe_agent",
        episodes=24,
        arms=("candidate",),
        seed=7,
        pass_turns=812,
        turns=turns,
        passes=None if turns is None else 1,
        requests=turns,
        depth_characters=DepthQuantiles(p50=1000, p90=90_000, max=240_000),
        depth_tokens=DepthQuantiles(p50=250, p90=22_500, max=60_000),
        pass_prompt_tokens=5_000_000,
        prompt_tokens=None if turns is None else 5_000_000,
        completion_tokens_max=None,
        first=(PlannedConversation(episode="e1", pass_=0, turns=30, deepest_characters=240_000),),
    )


def test_a_plan_says_what_would_be_sent() -> None:
    """Turns, tokens, depth and the first conversations; a time budget leaves numbers open."""
    text = terminal_plan(plan(812))
    assert "turns per arm: 812, passes: 1" in text
    assert "tokens, about 250 22,500 60,000" in " ".join(text.split())
    assert "e1, pass 0" in text
    assert "turns per arm: as many as fit the time" in terminal_plan(plan(None))


def test_corpora_are_listed_and_shown_without_their_escapes() -> None:
    """A hostile name is shown, not obeyed; episodes have a line each."""
    listed, shown = terminal_corpora([CORPUS]), terminal_corpus(CORPUS, [EPISODE])
    assert "swe\\x1b[31m" in listed
    assert "60,000" in listed
    assert "e1 30 61 35 60,000" in " ".join(shown.split())
    assert "\x1b" not in listed + shown
    assert terminal_corpora([]) == "no corpora found"


def test_an_episode_is_shown_message_by_message() -> None:
    """Roles, sizes, calls, and which turn a recorded answer belongs to; long messages are cut in the middle."""
    messages = [
        Message(role="user", content="fix it " * 200),
        Message(role="assistant", content="", tool_calls=(ToolCall(id="1", name="bash", arguments="{}"),)),
        Message(role="tool", content="done\x1b[2J", tool_call_id="1"),
    ]
    text = terminal_episode(make_episode("e1", messages))
    assert "[0] user (1,400 characters, 1,400 so far)" in text
    assert "characters left out" in text
    assert "answer of turn 0" in text
    assert "call bash: {}" in text
    assert "done\\x1b[2J" in text


def test_an_import_says_what_it_dropped_and_why() -> None:
    """Each file with its format and counts, reasons with numbers, notes, and the sum."""
    one = SimpleNamespace(
        source="a.jsonl",
        format="openai_chat",
        episodes=2,
        turns=9,
        messages=20,
        repaired={"id made": 1},
        dropped={"no role": 3},
        notes=("odd\n",),
        broken=(),
    )
    other = SimpleNamespace(
        source="b.txt", format=None, episodes=0, turns=0, messages=0, repaired={}, dropped={}, notes=(), broken=()
    )
    text = terminal_import([one, other])
    assert "a.jsonl: openai_chat: 2 episodes, 9 turns, 20 messages" in text
    assert "  dropped 3: no role" in text
    assert "  note: odd\\n" in text
    assert "b.txt: not a known format" in text
    assert text.endswith("in all: 2 episodes, 9 turns")
