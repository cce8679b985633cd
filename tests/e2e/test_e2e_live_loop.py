"""What a person watching a run is told of a loop, while the loop still runs."""

from collections.abc import Callable
from pathlib import Path

from fakes import Ask, FakeServer, Script, loop_answer, pieces, stream
from fakes.script import Send, Until
from rigs.cli import Command, run_folder_in
from rigs.replaying import until

from soak.store import RunFolder

UNIT = " wait, let me check again."
LEAD = 80
# A loop is certain after 512 repeated tokens; the trackers look every 32, and the first copy repeats nothing.
CERTAIN = LEAD + len(pieces(UNIT)) + 512 + 2 * 32
MAX_TOKENS = 4 * CERTAIN


def held(ask: Ask) -> Script:
    """Answer with a loop that stands still, once it is certain, until the test has seen that somebody was told."""
    if "seed" not in ask.body:  # a probe
        return stream(ask.ordinary(), ask)
    script = stream(loop_answer(ask, unit=UNIT), ask)
    steps, sent = [], 0
    for step in script:
        sent += step.tokens if isinstance(step, Send) else 0
        steps.append(step)
        if sent >= CERTAIN and Until("told") not in steps:
            steps.append(Until("told"))
    return Script(steps, finish=script.finish)


async def test_a_loop_is_told_while_it_runs(begin: Callable[..., Command], tmp_path: Path) -> None:
    """The line about a loop comes when it is certain: the server sends the other three quarters after it was read."""
    async with FakeServer(held) as server:
        command = begin("run", "--scenario", "smoke", "--target", server.url, "--turns", 1, "--json",
                        "--set", f"sampling.max_tokens={MAX_TOKENS}")  # fmt: skip
        await until(lambda: "noticed" in command.err or command.code is not None)
        assert "a loop since token" in command.err, command.err
        assert command.code is None
        assert "garbage_loop:" not in command.err, "the turn has not ended"
        server.event("told").set()
        await until(lambda: command.code is not None)
    with RunFolder.open(run_folder_in(tmp_path)).history() as history:
        (record,) = history.final().values()
    assert record.judgement is not None
    assert record.observation is not None
    assert record.judgement.class_ == "garbage_loop"
    assert record.observation.output_tokens == MAX_TOKENS
    assert record.judgement.findings[0].detected_at is not None
    assert record.judgement.findings[0].detected_at <= CERTAIN
