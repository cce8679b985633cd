"""The commands that need no run of their own: check, show, compare, classify, corpus, import, run --plan, doctor."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rigs.cli import Command, Fake, Nursery, commands_of

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

CLASSES = {"ok", "garbage_loop", "early_stop", "max_tokens", "error"}
RATES = "loop=0.15,early_stop=0.1,error_event=0.1,broken_tool_call=0.1,http_500=0.05"
QUICK = ("--set", "retries.wait_max_s=0.05", "--set", "sampling.max_tokens=1500")
TURN = re.compile(r"^ *(\S+:\d+:\d+:\w+) ", re.MULTILINE)


class Runs(NamedTuple):
    """A folder with three finished runs in it: two of one arm, on servers with other faults, and one of two arms."""

    cwd: Path
    summary: dict[str, Any]


@pytest.fixture(scope="session")
def runs(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs `bad`, `good` and `both` (baseline and candidate on one faulty server)."""
    cwd = tmp_path_factory.mktemp("runs")
    with Fake(cwd, "--rates", RATES, "--seed", 3) as bad, Fake(cwd, "--rates", "none") as good:
        base = ("run", "--scenario", "smoke", "--passes", 3, "--json", *QUICK)
        commands = [
            nursery.begin(*base, "--target", bad.url, "--run", "bad", cwd=cwd),
            nursery.begin(*base, "--target", good.url, "--run", "good", cwd=cwd),
        ]
        for command in commands:
            command.wait()
        arms = ("--arm", f"baseline={bad.url}", "--arm", f"candidate={bad.url}")
        nursery.begin(*base, *arms, "--run", "both", cwd=cwd).wait()
    return Runs(cwd, commands[0].json)


@pytest.fixture
def look(soak: Soak, runs: Runs) -> Soak:
    """Run a command in the folder of the runs."""
    return lambda *args, **options: soak(*args, cwd=runs.cwd, **options)


def test_check_comes_to_what_the_run_came_to(look: Soak, runs: Runs) -> None:
    """Judging the stored answers again gives the same summary, turn classes and worst turns, without a server."""
    done = look("check", "bad", "--json")
    assert done.json == runs.summary
    assert done.code == {"pass": 0, "fail": 1, "unknown": 3}[runs.summary["verdict"]]
    counts = {name: runs.summary["arms"]["candidate"]["turns"][name] for name in CLASSES}
    assert all(counts[name] for name in ("ok", "garbage_loop", "early_stop", "error")), counts


@pytest.mark.parametrize(
    ("threshold", "code"),
    [("rate.error <= 90%", 0), ("rate.garbage_loop <= 0.1%", 1), ("turns.ok >= 1", 0), ("turns.ok > 1000", 1)],
)
def test_check_with_other_thresholds(look: Soak, threshold: str, code: int) -> None:
    """`--pass-if` takes the place of the scenario's thresholds and decides the exit code."""
    assert look("check", "bad", "--pass-if", threshold).code == code


def test_check_refuses_what_it_does_not_know(look: Soak) -> None:
    """An unknown classifier setting, one that is no number, and a broken threshold are usage errors."""
    for args in (("--classify", "nonsense=3"), ("--classify", "x=y"), ("--pass-if", "rate.nonsense <= 1%")):
        done = look("check", "bad", *args)
        assert done.code == 2
        done.error_lines()


def test_show_lists_turns_and_tells_one(look: Soak, runs: Runs) -> None:
    """The list holds every turn, `--class` only its own; a turn's page has its class, reason and answer."""
    assert len(TURN.findall(look("show", "bad").out)) == 33
    loops = TURN.findall(look("show", "bad", "--class", "garbage_loop").out)
    assert len(loops) == runs.summary["arms"]["candidate"]["turns"]["garbage_loop"]
    page = look("show", "bad", loops[0]).out
    assert "garbage_loop" in page
    assert loops[0] in page
    assert "user" in page


