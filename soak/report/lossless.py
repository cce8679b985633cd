"""What the losslessness probe found, for the terminal."""

import math

from soak.facts import LeftOut, LosslessFound, LosslessTest, LosslessToken
from soak.report.escape import escape_terminal, one_line
from soak.report.figures import UNKNOWN, count, decimal
from soak.report.style import Style
from soak.report.table import terminal_table

_TEXT_MAX = 24


def terminal_lossless(found: LosslessFound, width: int = 100, colour: bool = False) -> str:
    """Return what the losslessness test found: its tests, the worst tokens, what it cost, and the sentence."""
    style, result = Style(colour), found.result
    head = [
        f"sampled by {one_line(found.sampled_by, width)}",
        f"scored by {one_line(found.scored_by, width)} ({scored_line(found)})",
    ]
    tests = terminal_table(TEST_HEADER, [test_row(test) for test in result.tests]) if result.tests else []
    worst = terminal_table(TOKEN_HEADER, [token_row(token, found) for token in result.worst]) if result.worst else []
    verdict = style.mark(result.result) if result.result == "deviates" else style.bold(result.result)
    sentence = one_line(result.sentence, 2000).removeprefix(result.result)
    parts = [head, tests, worst, notes_of(found), [f"{verdict}{sentence}"]]
    return "\n\n".join("\n".join(part) for part in parts if part)


TEST_HEADER = ("test", "tokens", "value", "alarms at", "")
TOKEN_HEADER = ("turn", "token", "sampled", "p", "rank", "likeliest", "p", "near")


def scored_line(found: LosslessFound) -> str:
    """Return in which numbers and how widely was scored, and how fast."""
    parts = [found.scored_in, f"{count(found.width)} log probabilities a token"]
    if (rate := found.cost.tokens_per_s) is not None:
        parts.append(f"{count(found.cost.tokens)} tokens scored at {count(rate)} a second, prompts included")
    if found.cost.peak_bytes is not None:
        parts.append(f"{decimal(found.cost.peak_bytes / 2**30, 1)} GiB at most")
    return ", ".join(parts)


def test_row(test: LosslessTest) -> list[str]:
    """Return the cells of one test."""
    said = "ALARM" if test.alarms else "" if test.value is not None else "too few"
    return [test.name, count(test.tokens), decimal(test.value), decimal(test.bar), said]


def token_row(token: LosslessToken, found: LosslessFound) -> list[str]:
    """Return the cells of one token that is hard to believe."""
    near = UNKNOWN
    if token.mark is not None and token.distance is not None:
        side = "after" if token.distance >= 0 else "before"
        near = f"{count(abs(token.distance))} {side} {token.mark.replace('_', ' ')}"
    return [
        one_line(str(token.key), 40),
        count(token.position),
        _text(token.token_id, found),
        probability(token.logprob),
        count(token.rank + 1),
        _text(token.top_id, found),
        probability(token.top_logprob),
        near,
    ]


def notes_of(found: LosslessFound) -> list[str]:
    """Return what was left out, what the control says, and what the result does not show."""
    result = found.result
    lines = [
        f"{count(one.tokens)} tokens of {count(one.outputs)} answers were not scored: {one.reason}"
        for one in found.unscored
    ]
    lines += [
        f"{count(one.tokens)} tokens of {count(one.outputs)} answers took no part: {one.reason}"
        for one in result.left_out
    ]
    if found.control[1]:
        noise = "" if found.noise is None else f"; between decoding and scoring {found.noise:.3f} nats (deviation)"
        lines.append(f"control: {count(found.control[1])} tokens of {count(found.control[0])} answers{noise}")
    if result.onset is not None:
        lines.append(f"onset: {result.onset.text}")
    lines += [*found.notes, *(f"not shown: {text}" for text in result.caveats)]
    return [f"  {one_line(line, 400)}" for line in lines]


def _size(left: LeftOut) -> str:
    return f"{count(left.tokens)} tokens of {count(left.outputs)} answers"


def probability(logprob: float) -> str:
    """Return a probability from its natural logarithm, with one or two digits that say something."""
    if logprob < -700:
        return "0"
    value = math.exp(min(logprob, 0.0))
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _text(token: int, found: LosslessFound) -> str:
    text = found.texts.get(token)
    if text is None:
        return f"id {token}"
    return f"'{escape_terminal(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + '…')}'"
