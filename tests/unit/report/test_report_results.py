"""Summaries and comparisons as text."""

import msgspec
from page_facts import measured_comparison
from report_facts import arm, comparison, summary

from soak.facts import Drift, Gate, PrefixCache, Quantiles, Speculation, TokenCounts, TrendTest
from soak.report import markdown_comparison, terminal_comparison, terminal_summary


def test_the_verdict_comes_first_with_its_reason() -> None:
    """The first line says fail, the second why."""
    lines = terminal_summary(summary()).splitlines()
    assert lines[0].startswith("FAIL — a threshold is broken (plain, complete)")
    assert lines[1] == "  - rate is broken plain"


def test_a_summary_shows_counts_evidence_speed_engine_and_what_to_do_next() -> None:
    """Each of the five questions has its line."""
    text = " ".join(terminal_summary(summary()).split())
    for part in (
        "garbage_loop 2 5.0 % 15.0 % 6.7 min",
        "skipped 3",
        "plain:1:0:candidate garbage_loop plain (20,000 tokens)",
        "16.7 usable tokens/s over 10.0 min (10,000 of 50,000 completion tokens, 40,000 spent on bad turns)",
        "acceptance length 2.50, rate 75.0 %, by position 90.0 %, 60.0 %;",
        "prefix-cache hits 50.0 % (500 of 1,000 tokens)",
        "whole turn 2.0 s 9.0 s 200.0 s",
        "left out of these times, cut by a limit: 1",
        "soak show runs/plain plain:1:0:candidate",
    ):
        assert part in text, part


def test_what_was_not_measured_is_a_dash_and_not_a_zero() -> None:
    """Unknown speed, acceptance and times read "–"."""
    blank = arm(
        tokens=TokenCounts(),
        usable_tokens_per_s=None,
        speculation=Speculation(),
        prefix_cache=PrefixCache(),
        ttft_ms=Quantiles(),
        e2e_ms=Quantiles(),
    )
    text = terminal_summary(summary(arms={"candidate": blank}))
    assert "– usable tokens/s" in text
    assert "acceptance length –, rate –; prefix-cache hits – (– of – tokens)" in text
    assert "latency: –" in text


def test_two_arms_are_named_and_a_comparison_offered() -> None:
    """Each arm has its block, and the next step is to compare."""
    text = terminal_summary(summary(arms={"before": arm(), "after": arm()}))
    header = next(line for line in text.splitlines() if line.strip().startswith("class"))
    assert (
        " ".join(header.split())
        == "class before of finished 95 % below turn time after of finished 95 % below turn time"
    )
    assert "soak compare runs/plain" in text


def test_an_interrupted_run_is_offered_to_be_resumed() -> None:
    """The first next step of an unfinished run is to go on."""
    text = terminal_summary(summary(state="interrupted"))
    assert text.split("next:\n")[1].startswith("  soak resume runs/plain")


def test_a_proxied_run_that_was_killed_is_offered_to_be_recorded() -> None:
    """The traffic of clients cannot be gone on with; what was kept of it can become a corpus."""
    text = terminal_summary(msgspec.structs.replace(summary(state="running"), replay="proxy"))
    assert text.split("next:\n")[1].startswith("  soak proxy --finish runs/plain --record DIR")
    assert "resume" not in text.split("next:\n")[1]


def test_colour_is_only_there_where_wanted() -> None:
    """Without colour no escape character is printed; with it, removing it gives the same text."""
    import re

    for plain, coloured in (
        (terminal_summary(summary()), terminal_summary(summary(), colour=True)),
        (terminal_comparison(comparison()), terminal_comparison(comparison(), colour=True)),
    ):
        assert "\x1b" not in plain
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_a_comparison_opens_with_verdict_and_sentence_then_what_voids_it() -> None:
    """Validity stands before the numbers."""
    text = terminal_comparison(comparison())
    assert text.startswith("UNKNOWN — runs/plain → runs/bplain\n\nGarbage 11 → 7 plain")
    assert text.index("why plain") < text.index("500 paired turns, 3 unpaired, 20 episodes")
    assert (
        "11 of 500   7 of 500       8 / 4  -0.80 (-2.45 to 0.72)  0.64 (0.26 to 1.58)  0.39         0.39  inconclusive"
        in text
    )
    assert "turn time: 5.00 h → 4.00 h, ratio 0.80 (0.70 to 0.93)" in text
    assert "−48.3 min in pairs whose worse turn is garbage_loop" in text


