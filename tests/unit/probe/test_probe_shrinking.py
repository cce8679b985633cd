"""Making a failure smaller: valid conversations, and the smallest one found."""

import math
import random

import pytest

from soak.facts import Case, Message, ToolCall
from soak.probe import STEP_ROUNDS, Form, confirms, groups_of, rate_test_for, smaller


def talk(exchanges: int) -> Case:
    """Return a conversation with a system prompt, a task, and so many calls with two results each."""
    messages = [Message(role="system", content="be brief"), Message(role="user", content="task")]
    for number in range(exchanges):
        calls = tuple(ToolCall(id=f"{number}-{half}", name="run", arguments="{}") for half in "ab")
        messages.append(Message(role="assistant", content=f"step {number}", tool_calls=calls))
        messages += [Message(role="tool", content=f"result {number}", tool_call_id=call.id) for call in calls]
    return Case(name="talk", messages=tuple(messages), tools=({"type": "function", "function": {"name": "run"}},))


def valid(case: Case) -> bool:
    """Whether every result follows its call, every call has its results, and the model is to speak."""
    open_calls: list[str] = []
    for message in case.messages:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                return False
            open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            return False
        open_calls = [call.id for call in message.tool_calls]
    return not open_calls and case.messages[-1].role in ("user", "tool")


def test_every_smaller_form_is_a_valid_conversation() -> None:
    """No smaller form parts a call from its results, ends on an answer, is empty, or is larger than before."""
    form = Form(cases=(talk(9), talk(4)), in_flight=8)
    forms = [less for _, less in smaller(form)]
    assert len(forms) > 20
    for less in forms:
        assert less.cases
        assert all(valid(case) for case in less.cases)
        assert less.size < form.size


def test_groups_keep_results_with_their_calls() -> None:
    """A group is a message with the tool results that follow it."""
    assert [len(group) for group in groups_of(talk(2).messages)] == [1, 1, 3, 3]


def shrunk(case: Case, rate: float, seed: int) -> Case:
    """Return the smallest form that a noisy failure which needs messages 'result 3' and 'step 6' leads to."""
    rng = random.Random(seed)

    def fails(form: Form) -> bool:
        said = {str(message.content) for one in form.cases for message in one.messages}
        return {"result 3", "step 6"} <= said and rng.random() < rate

    form = Form(cases=(case,))
    test = rate_test_for(sum(fails(form) for _ in range(20)), 20)
    assert test is not None
    refused: set[str] = set()
    while True:
        for _, less in smaller(form):
            if less.size >= form.size or repr(less) in refused:
                continue
            failed = rounds = 0
            while rounds < STEP_ROUNDS and (said := test.said(failed, rounds)) is None:
                failed, rounds = failed + fails(less), rounds + 1
            if said == "bad":
                form = less
                break
            refused.add(repr(less))
        else:
            return form.cases[0]


@pytest.mark.parametrize("rate", [1.0, 0.6])
def test_the_needed_messages_stay_and_hardly_others(rate: float) -> None:
    """What a failure needs is kept under noise, and at least two thirds of the rest are left out, in 19 of 20 draws."""
    case = talk(12)
    right = 0
    for seed in range(20):
        less = shrunk(case, rate, seed)
        said = {str(message.content) for message in less.messages}
        right += {"result 3", "step 6"} <= said and len(less.messages) <= len(case.messages) / 3
    assert right >= 19


def test_a_rare_failure_is_not_shrunk() -> None:
    """One failure of twenty is too little to hold smaller forms against."""
    assert rate_test_for(1, 20) is None
    test = rate_test_for(10, 20)
    assert test is not None
    assert test.bad == pytest.approx(0.25)


@pytest.mark.parametrize("rounds", [5, 20, 60])
@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_confirming_errs_in_five_of_a_hundred_over_all_forms_tried(rounds: int, share: float) -> None:
    """However many forms are tried afresh, one that should not be kept is confirmed with a chance of at most 5 %."""
    test = rate_test_for(round(share * 20), 20)
    assert test is not None
    law = [math.comb(rounds, n) * test.good**n * (1 - test.good) ** (rounds - n) for n in range(rounds + 1)]
    wrong = [
        sum(law[failed] for failed in range(rounds + 1) if confirms(test, failed, rounds, given_up))
        for given_up in range(12)
    ]
    assert sum(wrong) <= 0.05
    assert wrong == sorted(wrong, reverse=True)
    assert confirms(test, rounds, rounds, 0)
