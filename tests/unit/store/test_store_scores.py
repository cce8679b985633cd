"""Files of scores that grow: what was kept is whole, whatever cut them off."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soak.errors import RunFolderError
from soak.facts import RescoredOutput, RescoringCard, SamplingLaw, TurnKey, rescored_output
from soak.facts.rescoring import from_lines
from soak.store import ScoreFile

CARD = RescoringCard(model="m", role="candidate", sampled_by="a", scored_by="b", vocabulary=9)


def output(number: int) -> RescoredOutput:
    """Return the scores of an answer of so many tokens."""
    rows = [((1, -0.1), (2, -2.0)) for _ in range(number)]
    key = TurnKey(episode="e", turn=number, pass_=0, arm="candidate")
    return rescored_output(
        key,
        SamplingLaw(),
        prompt_tokens=3,
        width=2,
        token_ids=[1] * number,
        logprobs=[-0.1] * number,
        ranks=[0] * number,
        top=rows,
    )


def write(path: Path, numbers: range) -> None:
    """Add answers to a file."""
    with ScoreFile(path) as file:
        file.begin(CARD)
        for number in numbers:
            file.add(output(number))


def test_a_file_is_gone_on_with_and_read_by_anyone(tmp_path: Path) -> None:
    """What an earlier process kept is there by its key, and the file is the format of `facts.rescoring`."""
    path = tmp_path / "scores.jsonl"
    write(path, range(3))
    write(path, range(3, 5))
    with ScoreFile(path) as file:
        assert file.card == CARD
        assert [key.turn for key in file.outputs] == [0, 1, 2, 3, 4]
    with path.open("rb") as lines:
        card, outputs = from_lines(lines, path.name)
        assert (card, list(outputs)) == (CARD, [output(number) for number in range(5)])


def test_another_pair_is_refused(tmp_path: Path) -> None:
    """One file holds one pair of servers: the scores of another do not get in."""
    path = tmp_path / "scores.jsonl"
    write(path, range(1))
    other = RescoringCard(model="m", role="candidate", sampled_by="a", scored_by="c", vocabulary=9)
    with ScoreFile(path) as file, pytest.raises(RunFolderError, match="cannot be gone on with"):
        file.begin(other)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 10_000))
def test_a_file_cut_anywhere_holds_the_whole_answers_before_the_cut(tmp_path: Path, cut: int) -> None:
    """Whatever a crash leaves, exactly the whole lines before it are found, and more can be added."""
    path = tmp_path / "scores.jsonl"
    path.unlink(missing_ok=True)
    write(path, range(1, 4))
    data = path.read_bytes()
    cut %= len(data) + 1
    path.write_bytes(data[:cut])
    whole = data[:cut].count(b"\n")
    with ScoreFile(path) as file:
        assert (file.card is None) == (whole == 0)
        assert list(file.outputs.values()) == [output(number) for number in range(1, 4)][: max(0, whole - 1)]
        file.begin(CARD)
        file.add(output(9))
    with ScoreFile(path) as file:
        assert list(file.outputs)[-1].turn == 9


@pytest.mark.parametrize("line", [b"{}\n", b"[]\n", b'{"model":1}\n', b"[" * 3000 + b"\n"])
def test_damage_is_told_and_the_lock_let_go(tmp_path: Path, line: bytes) -> None:
    """A line that is no score is an error, twice the same one: the first has not kept the lock."""
    path = tmp_path / "scores.jsonl"
    path.write_bytes(line)
    for _ in range(2):
        with pytest.raises(RunFolderError), ScoreFile(path):
            pass
