"""What people see while a run goes on: numbers, log lines, the live panel; and how commands end."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import structlog
from rich.console import Console

from soak.app.audience import Opening
from soak.cli.board import Board, duration, finding_line
from soak.cli.door import guarded
from soak.cli.lines import LineView
from soak.cli.live import LiveView
from soak.cli.logs import LogSink, configure
from soak.cli.run import _overrides
from soak.cli.steps import StepView
from soak.errors import (
    CorpusError,
    LaunchError,
    RunFolderError,
    ScenarioError,
    SoakError,
    TargetError,
    TranscriptError,
    UsageError,
)
from soak.facts import (
    ArmCard,
    Budget,
    Build,
    CorpusCard,
    EngineSample,
    Event,
    Judgement,
    Manifest,
    Observation,
    Record,
    Scenario,
    Signal,
    TurnKey,
    Usage,
)

HOSTILE = "\x1b]0;title\x07\x1b[2J[red]bold[/red]\r\nnext‮line\x00"


def opening(budget: Budget, planned: int | None = None, **more: Any) -> Opening:
    scenario = Scenario(name="s", question="q", duration="d", corpus="c", budget=budget)
    manifest = Manifest(
        soak_version="0",
        created_at=0.0,
        scenario={},
        given={},
        seed=1,
        corpus=CorpusCard(name="c", path="c", digest="d", episodes=1, turns=1),
        arms=(ArmCard(name="candidate", build=Build(model="m", target="t")),),
        plan_digest="d",
    )
    return Opening(folder=Path("runs/x"), scenario=scenario, manifest=manifest, planned_turns=planned, **more)


def key(turn: int) -> TurnKey:
    return TurnKey(episode="e", turn=turn, pass_=0, arm="candidate")


def ended(turn: int, class_: Any = "ok", reason: str = "fine", tokens: int = 10) -> Record:
    observation = Observation(
        key=key(turn), started_at=0.0, ending="complete", max_tokens=9, usage=Usage(completion=tokens)
    )
    judgement = Judgement(class_=class_, reason=reason)
    return Record(key=key(turn), outcome="finished", at=0.0, observation=observation, judgement=judgement)


def broken(turn: int, reason: str = "stopped") -> Record:
    return Record(key=key(turn), outcome="indeterminate", at=0.0, reason=reason)


def test_the_board_counts() -> None:
    """Classes, outcomes, turns in flight and the share of a bounded budget are counted, earlier sittings included."""
    board = Board()
    board.open(opening(Budget(turns=20), planned=20, done=5))
    board.in_flight[key(1)] = 0.0
    for record in (ended(1), ended(2, "garbage_loop"), broken(3)):
        board.end(record)
    counts = board.counts["candidate"]
    assert (counts["finished"], counts["ok"], counts["garbage_loop"], counts["indeterminate"]) == (2, 1, 1, 1)
    assert not board.in_flight
    assert board.share_done() == pytest.approx(7 / 20)
    assert board.tokens_per_s() is not None


def test_the_board_takes_time_budgets() -> None:
    """With a time budget the share is time used over time given, and never above 1."""
    board = Board()
    assert board.share_done() is None
    assert board.eta_s() is None
    board.open(opening(Budget(hours=1.0), used_s=1800.0))
    assert board.share_done() == pytest.approx(0.5, abs=0.01)
    assert board.eta_s() == pytest.approx(1800, abs=5)
    board.open(opening(Budget(minutes=1.0), used_s=500.0))
    assert board.share_done() == 1.0


def test_the_board_reads_the_engine() -> None:
    """Acceptance length and tokens per second come from the engine's counters where it has them."""
    board = Board()
    for at, tokens in ((0.0, 0.0), (10.0, 500.0)):
        sample = EngineSample(arm="candidate", at=at, drafts=at * 10, accepted_tokens=at * 15, generation_tokens=tokens)
        board.sample(sample)
    assert board.acceptance_length("candidate") == pytest.approx(2.5)
    assert board.tokens_per_s("candidate") == pytest.approx(50.0)
    assert board.acceptance_length("other") is None


def test_durations() -> None:
    """Hours, minutes and seconds; a dash for the unknown."""
    assert [duration(value) for value in (None, 0.0, 59.9, 3723.0, 90000.0)] == [
        "-", "0:00:00", "0:00:59", "1:02:03", "25:00:00"
    ]  # fmt: skip


def test_only_bad_turns_are_told() -> None:
    """Ok and skipped turns give no line; others give key, class and reason, without control characters."""
    skipped = Record(key=key(1), outcome="skipped", at=0.0, reason="too long")
    assert finding_line(ended(1)) is None
    assert finding_line(skipped) is None
    line = finding_line(ended(2, "error", HOSTILE)) or ""
    assert line.startswith("e:2:0:candidate error: ")
    assert not any(ord(character) < 32 or ord(character) == 0x202E for character in line)
    assert "indeterminate" in (finding_line(broken(3)) or "")