def test_show_raw_gives_the_bytes_of_a_bad_turn(look: Soak) -> None:
    """`--raw` alone prints the kept stream of a bad turn, and says so where a good turn has none."""
    (loop, *_) = TURN.findall(look("show", "bad", "--class", "garbage_loop").out)
    assert "data: {" not in look("show", "bad", loop).out
    raw = look("show", "bad", loop, "--raw")
    assert raw.out.startswith("data: {")
    assert raw.out.rstrip().endswith("data: [DONE]")
    (good, *_) = TURN.findall(look("show", "bad", "--class", "ok").out)
    none = look("show", "bad", good, "--raw")
    assert none.code == 2
    none.error_lines()


def test_show_of_a_turn_that_is_not_there(look: Soak) -> None:
    """An unknown key, and one that fits several turns, are usage errors."""
    for key in ("no-such:0:0:candidate", "pocket-units:0"):
        done = look("show", "bad", key)
        assert done.code == 2
        done.error_lines()


def assert_comparison(comparison: dict[str, Any], pairs: int) -> None:
    """Check the fields of `soak.comparison/1`."""
    assert comparison["schema"] == "soak.comparison/1"
    fields = {"baseline", "candidate", "pairs", "unpaired", "clusters", "classes", "wall_clock", "invalid", "verdict"}
    assert fields | {"sentence"} <= comparison.keys()
    assert (comparison["pairs"], comparison["unpaired"], comparison["clusters"]) == (pairs, 0, 3)
    assert "garbage_loop" in comparison["classes"]
    for one in comparison["classes"].values():
        wanted = {"baseline", "candidate", "discordant", "difference", "ci95", "rate_ratio", "rate_ratio_ci95"}
        assert wanted | {"p_value", "test", "turns_needed_80", "result"} <= one.keys()
        assert one["baseline"].keys() == one["candidate"].keys() == {"events", "turns"}
        assert one["discordant"].keys() == {"baseline_only", "candidate_only"}
        assert one["result"] in {"improvement", "regression", "equivalent", "inconclusive"}
    wall = comparison["wall_clock"]
    assert {"baseline_s", "candidate_s", "ratio", "ci95", "explained_by"} <= wall.keys()
    assert wall["baseline_s"] > 0
    assert wall["candidate_s"] > 0


def test_compare_two_runs(look: Soak, runs: Runs) -> None:
    """Two runs are paired turn by turn; a faulty build is worse than a faultless one, and the sentence says so."""
    worse = look("compare", "good", "bad", "--json")
    assert_comparison(worse.json, 33)
    loops = runs.summary["arms"]["candidate"]["turns"]["garbage_loop"]
    assert worse.json["classes"]["garbage_loop"]["discordant"] == {"baseline_only": 0, "candidate_only": loops}
    assert worse.code == {"pass": 0, "fail": 1, "unknown": 3}[worse.json["verdict"]]
    better = look("compare", "bad", "good", "--json").json
    assert better["classes"]["garbage_loop"]["difference"] < 0
    assert worse.json["classes"]["garbage_loop"]["difference"] > 0


def test_compare_identical_arms_is_inconclusive(look: Soak) -> None:
    """Two arms that answered alike show no difference: every class inconclusive or equivalent, unknown, exit code 3."""
    done = look("compare", "both", "--json")
    assert_comparison(done.json, 33)
    for one in done.json["classes"].values():
        assert one["discordant"] == {"baseline_only": 0, "candidate_only": 0}
        assert one["difference"] == 0
        assert one["result"] in {"inconclusive", "equivalent"}
    assert done.json["classes"]["garbage_loop"]["result"] == "inconclusive"
    assert (done.code, done.json["verdict"]) == (3, "unknown")


def test_compare_for_people(look: Soak) -> None:
    """The terminal form opens with the sentence, the markdown form is a table to paste."""
    sentence = look("compare", "good", "bad", "--json").json["sentence"]
    plain = " ".join(look("compare", "good", "bad").out.split())
    assert sentence.split(";")[0].split(":")[-1].strip()[:30] in plain
    assert "| --- |" in look("compare", "good", "bad", "--markdown").out.replace("---:", "---").replace(":--", "---")


def test_compare_refuses_what_cannot_be_compared(look: Soak) -> None:
    """One run of one arm alone, a two-arm run beside another, and two output forms at once are usage errors."""
    for args in (("bad",), ("both", "good"), ("good", "bad", "--json", "--markdown")):
        done = look("compare", *args)
        assert done.code == 2
        done.error_lines()


