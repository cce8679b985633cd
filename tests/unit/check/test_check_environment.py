"""Environment cards side by side, and an arm run once more."""

from typing import Any

import msgspec
from check_histories import arm_records, manifest, side

from soak.check import compare
from soak.check.environment import again_finding, card_difference, same_arm_warning, sampling_difference
from soak.facts import ArmCard, Build, CardEntry, EnvironmentCard
from soak.report import markdown_comparison, terminal_comparison

SAME = {"engine": "vllm", "engine_version": "0.32.0", "dtype": "bfloat16"}


def card(packages: dict[str, str] | None = None, **entries: str) -> ArmCard:
    environment = EnvironmentCard(
        entries={name: CardEntry(value=value, source="engine") for name, value in entries.items()},
        packages=packages or {},
    )
    return ArmCard(name="a", build=Build(model="m", target="http://t"), environment=environment)


def test_what_differs_comes_first_by_what_matters() -> None:
    """Engine and model stand before settings; what one card alone tells is told apart, and so are packages."""
    first = card({"torch": "2.13.0", "xgrammar": "0.2.7"}, **SAME, block_size="16", gpu="H200")
    second = card({"torch": "2.13.0", "xgrammar": "0.2.8"}, **(SAME | {"engine_version": "0.31.0"}), block_size="32")
    found = card_difference(first, second)
    assert found is not None
    assert [(row.name, row.baseline, row.candidate) for row in found.rows] == [
        ("engine_version", "0.32.0", "0.31.0"),
        ("block_size", "16", "32"),
    ]
    assert [(row.name, row.candidate) for row in found.one_sided] == [("gpu", None)]
    assert [(row.name, row.baseline, row.candidate) for row in found.packages] == [("xgrammar", "0.2.7", "0.2.8")]
    assert (found.compared, found.same_arm) == (4, False)
    assert same_arm_warning(found) == []


def test_sampling_of_its_own_comes_before_all_else() -> None:
    """An arm asked otherwise is no second run of the same arm; its field stands first, and is said without a card."""
    plain, own = card(**SAME), msgspec.structs.replace(card(**SAME), sampling={"temperature": 0.8})
    found = card_difference(plain, own)
    assert found is not None
    assert [(row.name, row.baseline, row.candidate) for row in found.rows] == [
        ("sampling.temperature", "as the scenario says", "0.8")
    ]
    assert same_arm_warning(found) == []
    (told,) = sampling_difference(own, msgspec.structs.replace(plain, environment=None))
    assert "temperature 0.8 and as the scenario says" in told
    assert sampling_difference(own, own) == sampling_difference(plain, plain) == []


def test_equal_cards_are_one_arm() -> None:
    """Two names of one content are the same arm; servers that soak did not start may hide a difference."""
    started = card_difference(card(**SAME, build="mine-abc"), card(**SAME, build="other-abc"))
    found = card_difference(card(**SAME), card(**SAME))
    assert same_arm_warning(started) == [
        "both arms were the same arm: all 4 properties of their environment cards are equal"
    ]
    assert "as far as their servers tell" in same_arm_warning(found)[0]


def test_another_build_with_an_equal_card_is_not_the_same_arm() -> None:
    """Where the build files differ in what no engine tells, the arms are not called the same."""
    found = card_difference(card(**SAME, build="mine-abc"), card(**SAME, build="mine-abd"))
    assert found is not None
    assert not found.same_arm


def test_without_cards_nothing_is_said() -> None:
    """Runs made before there were cards, and cards that tell nothing, are never called the same arm."""
    bare = ArmCard(name="a", build=Build(model="m", target="http://t"))
    assert card_difference(bare, card(**SAME)) is None
    nothing = card_difference(card(), card())
    assert nothing is not None
    assert not nothing.same_arm


def compared(first: dict[str, str], second: dict[str, str], build: Build | None = None) -> Any:
    plan = manifest(("baseline", "candidate"), build=build)
    cards = tuple(
        msgspec.structs.replace(arm, environment=card(**entries).environment)
        for arm, entries in zip(plan.arms, (first, second), strict=True)
    )
    plan = msgspec.structs.replace(plan, arms=cards)
    sides = [side(name, arm_records(name, 50), plan) for name in ("baseline", "candidate")]
    return compare(*sides)


def test_a_comparison_opens_with_the_difference() -> None:
    """The first thing after the names is what differs in what was running, in a terminal and in markdown."""
    found = compared(SAME, SAME | {"engine_version": "0.31.0"})
    for text in (terminal_comparison(found), markdown_comparison(found)):
        assert "differs in 1 of 3 properties" in text
        assert text.index("0.31.0") < text.index(found.sentence[:20].split("<")[0][:10])


def test_the_same_arm_is_a_finding_of_the_comparison() -> None:
    """Equal cards are the first warning, told in the report, and a field that a gate can ask for."""
    found = compared(SAME, SAME)
    assert found.cards.same_arm
    assert "the same arm" in found.warnings[0]
    assert "all 3 properties of their environment cards are equal" in " ".join(terminal_comparison(found).split())


def test_a_patched_server_of_one_version_is_no_noise_floor() -> None:
    """Two builds that tell one version are not called A/A where their cards differ in more than the machine."""
    card_of = {"engine": "vllm", "engine_version": "0.32.0", "cache_blocks": "100", "speculative": "mtp, 2"}
    build = Build(engine="vllm", version="0.32.0", model="m", target="http://t")
    patched = compared(card_of, card_of | {"speculative": "mtp, 3"}, build)
    again = compared(card_of, card_of | {"cache_blocks": "99"}, build)
    assert patched.noise_floor is None
    assert "A/A" not in f"{patched.sentence} {patched.notes}"
    assert again.noise_floor is not None
    assert again.sentence.startswith("Both arms ran the same build (A/A), as far as their servers tell:")


def hostile(text: str) -> str:
    return terminal_comparison(compared(SAME | {"dtype": text}, SAME))


def test_what_a_server_tells_cannot_steer_a_terminal() -> None:
    """Escape sequences and endless values in a card are shown harmless and short."""
    shown = hostile("\x1b[31m" + "x" * 10_000)
    assert "\x1b" not in shown
    assert "x" * 100 not in shown


def test_an_arm_run_once_more_tells_drift() -> None:
    """The same arm as before is no drift; one that fails where it did not is, and each change of class counts once."""
    plan = manifest(("baseline", "again"))
    first = side("baseline", arm_records("baseline", 100), plan)
    same = again_finding(compare(first, side("again", arm_records("again", 100), plan)))
    bad = {index: "error" if index < 10 else "garbage_loop" for index in range(0, 100, 2)}
    worse = again_finding(compare(first, side("again", arm_records("again", 100, bad), plan)))
    assert not same[0]
    assert "did not visibly differ" in same[1]
    assert "0 changes of class in 100 pairs" in same[1]
    assert worse[0]
    assert "garbage_loop" in worse[1]
    assert "50 changes of class in 100 pairs" in worse[1]
