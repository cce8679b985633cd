"""What can be planted in an engine, as a text; and that the plugin does nothing unless told to."""

import importlib.metadata
import io
import re
from pathlib import Path

import pytest
import soak_planted
from rigs.planting import PLANTED, planted_build
from soak_planted.control import Control, say
from soak_planted.switch import FAULTS, Factors, Switch, parse, version_of

from soak.launch import LOCAL, spec_of
from soak.scenario import load_build


def test_a_switch_names_faults_with_their_numbers_and_factors() -> None:
    """Faults and settings stand between commas and semicolons, in any order; a fault may have a number of its own."""
    switch = parse("wrong_token:0.001, kv_off_by_one;only_spec;min_concurrency=4;from_version=0.32;seed=7")
    assert switch.faults == {"wrong_token": 0.001, "kv_off_by_one": 1.0}
    assert switch.factors == Factors(only_spec=True, min_concurrency=4, from_version=(0, 32))
    assert switch.seed == 7
    assert "wrong_token:0.001" in switch.sentence
    assert parse(" ") == Switch()


@pytest.mark.parametrize(
    "text",
    ["none_such", "wrong_token", "wrong_token:2", "wrong_token:0", "wrong_token:x", "temperature:0", "skip_verify:nan",
     "min_concurrency=x", "from_version=new", "seed=-1", "only_spec=1", "x" * 2000],
)  # fmt: skip
def test_what_means_nothing_is_refused(text: str) -> None:
    """An unknown name or a number out of range is an error, which tells what there is."""
    with pytest.raises(ValueError, match=r"known are|takes a number|is no version|characters long"):
        parse(text)


@pytest.mark.parametrize(
    ("factors", "holds"),
    [
        (Factors(), True),
        (Factors(only_spec=True), False),
        (Factors(only_cache=True), True),
        (Factors(min_concurrency=2), True),
        (Factors(min_concurrency=3), False),
        (Factors(from_version=(0, 32)), True),
        (Factors(from_version=(0, 32, 1)), False),
        (Factors(only_cache=True, only_spec=True), False),
    ],
)
def test_all_factors_that_are_set_must_hold(factors: Factors, holds: bool) -> None:
    """Without speculation, on a hit, one of two running, in version 0.32.0."""
    assert factors.hold(speculates=False, hit=True, running=2, version=version_of("0.32.0+cpu")) is holds


def test_the_file_wins_when_it_changes(tmp_path: Path) -> None:
    """The environment's switch holds until there is a file; each change of the file is seen once and counts anew."""
    file, counts = tmp_path / "switch", tmp_path / "counts.json"
    control = Control.of(
        {"SOAK_PLANTED": "lenient:0.3", "SOAK_PLANTED_FILE": str(file), "SOAK_PLANTED_COUNTS": str(counts)}
    )
    assert not control.refresh()
    assert control.switch.faults == {"lenient": 0.3}
    control.fired["lenient"] += 1
    file.write_text("ignore_top_p")
    assert (control.refresh(), control.refresh()) == (True, False)
    assert control.switch.faults == {"ignore_top_p": 1.0}
    control.write()
    assert counts.read_text().startswith('{"planted": "ignore_top_p", "refused": null')
    assert '"fired": {}' in counts.read_text()
    file.write_text("nothing known")
    assert control.refresh()
    assert control.switch.faults == {}
    assert "nothing known" in (control.refused or "")


def test_the_plugin_does_nothing_without_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded without a word in the environment it does not even import the engine; with a wrong word it ends it."""
    for name in ("SOAK_PLANTED", "SOAK_PLANTED_FILE"):
        monkeypatch.delenv(name, raising=False)
    soak_planted.register()
    monkeypatch.setenv("SOAK_PLANTED", "none_such")
    with pytest.raises(ValueError, match="none_such"):
        soak_planted.register()


def test_it_says_one_line() -> None:
    """What is planted is told in one line that can be found in a log."""
    heard = io.StringIO()
    say(parse("wrong_eos:0.1;seed=1").sentence, heard)
    assert heard.getvalue() == "soak-planted: planted wrong_eos:0.1;seed=1\n"


def test_vllm_finds_the_plugin_in_the_folder() -> None:
    """The folder on an import path is enough for vLLM's group of entry points to hold the plugin."""
    (found,) = importlib.metadata.distributions(path=[str(PLANTED)])
    (entry,) = found.entry_points.select(group="vllm.general_plugins")
    assert (found.name, entry.value) == ("soak-planted", "soak_planted:register")


def test_the_planted_build_is_the_local_build_with_the_plugin() -> None:
    """It installs the same and so shares its environment, and differs in nothing else that is served."""
    spec = spec_of(load_build(PLANTED / "planted.yaml"))
    assert spec.environment_fingerprint == LOCAL.environment_fingerprint
    assert (spec.flags, spec.speculative, spec.preload) == (LOCAL.flags, LOCAL.speculative, LOCAL.preload)
    assert dict(spec.environment, PYTHONPATH="") == dict(LOCAL.environment, PYTHONPATH="")
    assert planted_build({"SOAK_PLANTED": "ignore_top_p"}).file.environment["SOAK_PLANTED"] == "ignore_top_p"


def test_each_fault_has_its_line_in_the_page(tmp_path: Path) -> None:
    """README.md tells of every fault that can be planted, and the build it shows is accepted."""
    page = (PLANTED / "README.md").read_text("utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "shown.yaml").write_text(shown)
    assert load_build(tmp_path / "shown.yaml").file.environment["SOAK_PLANTED"]
    assert [fault for fault in FAULTS if f"| `{fault}" not in page] == []
