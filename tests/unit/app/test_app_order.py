"""In which order arms are served, and what of the machine each gets."""

import pytest

from soak.app.order import AGAIN, order_of, phases_of
from soak.app.sides import ArmSpec
from soak.errors import UsageError
from soak.facts import Budget, BuildFile, NamedBuild

URLS = (ArmSpec(name="a", target="http://h:1"), ArmSpec(name="b", target="http://h:2"))
PASSES, HOURS = Budget(passes=1), Budget(hours=1)


def launched(name: str, devices: int = 0) -> ArmSpec:
    file = BuildFile(engine="command", about="x", command=("serve", "{port}"), devices=devices)
    return ArmSpec(name=name, target=name, build=NamedBuild(name=name, file=file))


def test_servers_that_run_already_are_tested_together() -> None:
    """Two URLs, or one arm alone, are served together by default, whatever the budget."""
    assert order_of("auto", URLS, HOURS) == "together"
    assert order_of("auto", URLS[:1], PASSES) == "together"


@pytest.mark.parametrize(("cores", "gpus", "devices", "order"), [
    (2, 0, 0, "together"),
    (1, 0, 0, "sequential"),
    (8, 2, 1, "together"),
    (8, 1, 1, "sequential"),
    (8, 3, 2, "sequential"),
])  # fmt: skip
def test_servers_that_would_share_a_device_come_one_by_one(
    monkeypatch: pytest.MonkeyPatch, cores: int, gpus: int, devices: int, order: str
) -> None:
    """Together needs a core, or its own GPUs, for each server that soak starts."""
    monkeypatch.setattr("soak.app.order.cores", lambda: cores)
    monkeypatch.setattr("soak.app.order.graphics_cards", lambda: [("H200", "580")] * gpus)
    assert order_of("auto", (launched("a", devices), launched("b", devices)), PASSES) == order


def test_one_by_one_needs_two_arms_and_a_number_of_turns() -> None:
    """With one arm, or a budget of time in which the arms would get other turns, it is refused."""
    with pytest.raises(UsageError, match="two arms"):
        order_of("sequential", URLS[:1], PASSES)
    with pytest.raises(UsageError, match="budget of turns or passes"):
        order_of("ABA", URLS, HOURS)


def test_the_first_arm_of_aba_comes_once_more() -> None:
    """ABA is baseline, candidate, and the baseline again as an arm of its own; the others are as they say."""
    assert [[arm.name for arm in phase] for phase in phases_of("together", URLS)] == [["a", "b"]]
    assert [[arm.name for arm in phase] for phase in phases_of("sequential", URLS)] == [["a"], ["b"]]
    assert [[arm.name for arm in phase] for phase in phases_of("ABA", URLS)] == [["a"], ["b"], ["a" + AGAIN]]
