"""
A small transcript of each format, written for this project, becomes exactly what stands beside it.

`fixtures/NAME.golden` tells the episodes and the report in a form that can be read. After a wanted change, write them
again with SOAK_WRITE_GOLDEN=1 and read the difference.
"""

import os
from pathlib import Path

import pytest
from rigs.transcripts import FIXTURES, NAMES, lay_out

from soak.facts import Episode, Message, text_of
from soak.importers import FORMATS, Import, SourceReport, check_corpus, load_corpus, write_corpus


def told(message: Message) -> str:
    """Return a message in one line."""
    parts = [
        message.role,
        *([message.tool_call_id] if message.tool_call_id else []),
        "|",
        repr(text_of(message.content)),
    ]
    if isinstance(message.content, list):
        parts.append(f"[{len(message.content)} parts]")
    if message.reasoning:
        parts.append(f"(thinks {message.reasoning!r})")
    parts += [f"-> {call.name}#{call.id} {call.arguments}" for call in message.tool_calls]
    return " ".join(parts)


def told_episode(episode: Episode) -> list[str]:
    """Return an episode in lines: messages with the one they follow, turns, tools, meta."""
    names = [tool["function"]["name"] for tool in episode.tools]
    lines = [f"episode {episode.id} tools {names}"]
    for i, node in enumerate(episode.nodes):
        after = "" if node.parent == (i - 1 if i else None) else f" after {node.parent}"
        filler = f"{node.message.role} | {len(str(node.message.content))} characters of filler"
        text = filler if episode.meta.get("load_shape") else told(node.message)[:300]
        lines.append(f"  {i}{after} {text}")
    for turn in episode.turns:
        lines.append(f"  turn {turn.prefix} -> {turn.answer} wait {turn.wait_s} tokens {turn.completion_tokens}")
    lines += [f"  meta {key} {value}" for key, value in sorted(episode.meta.items())]
    return lines


def told_report(report: SourceReport) -> list[str]:
    """Return a report in lines."""
    counts = f"{report.messages} messages {dict(sorted(report.roles.items()))} {report.tool_calls} calls"
    lines = [f"report {Path(report.source).name} {report.format}: {report.episodes} episodes {report.turns} turns"]
    lines.append(f"  found {counts} {report.characters} characters; kept {report.kept.characters}")
    lines += [f"  repaired {count} x {reason}" for reason, count in sorted(report.repaired.items())]
    lines += [f"  dropped {count} x {reason}" for reason, count in sorted(report.dropped.items())]
    lines += [f"  note {note}" for note in report.notes]
    return lines


@pytest.mark.parametrize("name", NAMES)
def test_fixture_becomes_its_golden_episodes(name: str, tmp_path: Path) -> None:
    """Episodes, turns, ids, waits, meta and report of a fixture are those written down."""
    run = Import([lay_out(name, tmp_path)])
    episodes = list(run.episodes())
    lines = [line for episode in episodes for line in told_episode(episode)]
    lines += [line for report in run.reports for line in told_report(report)]
    golden = FIXTURES / f"{name}.golden"
    if os.environ.get("SOAK_WRITE_GOLDEN"):
        golden.write_text("\n".join(lines) + "\n")
    assert "\n".join(lines) + "\n" == golden.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_fixture_is_sound_as_a_corpus(name: str, tmp_path: Path) -> None:
    """What a fixture becomes can be written, is equal when read, and has nothing a server would refuse."""
    episodes = tuple(Import([lay_out(name, tmp_path)]).episodes())
    write_corpus(tmp_path / "corpus", episodes)
    assert load_corpus(tmp_path / "corpus").episodes == episodes
    assert [item for item in check_corpus(episodes) if item.severity == "problem"] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_fixture_is_lost_silently(name: str, tmp_path: Path) -> None:
    """To the character, what was found, sent once and added equals what was kept and dropped."""
    run = Import([lay_out(name, tmp_path)])
    list(run.episodes())
    for report in run.reports:
        found = report.characters + report.tail_characters + report.added_characters
        assert found == report.kept.characters + report.dropped_characters


def test_every_format_has_a_fixture(tmp_path: Path) -> None:
    """The fixtures together are recognised as all formats there are."""
    seen: set[str | None] = set()
    for name in NAMES:
        run = Import([lay_out(name, tmp_path)])
        list(run.episodes())
        seen |= {report.format for report in run.reports}
    assert seen == set(FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_same_source_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Importing twice gives equal corpora, filler text included."""
    source = lay_out(name, tmp_path)
    digests = {write_corpus(tmp_path / f"c{i}" / "x", Import([source]).episodes()).digest for i in range(2)}
    assert len(digests) == 1
