"""`app` called directly: sittings of a run against a real server, without a command line."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Ask, FakeServer, Script, make, one

from soak.app.audience import Opening
from soak.app.comparing import arms_of, compare_runs
from soak.app.judging import check_run, summary_of
from soak.app.resume import resume
from soak.app.run import RunOrder, prepare_run, run
from soak.app.sides import ArmSpec, parse_arms, with_sampling
from soak.errors import BuildFileError, CorpusError, RunFolderError, TargetError, UsageError
from soak.facts import EngineSample, Event, Record, Signal, TurnKey
from soak.plan import describe
from soak.store import RunFolder


class Heard:
    """An audience that keeps what it hears, and may act on an event."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.openings: list[Opening] = []
        self.events: list[Event] = []
        self.records: list[Record] = []
        self.samples: list[EngineSample] = []
        self.closed = 0
        self.on_start = lambda key: None

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        if ended:
            self.steps.append(step)

    def opening(self, opening: Opening) -> None:
        self.openings.append(opening)

    def started(self, key: TurnKey) -> None:
        self.on_start(key)

    def signal(self, key: TurnKey, signal: Signal) -> None:
        pass

    def ended(self, record: Record) -> None:
        self.records.append(record)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def sample(self, sample: EngineSample) -> None:
        self.samples.append(sample)

    def closing(self) -> None:
        self.closed += 1

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


class Served:
    """A FakeServer on a loop of its own, in a thread, since `app.run` runs its own loop here."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(server.start())

    def _do(self, what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    def close(self) -> None:
        self._do(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def served() -> Iterator[FakeServer]:
    """A running server that answers well; `served.policy` may be changed."""
    running = Served(FakeServer(one("none")))
    yield running.server
    running.close()


def order(server: FakeServer, folder: Path, **overrides: Any) -> RunOrder:
    """Return the order of a run of the smoke scenario."""
    given = {"budget.passes": "1", "retries.wait_max_s": "0.05"}
    given |= {name.replace("__", "."): str(value) for name, value in overrides.items()}
    return RunOrder(scenario="smoke", overrides=given, arms=parse_arms([], server.url), folder=folder)


def test_a_run_tells_its_audience_what_happens(served: FakeServer, tmp_path: Path) -> None:
    """The audience hears preparation, one opening, each turn's end, engine samples, the end; and is closed once."""
    heard = Heard()
    result = run(order(served, tmp_path / "run"), heard)
    assert heard.steps == ["asking"]
    assert [(one.folder, one.planned_turns, one.done) for one in heard.openings] == [(tmp_path / "run", 11, 0)]
    assert len(heard.records) == 11
    assert len(heard.samples) >= 2
    assert heard.kinds == ["ended"]
    assert heard.closed == 1
    assert result.summary.state == "complete"
    assert result.summary.verdict == "pass"


def test_a_metrics_page_that_falls_silent_is_told_and_kept(served: FakeServer, tmp_path: Path) -> None:
    """A page that gives no reading any more in mid-run is one event, heard and judged."""
    heard = Heard()

    def silence(_: TurnKey) -> None:
        served.engine.metrics = False

    heard.on_start = silence
    result = run(order(served, tmp_path / "run"), heard)
    assert heard.kinds == ["metrics_silent", "ended"]
    assert any("metrics page was silent 1 time" in reason for reason in result.summary.reasons)


def test_the_summary_is_a_function_of_the_folder(served: FakeServer, tmp_path: Path) -> None:
    """What `run` returns, what is read back, and what is judged again are the same summary."""
    result = run(order(served, tmp_path / "run"), Heard())
    assert summary_of(RunFolder.open(tmp_path / "run")) == result.summary
    assert check_run(tmp_path / "run") == result.summary


def test_a_comparison_knows_what_each_turn_was_sent(served: FakeServer, tmp_path: Path) -> None:
    """Two runs of one scenario sent the same, turn by turn; the digests of all of it are read from the folders."""
    for name in ("one", "other"):
        run(order(served, tmp_path / name), Heard())
    (arm,) = arms_of(tmp_path / "one")
    assert arm.history.requests.keys() == {turn.key for turn in arm.history.turns}
    assert not any("requests" in why for why in compare_runs(tmp_path / "one", tmp_path / "other").comparison.invalid)