def test_a_gates_pass_says_what_the_evidence_is() -> None:
    """A pass that somebody's condition gives over inconclusive evidence says so; an invalid comparison has no gates."""
    gate = Gate(text="wall_clock.ratio > 2", holds=False, seen={"wall_clock.ratio": 0.8})
    passed = comparison(invalid=[], verdict="pass", verdict_by_evidence="unknown")
    assert terminal_comparison(passed, gates=[gate]).startswith("PASS by --fail-on; the evidence: unknown — runs/plain")
    assert markdown_comparison(passed, [gate]).startswith("**PASS** by --fail-on; the evidence: unknown — ")
    agreed = comparison(invalid=[], verdict="pass", verdict_by_evidence="pass")
    assert terminal_comparison(agreed, gates=[gate]).startswith("PASS by --fail-on — runs/plain")
    assert terminal_comparison(comparison(), gates=[gate]).startswith("UNKNOWN — runs/plain")


def test_what_the_paragraph_leaves_out_stands_below_the_figures() -> None:
    """Details and notes are told once each on the terminal, and folded away in markdown."""
    found = comparison(details=["Errors 1 → 2 of 500."], notes=["3 turns finished only in a"])
    text = terminal_comparison(found)
    assert text.count("Errors 1 → 2 of 500.") == text.count("3 turns finished only in a") == 1
    assert "- Errors 1 → 2 of 500." in markdown_comparison(found).split("<details>")[1]


def test_a_drift_that_cannot_be_told_says_why() -> None:
    """No figure stands where the run was too short."""
    drift = Drift(tpot_percent_per_hour=None, ci95=None, unknown_because="too short to say")
    text = terminal_comparison(comparison(drift={"baseline": drift}))
    assert "baseline: drift of the time per token: too short to say" in text
    assert "an hour (" not in text


def test_trends_and_first_failures_are_told() -> None:
    """A trend with p below 0.05, corrected for the trends tested, has a line with its slope; failures are counted."""
    found = measured_comparison()
    rising = TrendTest(slope=0.004, slope_ci95=(0.001, 0.007), p_value=0.01, p_independent=0.01)
    steep = msgspec.structs.replace(found.trends[0], candidate=rising)
    text = terminal_comparison(msgspec.structs.replace(found, trends=[steep]))
    told = "candidate: failures change with depth: +0.4 points per 1,000 prompt tokens (0.10 to 0.70), p 0.01"
    assert f"{told}, one of 2 tests" in text
    weaker = msgspec.structs.replace(steep, candidate=msgspec.structs.replace(rising, p_value=0.03))
    assert "failures change" not in terminal_comparison(msgspec.structs.replace(found, trends=[weaker]))
    assert "baseline: failures change" not in text
    assert "conversations up to their first failure: 9 of 20 failed → 6 of 20 failed; p 0.34 by episodes" in text


def test_markdown_folds_the_figures_away() -> None:
    """One paragraph to read, a table inside details."""
    text = markdown_comparison(comparison())
    head, figures, times = text.split("<details>")
    assert head.startswith("**UNKNOWN** — runs/plain → runs/bplain\n\nGarbage 11 → 7 plain\n")
    assert "| garbage\\_loop | 11 of 500 | 7 of 500 | 8 / 4 | -0.80 (-2.45 to 0.72) | 0.64 (0.26 to 1.58) |" in figures
    assert "- −48.3 min in pairs whose worse turn is garbage\\_loop" in times
    assert text.count("</details>") == 2


def test_unmeasured_comparisons_render() -> None:
    """A comparison without pairs and times has dashes."""
    found = comparison()
    nothing = msgspec.structs.replace(
        found.classes["garbage_loop"],
        difference=None,
        ci95=None,
        rate_ratio=None,
        rate_ratio_ci95=None,
        p_value=None,
        p_adjusted=None,
    )
    clock = type(found.wall_clock)(baseline_s=None, candidate_s=None, ratio=None, ci95=None, explained_by={})
    text = terminal_comparison(comparison(classes={"garbage_loop": nothing}, wall_clock=clock))
    assert "turn time: not measured in both arms" in text
    assert "8 / 4 – – – – inconclusive" in " ".join(text.split())
