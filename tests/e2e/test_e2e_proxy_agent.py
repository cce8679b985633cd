"""An agent no one here wrote, with its own program and its own client, through the proxy: it does not notice."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.cli import Command, Fake, environment, holds_bytes
from rigs.walls import skip_without_walls

from soak.app.agent.verify import verify
from soak.app.agent.walls import Builder
from soak.facts import Sandbox, Task
from soak.importers import find_tasks, load_corpus, load_tasks
from soak.sandbox import own_uid

TASKS = find_tasks("swe_tasks").resolve()
MINI = Path(sys.executable).with_name("mini")
KEY = "sk-of-the-agent-51c07e9b2d"
WALLS = '["--unshare-all","--die-with-parent","--ro-bind","/","/","--proc","/proc","--dev","/dev"]'
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.fixture
def task() -> Task:
    """A task with its repository, problem and hidden tests; skipped where nobody can work on it."""
    skip_without_walls()
    if not MINI.exists():
        pytest.skip("the program of mini-swe-agent is not beside this Python")
    return next(task for task in load_tasks(TASKS) if task.id == "pocket-boundary")


def checkout(task: Task, repository: Path) -> Path:
    """Write the task's repository and commit it."""
    for name, text in task.files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message=As it stands")):
        subprocess.run([*GIT, *words], cwd=repository, check=True, timeout=60)
    return repository


def work(task: Task, repository: Path, home: Path, url: str) -> str:
    """Let mini-swe-agent, as it is installed, work on the task with the model at `url`; return what it printed."""
    home.mkdir()
    settings = {
        "model.model_kwargs.api_base": f"{url}/v1",
        "agent.step_limit": "8",
        "environment.cwd": str(repository),
        "environment.wrapper_args": WALLS,
    }
    order = [MINI, "--model", "openai/fake-model", "--model-class", "litellm", "--environment-class", "bubblewrap"]
    order += ["--yolo", "--exit-immediately", "--output", home / "trajectory.json", "--task", task.problem]
    order += ["--config", "mini.yaml", *(word for item in settings.items() for word in ("--config", "=".join(item)))]
    own = {
        "HOME": str(home),
        "MSWEA_CONFIGURED": "true",
        "MSWEA_GLOBAL_CONFIG_DIR": str(home),
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_KEY": KEY,
        "PATH": f"{MINI.parent}:/usr/local/bin:/usr/bin:/bin",
    }
    done = subprocess.run(
        order, cwd=home, env=environment(**own), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180
    )
    return done.stdout + done.stderr


@pytest.mark.timeout(240)
def test_an_unchanged_agent_solves_a_task_through_the_proxy(
    begin: Callable[..., Command], soak: Callable[..., Command], fake: Callable[..., Fake], task: Task, tmp_path: Path
) -> None:
    """Its turns are one conversation, classed and recorded; the hidden tests pass; its key is nowhere."""
    server = fake("--tasks", TASKS)
    order = ("proxy", "--target", server.url, "--port", 0, "--run", "run", "--record", "mine", "--min-turns", 4)
    proxy = begin(*order, "--json", "--log-json").said('"listening"')
    (url,) = set(re.findall(r"(http://127\.0\.0\.1:\d+) passes on", proxy.err))
    repository = checkout(task, tmp_path / "repository")
    told = work(task, repository, tmp_path / "home", url)
    proxy.signal(signal.SIGINT)
    (arm,) = proxy.wait().json["arms"].values()
    assert (arm["turns"]["finished"], arm["turns"]["ok"], proxy.json["plan"]["episodes"]) == (4, 4, 1), told
    assert verify(task, repository, own_uid(), Builder.of(Sandbox(), TASKS)).resolved, told
    assert soak("check", "run", "--json").json["arms"]["candidate"]["turns"] == arm["turns"]
    assert soak("corpus", "check", "mine").code == 0
    (episode,) = load_corpus(tmp_path / "mine").episodes
    assert [[call.name for call in answer.tool_calls] for answer in map(episode.answer, episode.turns) if answer] == (
        [["bash"]] * 4
    )
    assert not any(holds_bytes(tmp_path / kept, KEY.encode()) for kept in ("run", "mine"))