@pytest.fixture
def panel() -> tuple[LiveView, io.StringIO]:
    """A live view on a terminal of 120 columns."""
    screen = io.StringIO()
    return LiveView(Console(file=screen, force_terminal=True, width=120, color_system=None)), screen


def test_the_live_panel_shows_numbers_and_findings(panel: tuple[LiveView, io.StringIO]) -> None:
    """Progress, counts by class, and the last findings are on the screen; hostile text cannot steer the terminal."""
    view, screen = panel
    view.preparing("asking", HOSTILE)
    view.opening(opening(Budget(turns=4), planned=4))
    view.started(key(0))
    view.signal(key(0), Signal(kind="loop", at_token=40, certain=True, text=HOSTILE))
    view.ended(ended(0, "garbage_loop", f"[bold]loop[/bold] of {HOSTILE}"))
    view.event(Event(at=0.0, kind="server_down", arm="candidate", text="server does not answer"))
    view.sample(EngineSample(arm="candidate", at=0.0))
    frame = Console(file=io.StringIO(), width=120, color_system=None)
    frame.print(view)
    shown = frame.file.getvalue()  # type: ignore[attr-defined]
    assert "garbage_loop" in shown
    assert "25%" in shown
    assert "server does not answer" in shown
    assert "[bold]loop[/bold]" in shown, "markup in foreign text is text"
    view.closing()
    text = screen.getvalue()
    assert "\x1b]0;" not in text
    assert "\x1b[2J" not in text
    assert "‮" not in text


def test_a_loop_is_on_the_screen_at_once(panel: tuple[LiveView, io.StringIO]) -> None:
    """What was noticed is drawn when it is told, and does not wait for the next of the four frames a second."""
    view, screen = panel
    view.opening(opening(Budget(turns=4), planned=4))
    view.started(key(0))
    view.signal(key(0), Signal(kind="loop", at_token=40, certain=True, text="the same line again"))
    assert "the same line again" in screen.getvalue()
    view.closing()


def steps_shown(*, terminal: bool) -> str:
    """What a view shows of a step that takes 71 seconds and one that never ends."""
    screen = io.StringIO()
    view = StepView(Console(file=screen, force_terminal=terminal, width=120, color_system=None))
    for elapsed_s in (0.0, 0.5, 60.5, 61.0):
        view.preparing("torch", "torch==2 [cpu]", elapsed_s)
    view.preparing("torch", "torch==2 [cpu]", 71.3, ended=True)
    view.preparing("engine", HOSTILE)
    view.close()
    return screen.getvalue()


def test_a_step_is_one_line_with_its_duration() -> None:
    """Without a terminal a step is one line when it has ended, and a sign of life for each minute before."""
    assert steps_shown(terminal=False).splitlines() == ["torch: torch==2 [cpu] … 60 s", "torch: torch==2 [cpu] · 71 s"]


def test_a_terminal_shows_the_step_that_goes_on() -> None:
    """On a terminal the step that goes on is drawn at once; foreign text in it cannot steer the terminal."""
    shown = steps_shown(terminal=True)
    assert "torch: torch==2 [cpu] · 71 s" in shown
    assert "engine: " in shown
    assert "\x1b]0;" not in shown
    assert "\x1b[2J" not in shown


def test_steps_are_logged_when_they_have_ended(tmp_path: Path) -> None:
    """The log has each step once, with what it took."""
    sink = configure(as_json=True)
    sink.attach(tmp_path / "soak.log")
    view = LineView(sink)
    for elapsed_s, is_end in ((0.0, False), (0.5, False), (12.0, True)):
        view.preparing("asking", "what it can do", elapsed_s, ended=is_end)
    sink.close()
    (logged,) = map(json.loads, (tmp_path / "soak.log").read_text().splitlines())
    assert (logged["event"], logged["detail"], logged["took"]) == ("asking", "what it can do", "12 s")


