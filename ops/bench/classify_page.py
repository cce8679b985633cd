"""
The tables of `soak/classify/README.md` that are measured, from the kept results.

    python ops/bench/classify_page.py            print them
    python ops/bench/classify_page.py --check    exit 1 if the page says something else
    python ops/bench/classify_page.py --write    put them into the page
"""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tables import main, table

from soak.classify import DEFAULTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "soak" / "classify" / "README.md"
RESULTS = Path(__file__).parent / "results"
RULES = (
    "soak, ids",
    "soak, text",
    "soak, ids, stop",
    "zlib > 2.4",
    "4-grams < 0.5",
    "vLLM 4-128 x4",
    "periods 1-1024 x4",
)
FAULTS = ("planted, length", "planted, stop", "over")
CLEAN = {
    "just under the policy": ("under",),
    "ended": ("documents, ended", "agent text, ended", "bundled, ended"),
    "cut, alone": ("documents, cut", "bundled, cut"),
    "cut, beside the record": ("documents, cut, recorded",),
    "real, ended or cut": ("real, ended", "real, cut"),
}
Counts = dict[str, dict[str, list[int]]]


def long_outputs() -> str:
    """Return the table of faults at the end of 20,000 tokens."""
    found = json.loads((RESULTS / "classify_long.json").read_text())
    head = ("fault", "n", "soak", "95 %", "text only", "ended by `stop`", *RULES[3:], "onset: median; 95th; ≤ 1")
    shown = [item for item in found["recall"].items() if ": period" not in item[0] and item[1]["soak, ids"]["n"] > 1]
    rows = [_long_row(name, row) for name, row in sorted(shown, key=lambda item: _order(item[0]))]
    alarms = found["alarms"]
    rates = (f"{1000 * alarms[rule]['found'] / alarms[rule]['n']:.0f}" for rule in RULES[3:])
    ended, cut = alarms["soak, ids, stop"], alarms["soak, ids"]
    rows.append(
        (
            "**false loops per 1,000 honest**", str(cut["n"]), _mille(cut), f"below {1000 * cut['high']:.0f}",
            _mille(alarms["soak, text"]), f"{_mille(ended)} (below {1000 * ended['high']:.0f})", *rates, "",
        )
    )  # fmt: skip
    recorded = alarms["soak, ids, recorded"]
    rows.append(("… beside the recorded answer", str(recorded["n"]), _mille(recorded), "", "", "", *[""] * 4, ""))
    seeds = ", ".join(map(str, found["seeds"]))
    return f"Tokeniser {found['tokeniser']}; seeds {seeds}; {found['rounds']} of each kind.\n\n{table(head, rows)}"


def _order(name: str) -> tuple[int, str]:
    group = name.split(":")[0].split(" of ")[0]
    return ("exact", "exact, any unit", "near", "salad").index(group), name if name != group else ""