def test_given_and_defaulted_settings_are_kept_apart(served: FakeServer, tmp_path: Path) -> None:
    """The manifest holds the resolved scenario, and beside it only what was said on the command line."""
    run(order(served, tmp_path / "run", sampling__max_tokens=300), Heard())
    manifest = RunFolder.open(tmp_path / "run").manifest
    assert manifest.scenario["sampling"]["max_tokens"] == 300
    assert manifest.scenario["sampling"]["top_p"] == 0.95
    assert "top_p" not in str(manifest.given)
    assert "300" in str(manifest.given)
    assert manifest.arms[0].given_target == served.url


def test_an_arm_keeps_sampling_of_its_own_over_a_resume(served: FakeServer, tmp_path: Path) -> None:
    """Paired requests differ in the fields given for the arm and in nothing else, also after a resume."""
    arms = with_sampling(
        parse_arms([f"plain={served.url}", f"other={served.url}"], None),
        [("other", "sampling.repetition_penalty", "1.1"), ("other", "sampling.temperature", "0.8")],
    )
    heard = Heard()
    interrupt_after(heard, 6)
    path = tmp_path / "run"
    run(replace(order(served, path), arms=arms), heard)
    resume(path, target=None, api_key=None, audience=Heard())
    bodies: dict[int, list[dict[str, Any]]] = {}
    for chat in served.chats:
        if chat.body and "seed" in chat.body:
            bodies.setdefault(chat.body["seed"], []).append(chat.body)
    assert len(bodies) == 11
    own = {"repetition_penalty": 1.1, "temperature": 0.8}
    for one_body, other in bodies.values():
        plain, given = sorted((one_body, other), key=lambda body: "repetition_penalty" in body)
        assert given == plain | own
    alike = parse_arms([f"plain={served.url}", f"other={served.url}"], None)
    run(replace(order(served, tmp_path / "alike"), arms=alike), Heard())
    digests = [RunFolder.open(folder).manifest.plan_digest for folder in (path, tmp_path / "alike")]
    assert digests[0] != digests[1]
    assert compare_runs(path, None).comparison.pairs == 11


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_after(heard: Heard, ends: int) -> None:
    """Send one Ctrl-C at the first start after so many ends."""
    sent: list[TurnKey] = []

    def on_start(key: TurnKey) -> None:
        if len(heard.records) >= ends and not sent:
            sent.append(key)
            interrupt()

    heard.on_start = on_start


def test_an_interrupt_in_a_hung_warm_up_ends_the_run(served: FakeServer, tmp_path: Path) -> None:
    """Ctrl-C while the warm-up request hangs ends the run at once, with nothing sent of the plan."""

    def policy(ask: Ask) -> Script:
        if ask.max_tokens == 8 and ask.body.get("stream"):
            threading.Timer(0.1, interrupt).start()
            return make("silent_first", ask)
        return make("none", ask)

    served.policy = policy
    heard = Heard()
    result = run(order(served, tmp_path / "run"), heard)
    assert result.summary.state == "interrupted"
    assert result.summary.arms["candidate"].turns.not_reached == 11
    served.policy = one("none")
    assert resume(tmp_path / "run", target=None, api_key=None, audience=Heard()).summary.verdict == "pass"


def test_handlers_of_signals_are_put_back(served: FakeServer, tmp_path: Path) -> None:
    """After a run Ctrl-C means again what it meant before."""
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    run(order(served, tmp_path / "run"), Heard())
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_stop_if_counts_over_sittings(served: FakeServer, tmp_path: Path) -> None:
    """A threshold on counts sees the turns of earlier sittings: errors before a resume are not forgotten."""
    served.policy = one("no_finish")
    heard = Heard()
    ends = {"thresholds.stop_if": '["turns.error >= 4"]', "load.in_flight": "1", "budget.passes": "3"}
    first = order(served, tmp_path / "run")
    first = RunOrder(scenario="smoke", overrides={**first.overrides, **ends}, arms=first.arms, folder=first.folder)
    interrupt_after(heard, 2)
    assert run(first, heard).summary.state == "interrupted"
    before = len(heard.records)
    assert 2 < before < 4
    again = Heard()
    result = resume(tmp_path / "run", target=None, api_key=None, audience=again)
    assert result.summary.state == "stopped"
    assert before + len(again.records) == 4


