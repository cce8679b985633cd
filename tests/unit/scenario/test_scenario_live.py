"""Live replay in a scenario file: what it may say, and what does not go with it."""

import pytest

from soak.errors import ScenarioError
from soak.facts import Live
from soak.scenario import find_scenario, load_scenario


def test_the_bundled_live_scenario_says_its_mode() -> None:
    """`swe_live` replays live, and its thresholds may look at conversations."""
    scenario = load_scenario(find_scenario("swe_live"), {}).scenario
    assert scenario.replay == "live"
    assert scenario.live == Live()
    assert "conversations.loop_rate <= 5%" in scenario.thresholds.pass_if


def test_decide_does_not_go_with_live_replay() -> None:
    """Deciding early counts turns that both arms were asked alike, of which a live run has none."""
    changes = {"decide.alpha": "0.05"}
    with pytest.raises(ScenarioError) as refused:
        load_scenario(find_scenario("swe_live"), changes)
    assert any("planned beforehand" in problem for problem in refused.value.problems)
    assert load_scenario(find_scenario("swe_agent"), changes).scenario.decide is not None


@pytest.mark.parametrize("change", [{"live.max_turns": "0"}, {"live.match": "1.5"}, {"live.matches": "0.9"}])
def test_impossible_settings_are_refused(change: dict[str, str]) -> None:
    """No turn at all, a likeness above 1, and an unknown name are problems of the file."""
    with pytest.raises(ScenarioError):
        load_scenario(find_scenario("swe_live"), change)