def _long_row(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    ours, onset = row["soak, ids"], row["onset"]
    unit = "periods" if name.startswith("exact") else "tokens"
    error = f"{onset['median']:g}; {onset['p95']:g}; {_share(onset['at_most_1'])}" if onset else ""
    return (
        name if ":" in name or " of " in name else f"**{name}** ({unit})",
        str(ours["n"]),
        _share(ours["found"] / ours["n"]),
        f"{_share(ours['low'])}–{_share(ours['high'])}",
        *(_share(row[rule]["found"] / row[rule]["n"]) for rule in RULES[1:]),
        error,
    )


def _mille(cell: dict[str, Any]) -> str:
    return f"{1000 * cell['found'] / cell['n']:.0f}"


def thresholds() -> str:
    """Return the tables of what each threshold does: of the final reading, of early stops, of the stream."""
    found = json.loads((RESULTS / "classify_thresholds.json").read_text())
    loops, stops, streaming = found["loops"], found["stops"], found["streaming"]
    base = loops["default"]["default"]
    still = [name for name in loops if name != "default" and all(one == base for one in loops[name].values())]
    rows = [_threshold_row(name, loops) for name in loops if name != "default" and name not in still]
    head = (
        "threshold",
        "values",
        "faults found, of the kinds that change (their number)",
        *(f"false per 1,000: {name} ({_of(base, groups):,})" for name, groups in CLEAN.items()),
    )
    parts = [
        _sizes(base),
        table(head, rows),
        "Changes no verdict at any of its values: " + (", ".join(f"`{name}`" for name in still) or "none") + ".",
        _stops(stops),
        _streaming(streaming),
    ]
    return "\n\n".join(parts)


def _sizes(base: Counts) -> str:
    planted, over = _of(base, FAULTS[:2]), _of(base, FAULTS[2:])
    return f"Faults: {planted:,} planted (half of them cut, half ended), {over:,} just above the policy."


def _threshold_row(name: str, loops: dict[str, dict[str, Counts]]) -> tuple[str, ...]:
    default = getattr(DEFAULTS, name)
    by_value = {float(value): counts for value, counts in loops[name].items()} | {default: loops["default"]["default"]}
    ordered = [by_value[value] for value in sorted(by_value)]
    changed = [
        (group, kind)
        for group in FAULTS
        for kind in ordered[0].get(group, {})
        if len({counts[group][kind][0] for counts in ordered}) > 1
    ]
    recall, size = _recall(ordered, changed)
    mark = sorted(by_value).index(default)
    return (
        f"`{name}`",
        _line([f"{value:g}" for value in sorted(by_value)], mark),
        f"{_line(recall, mark)} ({size})" if changed else "–",
        *(_line([_per_mille(counts, groups) for counts in ordered], mark) for groups in CLEAN.values()),
    )


def _recall(ordered: list[Counts], changed: list[tuple[str, str]]) -> tuple[list[str], str]:
    hits = [sum(counts[group][kind][0] for group, kind in changed) for counts in ordered]
    total = sum(ordered[0][group][kind][1] for group, kind in changed)
    by_kind: dict[str, None] = {kind: None for _, kind in changed}
    names = list(by_kind)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [_share(hit / total) if total else "–" for hit in hits], f"{shown}: {total}"


def _of(counts: Counts, groups: tuple[str, ...]) -> int:
    return sum(n for group in groups for _, n in counts.get(group, {}).values())


def _per_mille(counts: Counts, groups: tuple[str, ...]) -> str:
    hits = sum(hit for group in groups for hit, _ in counts.get(group, {}).values())
    return f"{1000 * _part(hits, _of(counts, groups)):.3g}"


def _part(hits: int, total: int) -> float:
    return hits / total if total else 0.0


def _stops(stops: dict[str, Any]) -> str:
    base = stops["default"]["default"]
    totals: dict[str, list[str]] = defaultdict(list)
    for group in base:
        source, _, what = group.partition(": ")
        totals[what].append(source)
    columns = ("cut short, early", "cut short, suspect", "whole, early", "beside another record, early")
    rows = []
    for name in (one for one in stops if one != "default"):
        default = getattr(DEFAULTS, name)
        by_value = {float(value): counts for value, counts in stops[name].items()} | {default: base}
        ordered = [by_value[value] for value in sorted(by_value)]
        mark = sorted(by_value).index(default)
        cells = []
        for what in columns:
            pairs = [[counts[f"{source}: {what}"] for source in totals[what]] for counts in ordered]
            hits = [sum(hit for hit, _ in cell) for cell in pairs]
            total = sum(n for _, n in pairs[0])
            shown = [_share(hit / total) if what.startswith("cut") else str(hit) for hit in hits]
            cells.append(_line(shown, mark) + ("" if rows else f" of {total:,}"))
        rows.append((f"`{name}`", _line([f"{value:g}" for value in sorted(by_value)], mark), *cells))
    return table(
        ("threshold", "values", "cut short: early", "suspect", "false: whole", "false: beside another record"), rows
    )


def _streaming(streaming: dict[str, Any]) -> str:
    base = streaming["default"]["default"]
    rows = []
    for name in (one for one in streaming if one != "default"):
        default = getattr(DEFAULTS, name)
        by_value = {float(value): found for value, found in streaming[name].items()} | {default: base}
        ordered = [by_value[value] for value in sorted(by_value)]
        mark = sorted(by_value).index(default)
        rows.append(
            (
                f"`{name}`",
                _line([f"{value:g}" for value in sorted(by_value)], mark),
                _line([_share(one["signalled"][0] / one["signalled"][1]) for one in ordered], mark),
                _line([f"{one['delay_chars']:,}" for one in ordered], mark),
                _line([str(one["false"][0]) for one in ordered], mark),
            )
        )
    seen, documents = base["signalled"][1], base["false"][1]
    head = (
        "threshold",
        "values",
        f"loops signalled, of {seen}",
        "median delay, characters",
        f"false signals, of {documents} documents",
    )
    return table(head, rows)


def _line(cells: list[str], mark: int) -> str:
    """Return the cells of all values, the default's in bold; one where they are all the same."""
    if len(set(cells)) == 1:
        return cells[0]
    return " / ".join(f"**{cell}**" if at == mark else cell for at, cell in enumerate(cells))


def _share(value: float) -> str:
    return f"{value:.2f}" if value in (0, 1) else f"{value:.3f}".removeprefix("0")


TABLES: dict[str, Callable[[], str]] = {"long outputs": long_outputs, "thresholds": thresholds}


def missing() -> list[str]:
    """Return the thresholds that the kept results do not hold, or hold at another default: they are to be measured."""
    found = json.loads((RESULTS / "classify_thresholds.json").read_text())
    measured = {name for part in ("loops", "stops", "streaming") for name in found[part]}
    known = {name: value for name, value in asdict(DEFAULTS).items() if name not in found["bounds"]}
    return sorted(set(known) - measured) + sorted(
        name for name, value in known.items() if found["defaults"][name] != value
    )


def stale() -> str:
    """Return that thresholds are to be measured anew, "" where none is."""
    names = missing()
    return f"not measured as they are now: {', '.join(names)}; run ops/bench/classify_thresholds.py" if names else ""


if __name__ == "__main__":
    main(__doc__, PAGE, TABLES, stale)
