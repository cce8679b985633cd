"""Scenario files: what is accepted, and that everything wrong is told at once with its line."""

from pathlib import Path

import pytest

from soak.errors import ScenarioError
from soak.facts import Scenario
from soak.scenario import available_scenarios, find_scenario, load_scenario

REPOSITORY = Path(__file__).parents[3]
MINIMAL = "name: a\nquestion: q?\nduration: 1 minute\ncorpus: smoke\n"


def problems_of(text: str | bytes, folder: Path, overrides: dict[str, str] | None = None, **more: object) -> list[str]:
    """Return the problems of a scenario that must have some."""
    path = folder / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, overrides or {}, **more)  # type: ignore[arg-type]
    return list(caught.value.problems)


def load(text: str, folder: Path, overrides: dict[str, str] | None = None) -> Scenario:
    """Return the scenario in `text`."""
    path = folder / "a.yaml"
    path.write_text(text)
    return load_scenario(path, overrides or {}).scenario


def test_minimal_scenario_takes_the_defaults(tmp_path: Path) -> None:
    """Four fields are enough; the rest are the incident's sampling and one pass."""
    scenario = load(MINIMAL, tmp_path)
    assert (scenario.sampling.temperature, scenario.sampling.top_p, scenario.sampling.top_k) == (1.0, 0.95, None)
    assert scenario.budget.passes == 1
    assert scenario.load.in_flight == 8


@pytest.mark.parametrize("name", ["swe_agent", "fix_pr", "burn_in", "smoke", "cache_stress", "canaries"])
def test_shipped_scenario_loads_and_opens_with_question_and_time(name: str) -> None:
    """Each shipped scenario is valid, says its question and time first, and is found by name."""
    path = REPOSITORY / "scenarios" / f"{name}.yaml"
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# Question: ")
    assert lines[1].startswith("# Time: ")
    scenario = load_scenario(path, known_classify=()).scenario
    assert scenario.name == name
    assert find_scenario(name).resolve() == path


def test_swe_agent_has_the_sampling_of_the_first_incident() -> None:
    """Temperature 1.0, top_p 0.95, no top_k, no penalties, max_tokens 20000, eight in flight, five hours."""
    scenario = load_scenario(REPOSITORY / "scenarios" / "swe_agent.yaml").scenario
    sampling = scenario.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (1.0, 0.95, 20000)
    assert {sampling.top_k, sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty} == {
        None
    }
    assert (scenario.load.shape, scenario.load.in_flight, scenario.budget.hours) == ("closed", 8, 5)