ANSWERS = [
    {"id": "sane", "output": "The test passes now; the fix is in parser.py.", "finish_reason": "stop"},
    {"id": "loop", "repeat": {"prefix": "Let me look. ", "unit": "the the ", "count": 400}, "finish_reason": "length"},
    {"id": "empty", "output": "", "finish_reason": "stop", "completion_tokens": 1},
]


@pytest.mark.parametrize("way", ["file", "stdin", "plain"])
def test_classify_answers(soak: Soak, tmp_path: Path, way: str) -> None:
    """Answers from a file or stdin get one line each, in order, with class, reason and findings."""
    lines = "".join(json.dumps(answer) + "\n" for answer in ANSWERS)
    (tmp_path / "answers.jsonl").write_text(lines + "\n")
    done = soak("classify", "-" if way == "stdin" else "answers.jsonl", *([] if way == "plain" else ["--json"]),
                stdin=lines.encode())  # fmt: skip
    assert done.code == 0
    if way == "plain":
        assert [line.split("\t")[:2] for line in done.out.splitlines()][1] == ["loop", "garbage_loop"]
        return
    results = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["id"], one["class"]) for one in results] == [
        ("sane", "ok"), ("loop", "garbage_loop"), ("empty", "early_stop")
    ]  # fmt: skip
    assert all(one["reason"] for one in results)
    finding = results[1]["findings"][0]
    fields = {"kind", "where", "onset_char", "onset_token", "period_tokens", "copies", "covered", "unit", "confidence"}
    assert fields <= finding.keys()
    assert finding["where"] == "content"


@pytest.mark.parametrize(
    "line", [b"not json", b"[]", b'{"output": "no id"}', b'{"id": "a", "outptu": "x"}', b"\xff\xfe"]
)
def test_classify_refuses_what_is_no_answer(soak: Soak, line: bytes) -> None:
    """A line that is no answer ends it with exit code 4 and its number; the lines before it are judged."""
    done = soak("classify", "-", "--json", stdin=json.dumps(ANSWERS[0]).encode() + b"\n" + line + b"\n")
    assert done.code == 4
    assert "2" in done.error_lines()[0]
    assert json.loads(done.out.splitlines()[0])["id"] == "sane"


def test_classify_without_a_file(soak: Soak) -> None:
    """A file that is not there is exit code 4."""
    done = soak("classify", "absent.jsonl")
    assert done.code == 4
    done.error_lines()


def test_corpora_can_be_looked_at(soak: Soak) -> None:
    """The corpora of the project are listed, shown with their numbers and hash, and in order."""
    listed = soak("corpus", "list", "--json").json
    assert {"smoke", "swe_agent"} <= {one["name"] for one in listed}
    shown = soak("corpus", "show", "smoke", "--json").json
    assert shown["corpus"]["episodes"] == len(shown["episodes"]) == 3
    assert "sha256:" in soak("corpus", "show", "smoke").out
    episode = soak("corpus", "show", "smoke", shown["episodes"][0]["id"])
    assert "system" in episode.out
    for name in ("smoke", "swe_agent"):
        assert soak("corpus", "check", name).code == 0
    for args in (("show", "absent"), ("check", "absent"), ("show", "smoke", "absent")):
        done = soak("corpus", *args)
        assert done.code == 4
        done.error_lines()


OPENAI = {
    "id": "chat-1",
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}],
    "messages": [
        {"role": "system", "content": "You mend things."},
        {"role": "user", "content": "Mend it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "broken\n"},
        {"role": "assistant", "content": "It was broken."},
    ],
}
MINI = {
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "mini-1",
    "info": {"mini_version": "1.14.4", "exit_status": "Submitted"},
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Fix the bug."},
        {"role": "assistant", "content": "Looking.\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode><output>a.py</output>"},
        {"role": "assistant", "content": "Done.\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
    ],
}


