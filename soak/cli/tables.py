"""Plans, corpora and imports as text for a terminal; all foreign text is escaped."""

from collections.abc import Sequence

from soak.facts import Episode, Message, text_of
from soak.importers import CorpusOutline, EpisodeOutline, SourceReport
from soak.plan import PlanOutline
from soak.report import escape_terminal
from soak.report.escape import one_line
from soak.report.table import terminal_table

_MESSAGE_CHARACTERS = 2000


def plan_text(plan: PlanOutline) -> str:
    """Return what a run would send."""
    sizes = [
        ["", "p50", "p90", "max"],
        [
            "prefix, characters",
            *_numbers(plan.depth_characters.p50, plan.depth_characters.p90, plan.depth_characters.max),
        ],
        ["prefix, tokens (estimate)", *_numbers(plan.depth_tokens.p50, plan.depth_tokens.p90, plan.depth_tokens.max)],
    ]
    first = [["first conversations", "turns", "deepest, characters"]]
    first += [[one_line(one.episode, 60), *_numbers(one.turns, one.deepest_characters)] for one in plan.first]
    total = (
        f"{plan.turns:,} turns in {plan.passes} passes, {plan.requests:,} requests"
        if plan.turns is not None and plan.requests is not None
        else f"{plan.pass_turns:,} turns a pass, repeated until the time is up"
    )
    return "\n".join(
        [
            f"scenario {escape_terminal(plan.scenario)}: {plan.episodes} episodes, seed {plan.seed}",
            f"arms: {', '.join(plan.arms)}",
            total,
            f"prompt tokens of one pass: about {plan.pass_prompt_tokens:,}",
            "",
            *terminal_table(sizes[0], sizes[1:]),
            "",
            *terminal_table(first[0], first[1:]),
        ]
    )


def corpora_table(corpora: Sequence[CorpusOutline]) -> str:
    """Return one line for each corpus."""
    rows = [
        [
            one_line(one.name, 40),
            *_numbers(one.episodes, one.turns, one.deepest_tokens),
            one_line(", ".join(one.licences), 30),
        ]
        for one in corpora
    ]
    return "\n".join(terminal_table(["corpus", "episodes", "turns", "deepest, tokens", "licence"], rows, indent=""))


def corpus_table(corpus: CorpusOutline, episodes: Sequence[EpisodeOutline]) -> str:
    """Return one line for each episode, under the corpus's totals."""
    rows = [
        [one_line(one.id, 50), *_numbers(one.turns, one.calls, one.results, one.deepest_characters, one.deepest_tokens)]
        for one in episodes
    ]
    numbers = f"{corpus.episodes} episodes, {corpus.turns} turns, {corpus.characters:,} characters"
    head = f"{escape_terminal(corpus.name)}: {numbers}"
    header = ["episode", "turns", "calls", "results", "deepest, characters", "tokens (estimate)"]
    return "\n".join([head, f"hash {corpus.digest}", "", *terminal_table(header, rows, indent="")])


def episode_text(episode: Episode) -> str:
    """Return an episode message by message; long ones are cut, and say so."""
    return "\n\n".join(_message(number, node.message) for number, node in enumerate(episode.nodes))


def import_text(reports: Sequence[SourceReport]) -> str:
    """Return what was read, dropped and repaired, file by file."""
    header = ["source", "format", "episodes", "turns", "calls", "results", "characters"]
    rows = [
        [
            one_line(one.source, 60),
            one.format or "unknown",
            *_numbers(one.episodes, one.turns, one.tool_calls, one.tool_results, one.characters),
        ]
        for one in reports
    ]
    lines = terminal_table(header, rows, indent="")
    for one in reports:
        counts = [(f"dropped {what}", n) for what, n in one.dropped.items()]
        counts += [(f"repaired {what}", n) for what, n in one.repaired.items()]
        lines += [f"{one_line(one.source, 60)}: {number} × {escape_terminal(what)}" for what, number in counts]
        lines += [f"{one_line(one.source, 60)}: {escape_terminal(note)}" for note in one.notes]
    return "\n".join(lines)


def _message(number: int, message: Message) -> str:
    text = text_of(message.content)
    shown = escape_terminal(text[:_MESSAGE_CHARACTERS], keep_lines=True)
    if len(text) > _MESSAGE_CHARACTERS:
        shown += f"\n[… {len(text) - _MESSAGE_CHARACTERS:,} more characters …]"
    calls = [f"→ {one_line(f'{call.name} {call.arguments}', 200)}" for call in message.tool_calls]
    return "\n".join([f"── {number} {message.role}", *([shown] if shown else []), *calls])


def _numbers(*values: int) -> list[str]:
    return [f"{value:,}" for value in values]
