"""Where a build's model lies, and what its generation config makes of settings left out."""

import json
from pathlib import Path

import pytest

from soak.errors import UsageError
from soak.facts import BuildFile, NamedBuild
from soak.launch import checkpoint_of, read_defaults, sampling_defaults
from soak.scenario import find_build


def build(engine: str = "vllm", **fields: object) -> NamedBuild:
    """Return a build of a model that lies nowhere here."""
    known: dict[str, object] = {"engine": engine, "about": "x", "model": "org/model"}
    return NamedBuild(name="b", file=BuildFile(**(known | fields)))  # type: ignore[arg-type]


def test_a_model_in_a_folder_tells_its_defaults(tmp_path: Path) -> None:
    """Sampling settings are read from the model's own file, as the server does; other entries are not sampling."""
    told = {"top_k": 20, "temperature": 0.6, "do_sample": True, "eos_token_id": [1, 2], "top_p": "high"}
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    one = build(model=str(tmp_path))
    assert checkpoint_of(one) == str(tmp_path)
    assert sampling_defaults(one) == {"top_k": 20, "temperature": 0.6}
    (tmp_path / "generation_config.json").unlink()
    assert sampling_defaults(one) == {}


def test_flags_say_which_defaults_hold(tmp_path: Path) -> None:
    """`--generation-config vllm` is neutral, a folder is read, an override comes on top; the last flag holds."""
    (tmp_path / "generation_config.json").write_text('{"top_k": 20}')
    assert sampling_defaults(build(flags=("--generation-config=vllm",))) == {}
    assert sampling_defaults(build(flags=("--generation-config", str(tmp_path)))) == {"top_k": 20}
    assert sampling_defaults(build(flags=(f"--generation-config {tmp_path}", "--generation-config=vllm"))) == {}
    over = '--override-generation-config={"min_p": 0.1}'
    assert sampling_defaults(build(flags=("--generation-config=vllm", over))) == {"min_p": 0.1}


def test_what_cannot_be_known_is_not_guessed() -> None:
    """A model on the Hub and an engine that is a command tell nothing here."""
    assert sampling_defaults(build()) is None
    assert sampling_defaults(build("command", command=("serve",))) is None
    assert checkpoint_of(build()) == "org/model"


def test_the_local_build_has_a_folder() -> None:
    """The embedded build's name stands for the checkpoint in the cache."""
    local = find_build("local")
    assert Path(checkpoint_of(local) or "").name.startswith("smollm2")


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 5000])
def test_a_wrong_generation_config_is_told(tmp_path: Path, text: str) -> None:
    """What is no JSON object is an error with words, however it is wrong; so is a file that is not there."""
    path = tmp_path / "generation_config.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a JSON object"):
        read_defaults(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_defaults(tmp_path / "absent.json")