def test_imported_transcripts_can_be_replayed(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """OpenAI chat JSONL and a mini-swe-agent trajectory become one corpus that passes its check and a run."""
    (tmp_path / "chats.jsonl").write_text(json.dumps(OPENAI) + "\n")
    (tmp_path / "mini.traj.json").write_text(json.dumps(MINI))
    done = soak("import", "chats.jsonl", "mini.traj.json", "--into", "mine", "--json")
    assert done.code == 0
    reports = done.json
    assert [one["format"] for one in reports] == ["openai-chat", "mini-swe-agent"]
    assert [one["episodes"] for one in reports] == [1, 1]
    assert soak("corpus", "check", "mine").code == 0
    shown = {one["id"]: one["turns"] for one in soak("corpus", "show", "mine", "--json").json["episodes"]}
    assert shown == {"chat-1": 2, "mini-1": 2}
    scenario = "name: mine\nquestion: q?\nduration: short\ncorpus: mine\nbudget: {passes: 1}\n"
    (tmp_path / "mine.yaml").write_text(scenario)
    ran = soak("run", "--scenario", "mine.yaml", "--target", steady.url, "--json")
    assert ran.json["arms"]["candidate"]["turns"]["finished"] == 4


def test_the_plan_is_shown_and_nothing_sent(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """`run --plan` tells turns, passes and depths, sends nothing, makes no folder, and needs no server."""
    asked = steady.state()["chats"]
    plan = soak("run", "--scenario", "smoke", "--passes", 2, "--target", steady.url, "--plan", "--json")
    assert plan.code == 0
    assert (plan.json["turns"], plan.json["passes"], plan.json["requests"]) == (22, 2, 22)
    text = soak("run", "--scenario", "swe_agent", "--arm", "a=http://x:1", "--arm", "b=http://y:1", "--plan")
    assert text.code == 0
    assert re.search("arms:? a, b", text.out)
    assert steady.state()["chats"] == asked
    assert not (tmp_path / "runs").exists()


def test_doctor_looks_at_the_installation_and_a_target(soak: Soak, steady: Fake) -> None:
    """doctor names what is installed and, given a target, its engine, model, context and abilities."""
    alone = soak("doctor", "--json")
    assert alone.code == 0, alone.out
    assert alone.json["target"] is None
    names = {check["name"] for check in alone.json["checks"]}
    assert {"soak", "packages", "scenario smoke", "scenario swe_agent", "local build"} <= names
    found = soak("doctor", "--target", steady.url, "--json").json["target"]
    assert (found["engine"], found["model"], found["context_tokens"]) == ("vllm", "fake-model", 131072)
    flags = ("speculation_on", "prefix_cache_on", "token_ids", "native_tools", "counts_tokens", "metrics")
    assert all(found[name] is True for name in flags)
    text = soak("doctor", env={"SOAK_TARGET": steady.url})
    assert "model fake-model" in text.out
    assert "note: " not in text.out


def test_every_command_has_help_with_an_example(soak: Soak) -> None:
    """`--help` of the program and of every command ends with an example that begins like the command itself."""
    commands = [[name] for name in commands_of(soak("--help").out)]
    assert len(commands) >= 10
    commands += [["corpus", name] for name in commands_of(soak("corpus", "--help").out)]
    assert "Example: soak " in soak("--help").out
    for command in commands:
        done = soak(*command, "--help")
        assert done.code == 0
        assert f"Example: soak {' '.join(command)}" in " ".join(done.out.split())


def test_the_lists_of_commands_are_whole_sentences(soak: Soak) -> None:
    """`--help` of the program and of `corpus` says of each command what it does in one line that is not cut off."""
    for group in ((), ("corpus",)):
        listed = soak(*group, "--help").out.split("Commands:")[1].split("Example:")[0]
        lines = [line.rstrip() for line in listed.splitlines() if line.strip()]
        assert len(lines) == len(commands_of(soak(*group, "--help").out))
        assert all(line.endswith(".") and not line.endswith("..") for line in lines), listed


def test_two_arms_get_every_turn(look: Soak) -> None:
    """A run with two arms gives each planned turn to both, and their summaries have the same plan."""
    summary = look("check", "both", "--json").json
    assert summary["arms"].keys() == {"baseline", "candidate"}
    assert [arm["turns"]["finished"] for arm in summary["arms"].values()] == [33, 33]
    assert summary["plan"]["turns"] == 33


def test_version(soak: Soak) -> None:
    """`--version` prints name and version."""
    assert re.fullmatch(r"soak \d+\.\d+\.\d+\n", soak("--version").out)