def test_log_lines_go_to_the_runs_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of the view is also a JSON line in `soak.log`, and hostile text cannot break either."""
    sink = configure(as_json=True)
    view = LineView(sink, every_s=0.0)
    start = opening(Budget(turns=4), planned=4)
    view.opening(Opening(folder=tmp_path, scenario=start.scenario, manifest=start.manifest, planned_turns=4))
    view.ended(ended(0, "error", HOSTILE))
    view.event(Event(at=0.0, kind="resumed", text=HOSTILE))
    view.closing()
    sink.close()
    logged = [json.loads(line) for line in (tmp_path / "soak.log").read_text().splitlines()]
    assert [line["event"] for line in logged] == ["run begins", "turn", "progress", "resumed", "progress"]
    assert logged[2]["error"] == 1
    printed = capsys.readouterr().err
    assert [json.loads(line)["event"] for line in printed.splitlines()] == [line["event"] for line in logged]
    assert "\x1b" not in printed


def test_keys_never_reach_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever text holds the API key of the environment, the log has three stars instead."""
    monkeypatch.setenv("SOAK_API_KEY", "secret-key-0123456789")
    sink = configure(as_json=True)
    sink.attach(tmp_path / "soak.log")
    structlog.get_logger().info("asked with secret-key-0123456789", text="Bearer secret-key-0123456789")
    sink.close()
    logged = (tmp_path / "soak.log").read_text()
    assert "secret-key" not in logged
    assert "Bearer ***" in logged


def test_a_key_that_is_an_ordinary_word_forges_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key shorter than eight characters is taken out after `Bearer` only, by the client's own rule."""
    monkeypatch.setenv("SOAK_API_KEY", "token")
    sink = configure(as_json=True)
    sink.attach(tmp_path / "soak.log")
    structlog.get_logger().info("one token was asked for", text="refused: Bearer token")
    sink.close()
    (logged,) = map(json.loads, (tmp_path / "soak.log").read_text().splitlines())
    assert (logged["event"], logged["text"]) == ("one token was asked for", "refused: Bearer ***")


def test_a_quiet_sink_still_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the live panel owns the terminal, log lines go to the file alone."""
    sink: LogSink = configure(as_json=False)
    sink.quiet = True
    sink.attach(tmp_path / "soak.log")
    structlog.get_logger().info("hello")
    sink.close()
    assert "hello" in (tmp_path / "soak.log").read_text()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (CorpusError, 4),
        (TranscriptError, 4),
        (TargetError, 5),
        (LaunchError, 5),
        (RunFolderError, 7),
    ],
)
def test_errors_become_three_lines_and_a_code(
    kind: type[SoakError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each error of the tree prints what, why and what to do, one line each whatever is in them, and its exit code."""

    def act() -> int:
        raise kind("what\nhappened", why="because\r\nof this", hint="do\tthat")

    assert guarded(act) == code
    assert capsys.readouterr().err == "error: what happened\n  why: because of this\n   do: do that\n"


def test_a_failed_build_shows_the_end_of_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    """The log's last lines stand above the three lines of the error, and cannot steer the terminal."""

    def act() -> int:
        raise LaunchError("a died", why="b; log: /c/install.log", hint="d", log_tail=("first", HOSTILE))

    assert guarded(act) == 5
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["the log ends:", "  | first"]
    assert lines[-3:] == ["error: a died", "  why: b; log: /c/install.log", "   do: d"]
    assert not any(ord(character) < 32 or ord(character) == 0x202E for line in lines for character in line)


def test_a_scenarios_problems_are_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    """All problems of a scenario stand in the line that says why."""

    def act() -> int:
        raise ScenarioError("bad.yaml cannot be used", problems=("line 1: a", "line 2: b"), hint="mend them")

    assert guarded(act) == 4
    assert "line 1: a; line 2: b" in capsys.readouterr().err


def test_other_ends_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is 130; what the system refuses, and a bug of ours, are 70 and no verdict; a result is its own code."""

    def interrupted() -> int:
        raise KeyboardInterrupt

    def refused() -> int:
        raise PermissionError(13, "Permission denied", "/x")

    assert guarded(lambda: 6) == 6
    assert guarded(interrupted) == 130
    capsys.readouterr()
    assert guarded(refused) == 70
    assert [line[:7] for line in capsys.readouterr().err.splitlines()] == ["error: ", "  why: ", "   do: "]

    def broken() -> int:
        raise IndexError("a bug")

    assert guarded(broken) == 70
    assert "this is a bug in soak" in capsys.readouterr().err


def test_flags_become_overrides() -> None:
    """Budget, in-flight and seed stand for scenario fields; --set is taken as it is; two budgets are refused."""
    none = {"hours": None, "minutes": None, "passes": None, "turns": None}
    assert _overrides([], none, None, None) == {}
    assert _overrides(["a.b=c=d"], {**none, "turns": 5}, 3, 0) == {
        "a.b": "c=d", "budget.turns": "5", "load.in_flight": "3", "seed": "0"
    }  # fmt: skip
    with pytest.raises(UsageError, match="more than one budget"):
        _overrides([], {**none, "turns": 5, "hours": 1.0}, None, None)
    for text in ("nothing", "=1", " =1"):
        with pytest.raises(UsageError):
            _overrides([text], none, None, None)
