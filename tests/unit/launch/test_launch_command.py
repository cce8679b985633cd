from pathlib import Path

import pytest
from launch_builds import scripted

from soak.errors import LaunchError
from soak.facts import Build
from soak.launch import LOCAL, Place, Prepared
from soak.launch.command import ServerCommand, command_for


def served(*extra_flags: str, **changes: object) -> ServerCommand:
    spec = scripted("serve", speculative={"method": "ngram"}, prefix_cache=True, **changes)
    prepared = Prepared(spec=spec, folder=Path("/b"), python=Path("/b/venv/bin/python"), model_path=Path("/m"))
    return command_for(prepared, 8000, extra_flags, {"PATH": "/bin", "OPENAI_API_KEY": "s3cret"})


def built(*extra_flags: str) -> Build:
    return served(*extra_flags).build


def test_the_build_says_what_is_on() -> None:
    """Without further flags the build is the spec's: speculation and prefix cache as given there."""
    build = built()
    assert build.speculative == {"method": "ngram"}
    assert build.settings["speculation"] is True
    assert build.settings["prefix_cache"] is True
    assert "extra_flags" not in build.settings


@pytest.mark.parametrize(
    "flags",
    [
        ('--speculative-config={"method":"eagle"}',),
        ("--speculative-config", '{"method":"eagle"}'),
        ('-sc={"method":"mtp"}', '-sc={"method":"eagle"}'),
    ],
)
def test_the_last_speculative_config_holds(flags: tuple[str, ...]) -> None:
    """A speculative config among the extra flags replaces the spec's, in either spelling, the last one last."""
    assert built(*flags).speculative == {"method": "eagle"}


def test_a_prefix_cache_switched_off_is_said_to_be_off() -> None:
    """Of contradicting flags the last one holds."""
    assert built("--no-enable-prefix-caching").settings["prefix_cache"] is False
    assert built("--no-enable-prefix-caching", "--enable-prefix-caching").settings["prefix_cache"] is True
    assert built("--no-enable-prefix-caching").settings["extra_flags"] == ["--no-enable-prefix-caching"]


@pytest.mark.parametrize("flags", [("--speculative-config=nonsense",), ("--speculative-config",), ("-sc", "[1]")])
def test_a_speculative_config_that_is_no_object_is_refused(flags: tuple[str, ...]) -> None:
    """A speculative config that is not a JSON object is refused before anything is started."""
    with pytest.raises(LaunchError, match="not a JSON object"):
        built(*flags)


def test_placeholders_are_filled_in_words_flags_and_environment() -> None:
    """Port, model, name, Python and cores stand where the spec has their placeholders; a given key does not."""
    command = served(
        command=("{python}", "{model}"), flags=("--port={port}", "--name={served}"), environment={"THREADS": "{cores}"}
    )
    assert command.words[:4] == ("/b/venv/bin/python", "/m", "--port=8000", "--name=echo")
    assert int(command.environment["THREADS"]) >= 1
    assert "s3cret" not in str(command)


def test_folders_of_an_import_path_are_meant_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Relative folders in a build's PYTHONPATH are the user's, though the server starts in another folder."""
    monkeypatch.chdir(tmp_path)
    command = served(environment={"PYTHONPATH": "plugins::/opt/more"})
    assert command.environment["PYTHONPATH"] == f"{tmp_path}/plugins:/opt/more"
    assert "PYTHONPATH" not in served().environment


def test_flags_change_the_build_but_not_its_environment() -> None:
    """Builds that differ in flags only have one installation and two fingerprints."""
    one, two = scripted("serve"), scripted("serve", flags=("--x",))
    assert one.folder == two.folder
    assert one.fingerprint != two.fingerprint


def test_the_local_build_never_prefills_a_prompt_in_pieces() -> None:
    """The batch holds a whole context and chunked prefill is off, since seeded requests kill this engine otherwise."""
    flags = dict(flag.partition("=")[::2] for flag in LOCAL.flags)
    assert "--no-enable-chunked-prefill" in flags
    assert int(flags["--max-num-batched-tokens"]) >= int(flags["--max-model-len"])


def test_what_is_passed_on_reaches_the_server_and_nothing_else() -> None:
    """A variable named in pass_on is in the server's environment, other keys are not, and the build holds neither."""
    prepared = Prepared(
        spec=scripted("serve", pass_on=("MY_TOKEN",)), folder=Path("/b"), python=Path("/b/python"), model_path=None
    )
    command = command_for(prepared, 1, (), {"MY_TOKEN": "sk-given", "OTHER_TOKEN": "sk-other"})
    assert command.environment["MY_TOKEN"] == "sk-given"
    assert "sk-" not in repr(command.build)
    assert "OTHER_TOKEN" not in command.environment


def test_two_servers_share_the_machine() -> None:
    """A server gets the cores and the GPUs of its place, counted among those the user chose."""
    spec = scripted("serve", environment={"THREADS": "{cores}"})
    prepared = Prepared(spec=spec, folder=Path("/b"), python=Path("/b/python"), model_path=None)
    command = command_for(prepared, 1, (), {}, Place(cores=3, devices=(2, 3)))
    assert (command.environment["THREADS"], command.environment["CUDA_VISIBLE_DEVICES"]) == ("3", "2,3")
    chosen = command_for(prepared, 1, (), {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, Place(cores=3, devices=(2, 3)))
    assert chosen.environment["CUDA_VISIBLE_DEVICES"] == "6,7"
