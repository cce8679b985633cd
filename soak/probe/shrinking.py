"""
Making a failure smaller while it still fails: delta debugging under noise. Pure: what to try next, and what to keep.

A failure that comes in 3 of 10 answers cannot be tested with one answer. Each smaller form is asked until a sequential
test (`stats.RateTest`) decides between "still fails at half the first rate or more" (kept) and "at an eighth or less"
(not kept); what is undecided after `STEP_ROUNDS` is not kept. Over dozens of steps some form is kept by luck, so the
last one must fail again in rounds that chose nothing (`confirms`): what those say is told. Removing halves, then
quarters and so on is Zeller's and Hildebrandt's ddmin (IEEE Trans. Softw. Eng. 28 (2002) 183).
"""

from collections.abc import Iterator, Sequence

import msgspec

from soak.facts import Case, Message
from soak.probe.caching import beginning
from soak.stats import RateTest, clopper_pearson

STEP_ROUNDS = 30
_ALPHA = 0.05
_BETA = 0.10
_LEAST_RATE = 0.02
FRESH = 1000
"""From which repeat on a form is asked to confirm it: those before it chose it."""
_FIRST_SHARE = 0.8


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: each case once a round, `in_flight` requests at a time; a round fails if one answer does."""

    cases: tuple[Case, ...]
    in_flight: int = 1

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Conversations, messages, characters, requests at once: smaller is better, in this order."""
        messages = [message for case in self.cases for message in case.messages]
        said = [*messages, *(tool for case in self.cases for tool in case.tools)]
        characters = sum(len(msgspec.json.encode(one)) for one in said)
        return (len(self.cases), len(messages), characters, self.in_flight)


def rate_test_for(failed: int, rounds: int) -> RateTest | None:
    """Return the test that smaller forms must pass, None where too few rounds failed to say anything."""
    if failed < 2:
        return None
    rate = failed / rounds
    bad = min(0.9, max(2 * _LEAST_RATE, rate / 2))
    return RateTest(good=max(_LEAST_RATE / 2, bad / 4), bad=bad, alpha=_ALPHA, beta=_BETA)


def confirms(test: RateTest, failed: int, rounds: int, given_up: int) -> bool:
    """
    Whether fresh rounds show that a form fails more often than the rate at which it would not be kept.

    Exact and one-sided. `given_up` forms were tried before it: the first has four fifths of the error of 5 % that all
    of them share, each next one a fifth of the one before, so that the whole is wrong in at most 5 of 100.
    """
    alpha = _ALPHA * _FIRST_SHARE * (1 - _FIRST_SHARE) ** given_up
    interval = clopper_pearson(failed, rounds, 1 - 2 * alpha)
    return interval is not None and interval.low > test.good


def smaller(form: Form) -> Iterator[tuple[str, Form]]:
    """
    Yield forms one step smaller, the boldest first, each with what was done: fewer conversations, a shorter beginning,
    no tools, fewer messages, fewer requests at once.

    Whoever keeps one goes on from it with a new call. Messages stay a valid conversation: results go with their calls,
    and the last exchange, which the model answers, stays.
    """
    yield from _fewer_cases(form)
    for at, case in enumerate(form.cases):
        for text, less in _smaller_case(case):
            cases = (*form.cases[:at], less, *form.cases[at + 1 :])
            yield text, msgspec.structs.replace(form, cases=cases)
    if form.in_flight > 1:
        for in_flight in sorted({1, form.in_flight // 2}):
            yield f"{in_flight} in flight", msgspec.structs.replace(form, in_flight=in_flight)


def _fewer_cases(form: Form) -> Iterator[tuple[str, Form]]:
    if len(form.cases) < 2:
        return
    for parts in filter(None, _parts(len(form.cases))):
        kept = tuple(form.cases[at] for at in parts)
        yield f"{len(kept)} of {len(form.cases)} conversations", msgspec.structs.replace(form, cases=kept)


def _smaller_case(case: Case) -> Iterator[tuple[str, Case]]:
    for end in _ends(case):
        yield f"only the first {end} of {len(case.messages)} messages", beginning(case, end)
    if case.tools:
        yield "without tools", _changed(case, case.messages, tools=())
    groups = groups_of(case.messages)
    for parts in _parts(len(groups) - 1):  # the last group is what the model answers
        kept = tuple(message for at in (*parts, len(groups) - 1) for message in groups[at])
        yield f"{len(kept)} of {len(case.messages)} messages", _changed(case, kept, tools=case.tools)


def _ends(case: Case) -> list[int]:
    """Return where shorter beginnings end: a quarter, half and three quarters of the places where a model answered."""
    ends = [
        at
        for at in range(1, len(case.messages))
        if case.messages[at].role == "assistant" and case.messages[at - 1].role in ("user", "tool")
    ]
    return sorted({ends[len(ends) * quarter // 4] for quarter in (0, 1, 2, 3)}) if ends else []


def _changed(case: Case, messages: tuple[Message, ...], *, tools: tuple[dict[str, object], ...]) -> Case:
    """Return the case with less to read; the answer that the whole of it got is not an answer to this."""
    return msgspec.structs.replace(
        case, messages=messages, tools=tools, reference=None, reference_tokens=None, observation=None
    )


def groups_of(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Return the messages in groups that can be left out by themselves: calls with their results, others alone."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return [tuple(group) for group in groups]


def _parts(size: int) -> Iterator[tuple[int, ...]]:
    """
    Yield which of `size` things to keep: none, then halves and their complements, quarters and so on, single ones last.
    """
    if size <= 0:
        return
    yield ()
    pieces = 2
    while pieces <= size:
        cuts = [round(size * number / pieces) for number in range(pieces + 1)]
        chunks = [tuple(range(cuts[number], cuts[number + 1])) for number in range(pieces)]
        if pieces > 2:
            yield from (tuple(at for at in range(size) if at not in chunk) for chunk in chunks)
        else:
            yield from reversed(chunks)
        if pieces == size:
            break
        pieces = min(size, 2 * pieces)