def test_all_problems_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    """Mistakes of every kind in one file give one problem each, on the line where it stands, in order."""
    text = MINIMAL + (
        "sampling:\n  temperatur: 1.0\n  max_tokens: '8'\n  top_p: true\n"
        "load: {in_flight: -3}\nbudget: {hours: 1, turns: 3}\nthink_time: {mode: fixed}\n"
        "thresholds:\n  pass_if:\n    - rate.garbage_lop <= 0.5%\nclassify: {loop_min: 1}\ncorpus: b\n"
    )
    assert problems_of(text, tmp_path, known_classify=["loops_min"]) == [
        "line 6: sampling.temperatur: unknown key; did you mean temperature?",
        "line 7: sampling.max_tokens: must be a whole number, is '8'",
        "line 8: sampling.top_p: must be a number, is true",
        "line 9: load.in_flight: must be greater than 0, is -3",
        "line 10: budget: must have exactly one of hours, minutes, passes, turns; has hours and turns",
        "line 11: think_time: mode fixed needs fixed_s",
        "line 14: thresholds.pass_if.0: 'rate.garbage_lop <= 0.5%': rate.garbage_lop is not a field of an arm's "
        "summary; "
        "near to it: rate.garbage_loop, rate_upper95.garbage_loop, turns.garbage_loop",
        "line 15: classify.loop_min: unknown setting of the classifiers; did you mean loops_min?",
        "line 16: corpus: is given twice, first on line 4",
    ]


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ("load: {shape: arrival}", "load: shape arrival needs rate_per_min"),
        ("load: {rate_per_min: 3}", "load.rate_per_min: belongs to shape arrival, but the shape is closed"),
        ("load: {shape: ramp, over_s: 9}", "load: shape ramp needs from_in_flight"),
        ("load: {shape: ramp, from_in_flight: 1}", "load: shape ramp needs over_s"),
        (
            "load: {shape: ramp, from_in_flight: 9, over_s: 1}",
            "load.from_in_flight: must be at most in_flight (8), is 9",
        ),
        ("load: {over_s: 1}", "load.over_s: belongs to shape ramp, but the shape is closed"),
        ("think_time: {fixed_s: 1}", "think_time.fixed_s: belongs to mode fixed, but the mode is none"),
        ("deadlines: {gap_s: 9999}", "deadlines.gap_s: must be at most turn_s (3600), is 9999"),
        ("deadlines: {turn_s: 500}", "deadlines.first_chunk_s: must be at most turn_s (500), is 600"),
        ("budget: {}", "budget: must have exactly one of hours, minutes, passes, turns; has none"),
        ("budget: {hours: 0}", "budget.hours: must be greater than 0, is 0"),
        ("budget: 3", "budget: must be a section (keys and values), is 3"),
        ("expect: {speculation: 3}", "expect.speculation: must be 'auto' or true or false, is 3"),
        ("salt: sometimes", "salt: must be 'none', 'pass' or 'conversation', is 'sometimes'"),
        ("seed: 1.5", "seed: must be a whole number, is 1.5"),
        ("seed: true", "seed: must be a whole number, is true"),
        ("drain_s: .inf", "drain_s: must be a finite number"),
        ("drain_s: yes", "drain_s: must be a number, is 'yes'"),
        ("extra_body: {ignore_eos: true}", "extra_body.ignore_eos: pins the length, which hides loops and early stops"),
        ("extra_body: {messages: []}", "extra_body.messages: is set by soak itself"),
        ("sampling: {stop: 3}", "sampling.stop: must be a list, is 3"),
        ("sampling: {stop: [a, 3]}", "sampling.stop.1: must be text, is 3"),
    ],
)
def test_problem_has_a_sentence(extra: str, problem: str, tmp_path: Path) -> None:
    """Each kind of mistake is told in the words of the file, with place, rule and value."""
    assert problems_of(f"{MINIMAL}{extra}\n", tmp_path) == [f"line 5: {problem}"]


def test_missing_fields_are_named(tmp_path: Path) -> None:
    """A scenario without its required fields names all of them."""
    found = problems_of("name: a\n", tmp_path)
    assert found == [f"line 1: {name}: is required" for name in ("question", "duration", "corpus")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x [1]\nb: *x\n", "line 1: anchors (&) and aliases (*) are not supported"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1: tags such as"),
        ("a: 1\n---\nb: 2\n", "line 2: not valid YAML: expected a single document"),
        ("a:\n\t- b\n", "line 2: has a tab"),
        ("a: [1, 2\nb: 3\n", "line 2: not valid YAML"),
        ("a: " + "[" * 40 + "]" * 40, "line 1: more than 32 levels"),
        ("a: [" + "1," * 10_001 + "]", "line 1: more than 10000 values"),
        ("- a\n", "line 1: a scenario is a mapping"),
        ("", "line 1: a scenario is a mapping"),
        ("a: \x07\n", "not valid YAML: unacceptable character"),
    ],
)
def test_yaml_outside_the_small_part_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    """Aliases, tags, several documents, tabs, deep or huge values and broken syntax end with one problem."""
    (found,) = problems_of(text, tmp_path)
    assert found.startswith(problem)


def test_key_that_is_no_word_is_refused(tmp_path: Path) -> None:
    """A mapping or list used as a key is a problem with a line, not a crash."""
    assert "line 5: a key must be a word" in problems_of(MINIMAL + "? [a]\n: 1\n", tmp_path)


def test_not_utf8_file_names_the_line(tmp_path: Path) -> None:
    """A file in another encoding is refused with the line of the first bad byte."""
    (found,) = problems_of(b"name: a\nquestion: caf\xe9\n", tmp_path)
    assert found.startswith("line 2: is not UTF-8")


def test_large_file_is_refused_unread(tmp_path: Path) -> None:
    """A file above 1 MiB is no scenario."""
    (found,) = problems_of("# " + "x" * (1 << 20), tmp_path)
    assert "larger than 1024 KiB" in found