def test_resume_of_a_finished_run_sends_nothing(served: FakeServer, tmp_path: Path) -> None:
    """Resuming a run that is done changes no turn and comes to the same verdict."""
    first = run(order(served, tmp_path / "run"), Heard()).summary
    seeds = [request.body for request in served.chats if request.body and "seed" in request.body]
    again = resume(tmp_path / "run", target=None, api_key=None, audience=Heard()).summary
    assert [request.body for request in served.chats if request.body and "seed" in request.body] == seeds
    assert (again.verdict, again.arms["candidate"].turns) == (first.verdict, first.arms["candidate"].turns)


def test_resume_can_follow_a_server_that_moved(served: FakeServer, tmp_path: Path) -> None:
    """`target` takes the place of the stored URL, if the same build answers there."""
    heard = Heard()
    interrupt_after(heard, 3)
    assert run(order(served, tmp_path / "run"), heard).summary.state == "interrupted"
    elsewhere = Served(FakeServer(one("none")))
    try:
        result = resume(tmp_path / "run", target=elsewhere.server.url, api_key=None, audience=Heard())
    finally:
        elsewhere.close()
    assert result.summary.arms["candidate"].turns.finished == 11
    assert any(request.body and "seed" in request.body for request in elsewhere.server.chats)


def test_resume_refuses_another_engine(served: FakeServer, tmp_path: Path) -> None:
    """The same URL with another engine version behind it is not the build the run was begun with."""
    run(order(served, tmp_path / "run"), Heard())
    served.engine.version = "0.99.0"
    with pytest.raises(TargetError, match="is not the build"):
        resume(tmp_path / "run", target=None, api_key=None, audience=Heard())


def test_nothing_is_written_where_nothing_can_begin(served: FakeServer, tmp_path: Path) -> None:
    """A corpus that is not there and a target that refuses leave no run folder."""
    with pytest.raises(CorpusError):
        run(order(served, tmp_path / "run", corpus="absent"), Heard())
    served.engine.requires_key = "key-that-was-not-given"
    with pytest.raises(TargetError, match="does not let us in"):
        run(order(served, tmp_path / "run"), Heard())
    assert not (tmp_path / "run").exists()


def test_a_taken_folder_is_refused_before_anything_is_asked(served: FakeServer, tmp_path: Path) -> None:
    """A folder with something in it is refused before the target hears of us."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x").write_text("x")
    with pytest.raises(RunFolderError):
        run(order(served, tmp_path / "run"), Heard())
    assert not served.received


def test_the_outline_sends_nothing(served: FakeServer, tmp_path: Path) -> None:
    """An outline is made from scenario and corpus alone."""
    assert describe(prepare_run(order(served, tmp_path / "run")).plan).turns == 11
    assert not served.received


def test_arms_from_the_command_line() -> None:
    """
    One target is the candidate, none the local build; two arms keep their names and order; clashes are refused.

    What is neither URL nor build is refused with the builds there are.
    """
    assert parse_arms([], "http://x") == (ArmSpec(name="candidate", target="http://x"),)
    (local,) = parse_arms([], None)
    assert (local.name, local.target, local.build and local.build.name) == ("candidate", "local", "local")
    first, second = parse_arms(["a=http://x?y=z", "b=local"], None)
    assert first == ArmSpec(name="a", target="http://x?y=z")
    assert (second.name, second.target, second.launched) == ("b", "local", True)
    for name in ("vllm-cpu-0.3", "example.com/v1"):
        with pytest.raises(BuildFileError) as caught:
            parse_arms([], name)
        assert "local, vllm-cpu-0.31" in caught.value.why
    for arms, target in ((["a=x"], "y"), (["a=x", "a=y"], None), (["a=x", "b=y", "c=z"], None), (["a"], None)):
        with pytest.raises(UsageError):
            parse_arms(arms, target)
