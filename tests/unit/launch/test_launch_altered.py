"""Builds with one thing changed."""

import pytest

from soak.errors import UsageError
from soak.facts import BuildFile, EngineChange, NamedBuild, Switch
from soak.launch import altered

VLLM = NamedBuild(
    name="mine",
    file=BuildFile(
        engine="vllm-cpu",
        about="a build",
        version="0.32.0",
        model="m",
        flags=("--enable-prefix-caching", "--enforce-eager", "--max-num-seqs=8"),
        speculative={"method": "ngram", "num_speculative_tokens": 3},
        environment={"A": "1"},
    ),
)


def test_nothing_changed_is_the_same_build() -> None:
    """An empty change gives the very build."""
    assert altered(VLLM, EngineChange()) is VLLM


def test_switches_replace_their_flag() -> None:
    """A switch takes the place of the flag that says the opposite, and other flags stay."""
    build = altered(VLLM, EngineChange(prefix_cache=False, eager=False, flags=("--max-num-seqs=2",)))
    assert build.file.flags == ("--no-enable-prefix-caching", "--no-enforce-eager", "--max-num-seqs=2")
    assert build.name == "mine (no prefix cache, no eager, --max-num-seqs=2)"


def test_speculation_off_and_other() -> None:
    """Speculation goes, or becomes another one; environment is added."""
    off = altered(VLLM, EngineChange(speculation=False, environment={"B": "2"}))
    assert off.file.speculative is None
    assert off.file.environment == {"A": "1", "B": "2"}
    other = altered(VLLM, EngineChange(speculation={"method": "ngram", "num_speculative_tokens": 1}))
    assert other.file.speculative == {"method": "ngram", "num_speculative_tokens": 1}


@pytest.mark.parametrize("change", [EngineChange(speculation=False), EngineChange(prefix_cache=False)])
def test_a_command_has_no_known_switch(change: EngineChange) -> None:
    """A build that is a command takes flags and environment, and refuses what soak cannot translate."""
    command = NamedBuild(name="c", file=BuildFile(engine="command", about="x", command=("serve",), model="m"))
    with pytest.raises(UsageError, match="cannot be started with"):
        altered(command, change)
    assert altered(command, EngineChange(flags=("--x=1",))).file.flags == ("--x=1",)


def test_a_command_says_its_switches() -> None:
    """What the file says turns a feature off takes the place of what turns it on, words in a row together."""
    file = BuildFile(
        engine="command",
        about="x",
        command=("serve",),
        model="m",
        flags=("--draft", "16", "--port", "{port}", "--cache"),
        switches={
            "speculation": Switch(on=("--draft", "16")),
            "prefix_cache": Switch(on=("--cache",), off=("--no-cache",)),
        },
    )
    command = NamedBuild(name="c", file=file)
    off = altered(command, EngineChange(speculation=False, prefix_cache=False))
    assert off.file.flags == ("--port", "{port}", "--no-cache")
    assert off.file.speculative is None
    again = altered(off, EngineChange(speculation=True, prefix_cache=True))
    assert again.file.flags == ("--port", "{port}", "--cache", "--draft", "16")
    for change in (EngineChange(eager=True), EngineChange(speculation={"num_speculative_tokens": 1})):
        with pytest.raises(UsageError, match="cannot be started with another"):
            altered(command, change)


def test_a_config_without_a_method_changes_the_builds_own() -> None:
    """Another depth alone leaves method and the rest as built; a build without speculation has nothing to change."""
    deeper = altered(VLLM, EngineChange(speculation={"num_speculative_tokens": 5}))
    assert deeper.file.speculative == {"method": "ngram", "num_speculative_tokens": 5}
    plain = altered(VLLM, EngineChange(speculation=False))
    for wanted in (True, {"num_speculative_tokens": 5}):
        with pytest.raises(UsageError, match="cannot be started with speculation"):
            altered(plain, EngineChange(speculation=wanted))


def test_a_url_cannot_be_changed() -> None:
    """A server that runs already is refused with what to do."""
    url = NamedBuild(name="u", file=BuildFile(engine="url", about="x", url="http://127.0.0.1:1"))
    with pytest.raises(UsageError, match="cannot be started"):
        altered(url, EngineChange(eager=True))