def test_values_follow_yaml_1_2(tmp_path: Path) -> None:
    """`1:30`, `no`, `012` and dates stay text; 1e3 is a number."""
    text = "name: no\nquestion: 012\nduration: 1:30\ncorpus: 2024-01-01\ndrain_s: 1e3\n"
    scenario = load(text, tmp_path)
    assert (scenario.name, scenario.question, scenario.duration) == ("no", "012", "1:30")
    assert (scenario.corpus, scenario.drain_s) == ("2024-01-01", 1000.0)


def test_overrides_are_typed_and_kept_apart(tmp_path: Path) -> None:
    """Dotted keys change the scenario; `given` holds them as typed values."""
    path = tmp_path / "a.yaml"
    path.write_text(MINIMAL + "sampling: {max_tokens: 20000}\n")
    loaded = load_scenario(path, [("sampling.max_tokens", "96"), ("sampling.stop", '["a"]'), ("tools", "text")])
    assert loaded.scenario.sampling.max_tokens == 96
    assert loaded.scenario.sampling.stop == ("a",)
    assert loaded.given == {"sampling.max_tokens": 96, "sampling.stop": ["a"], "tools": "text"}


def test_budget_override_replaces_the_whole_budget(tmp_path: Path) -> None:
    """`--minutes 5` on a scenario of five hours is five minutes, not two budgets."""
    scenario = load(MINIMAL + "budget: {hours: 5}\n", tmp_path, {"budget.minutes": "5"})
    assert (scenario.budget.hours, scenario.budget.minutes) == (None, 5.0)


def test_wrong_overrides_are_told_as_such(tmp_path: Path) -> None:
    """Problems of the command line are told with the option, all at once, next to those of the file."""
    overrides = {
        "sampling.max_tokns": "3",
        "drain_s": "x",
        "seed": "[1",
        "name.x": "1",
        "a..b": "1",
        "budget.hours": "-1",
    }
    assert problems_of(MINIMAL + "salt: x\n", tmp_path, overrides) == [
        "--set seed=[1: not valid YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
        "--set name.x=1: name holds a value, not a section",
        "--set a..b=1: a key is one or more words joined by dots",
        "--set sampling.max_tokns: unknown key; did you mean max_tokens?",
        "--set budget.hours: must be greater than 0, is -1",
        "--set drain_s: must be a number, is 'x'",
        "line 5: salt: must be 'none', 'pass' or 'conversation', is 'x'",
    ]


def test_unknown_scenario_lists_the_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name is answered with what there is and the nearest name; the working folder comes first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.yaml").write_text(MINIMAL)
    with pytest.raises(ScenarioError) as caught:
        find_scenario("swe_agnt")
    assert "did you mean swe_agent?" in caught.value.hint
    assert "mine" in caught.value.why
    assert find_scenario("mine") == Path("scenarios/mine.yaml")
    assert {"mine", "swe_agent", "smoke"} <= set(available_scenarios())


def test_missing_file_is_an_error_of_input(tmp_path: Path) -> None:
    """A path that cannot be read is told, with exit code 4."""
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tmp_path / "none.yaml")
    assert caught.value.exit_code == 4
    assert "cannot be read" in caught.value.why


def test_flood_of_problems_is_cut(tmp_path: Path) -> None:
    """Thousands of unknown keys give a hundred problems and the number of the rest."""
    found = problems_of(MINIMAL + "".join(f"k{i}: 1\n" for i in range(3000)), tmp_path)
    assert len(found) == 101
    assert found[-1] == "and 2900 more"


def test_an_override_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    """A dotted key of thousands of words is a problem like any other, and no recursion error."""
    path = tmp_path / "s.yaml"
    path.write_text("name: x\nquestion: q\nduration: d\ncorpus: c\n")
    with pytest.raises(ScenarioError, match="cannot be used") as caught:
        load_scenario(path, {"extra_body." + "a." * 1500 + "b": "1"})
    assert any("at most 17 words" in problem for problem in caught.value.problems)


def test_live_traffic_is_no_scenario_of_a_replay(tmp_path: Path) -> None:
    """`replay: proxy` marks what the proxy has kept and cannot be run."""
    (problem,) = problems_of(MINIMAL + "replay: proxy\n", tmp_path)
    assert "proxy is no way to replay" in problem
