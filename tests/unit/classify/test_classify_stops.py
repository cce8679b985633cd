"""Early stops, with and without a recorded answer."""

import pytest
from unit.classify.turns import answer, judged, kinds

from soak.classify import Context, judge
from soak.classify.structure import announces, half_word, json_prefix, missing_items, open_fence, short_hunk
from soak.facts import Message, ToolCall

CALL = (ToolCall(id="c", name="run", arguments="{}"),)
CALLED = Context(reference=Message(role="assistant", content="I look.", tool_calls=CALL), reference_tokens=40)


def recorded(text: str, tokens: int = 100) -> Context:
    """Return a context whose recorded answer is `text`."""
    return Context(reference=Message(role="assistant", content=text), reference_tokens=tokens)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "  \n\n ",
        "<think>I will look at it.</think>",
        "<think>I will look at",
        "```python\ndef lamp():\n    return",
        '[{"a": 1}, {"a":',
        "The reader opens the file and hands the rows to the",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 |",
        "There are three steps:\n\n1. Open the file.\n2. Read the",
    ],
)
def test_cut_structures_need_no_record(content: str) -> None:
    """Nothing at all, open fences and JSON, and sentences that cannot end there are early stops by themselves."""
    assert judged(content).class_ == "early_stop"


@pytest.mark.parametrize(
    "content",
    [
        "Done.",
        "42",
        "src/lamp.py",
        "Yes",
        "All tests pass now",
        "Changed files:\n- lamp.py\n- door.py",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "Run this:\n\n```\npytest -q\n```",
        '{"a": 1}',
        "Shall I also update the docs?",
        "Let me know if you want the docs updated too.",
        "It costs 3 euros (about 4 dollars)",
    ],
)
def test_complete_answers(content: str) -> None:
    """Short answers, lists, tables, closed structures and offers are complete, also beside a longer record."""
    assert judged(content).class_ == "ok"
    assert judged(content, context=recorded("Everything works, and the docs are updated as well. " * 4)).class_ == "ok"


def test_prefix_of_the_record() -> None:
    """An answer that breaks off inside a line of the recorded answer is early; one that ends a sentence is not."""
    context = recorded("[ROW] id=4 owner=lamp\n[ROW] id=5 owner=door")
    assert judged("[ROW] id=4 owner=", context=context).class_ == "early_stop"
    assert judged("[ROW] id=4 owner=lamp", context=context).class_ == "ok"


RECORD = (
    'I read `lamp_reader.py` again. It isn\'t **safe** to open "door.txt" twice, so I say it (once).\nThen I went on.'
)


@pytest.mark.parametrize(
    ("cut", "early"),
    [
        ("I read `lamp_reader", True),
        ("I read `lamp_reader.", True),
        ("I read `lamp_reader.py`", True),
        ("I read `lamp_reader.py` again", False),
        ("I read `lamp_reader.py` again.", False),
        ("I read `lamp_reader.py` again. It isn", True),
        ("I read `lamp_reader.py` again. It isn't *", True),
        ('I read `lamp_reader.py` again. It isn\'t **safe** to open "door.txt"', True),
        ('I read `lamp_reader.py` again. It isn\'t **safe** to open "door.txt" twice', False),
        (RECORD.partition("\n")[0], False),
    ],
)
def test_where_the_record_goes_on(cut: str, early: bool) -> None:
    """A cut inside a name, a mark or a sentence of the record is early; before a comma or end mark it need not be."""
    assert (judged(cut, context=recorded(RECORD)).class_ == "early_stop") is early


RUNNING = "The reader opened the file. Then it gave the rows to the writer. "


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (RUNNING + "After that every row is checked by the small", "early_stop"),
        (RUNNING + "After that every row is checked by the small ", "early_stop"),
        (RUNNING + "After that every row is checked by the writer.", "ok"),
        (RUNNING + "After that every row is checked\n", "ok"),
        (RUNNING + "All tests pass", "ok"),
        (RUNNING + "Let me know if you want the docs changed too", "ok"),
        (RUNNING + "The small letters of chats: after that every row is checked", "early_stop"),
        (RUNNING + "after that every row is checked by the writer", "ok"),
        (RUNNING + "The rows go to the file /srv/rows/lamp.csv", "ok"),
        (RUNNING + "The guilty one is reader.rows.check_all()", "ok"),
        (RUNNING + "It is told at https://lamp.example/rows/", "ok"),
        (RUNNING + "\n- after that every row is checked by the writer", "ok"),
        (
            "The reader opened the file again\nIt gave rows. And more. After that every row is checked twice",
            "ok",
        ),
    ],
)
def test_the_only_sentence_without_an_end(content: str, wanted: str) -> None:
    """Where all sentences before it end, a last one that does not is early; offers, items and short words are not."""
    assert judged(content).class_ == wanted


PROMISE = "The reader needs three changes:\n\n1. It opens the file once.\n2. It closes it."


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (PROMISE, "early_stop"),
        (PROMISE + "\n3. It says so.", "ok"),
        (PROMISE + "\n\nThe third is a matter of taste.", "ok"),
        ("The reader needs three changes: they are small.\n\nDone so far:\n\n1. It opens the file once.", "ok"),
    ],
)
def test_a_promised_list(content: str, wanted: str) -> None:
    """A list right after its promise that is the end of the text and has fewer items than promised is early."""
    assert judged(content).class_ == wanted


@pytest.mark.parametrize(
    ("content", "record", "wanted"),
    [
        ("I found it. Here is the whole reader:", None, "early_stop"),
        ("The lamp reader in `door.py`:", None, "ok"),
        ("The lamp reader:", None, "ok"),
        ("The lamp reader:", "The lamp reader:\n\n    door", "early_stop"),
        ("It prints the lines of the reader:", "It prints the lines of the reader:", "ok"),
        ("Traceback (most recent call last):", None, "ok"),
        ("It prints this :(", None, "ok"),
        ("It prints this (", None, "early_stop"),
    ],
)
def test_nothing_after_the_colon(content: str, record: str | None, wanted: str) -> None:
    """A text that says what comes, ends on the colon and has nothing after it is early; a line of a log is not."""
    assert judged(content, context=recorded(record) if record else None).class_ == wanted


def test_one_token_of_many() -> None:
    """One word where the record goes on is early, a number is not."""
    context = recorded("I found the cause in the reader and fixed it there.", 60)
    assert judged("The", context=context, tokens=1).class_ == "early_stop"
    assert judged("7", context=context, tokens=1).class_ == "ok"


@pytest.mark.parametrize(
    "content", ["I see. Let me open the module:", "The import is wrong. Let me fix that.", "Now I will run the tests."]
)
def test_announced_call(content: str) -> None:
    """An announced action without a call is early where the record called a tool, and not where it did not."""
    assert judged(content, context=CALLED).class_ == "early_stop"
    assert judged(content, context=recorded("Let me sum up.")).class_ == "ok"


def test_a_call_is_a_deliverable() -> None:
    """An answer with a valid call is complete, however its text ends."""
    assert judged("Let me open the module:", "tool_calls", CALLED, tool_calls=CALL).class_ == "ok"


def test_reasoning_only() -> None:
    """Reasoning without content or call is an early stop of its own kind."""
    judgement = judged("", reasoning="First the tests.")
    assert judgement.class_ == "early_stop"
    assert kinds(judgement) == ["reasoning_only"]


def test_refusal_is_an_answer() -> None:
    """A refusal is what the model had to say."""
    assert judged("", refusal="I cannot help with that.").class_ == "ok"


def test_limit_is_not_early() -> None:
    """What the limit cut is max_tokens, not early."""
    assert judge(answer("The reader opens the", "length"), Context()).class_ == "max_tokens"


def test_structure() -> None:
    """The single signs see what they are named after, and nothing in complete text."""
    assert open_fence("a\n```py\nx\n```\nb\n````\n```\n") == 16
    assert open_fence("```\nx\n```") is None
    assert json_prefix('{"a": [1, {"b": "c')
    assert not json_prefix('{"a": 1}') and not json_prefix("{x} is a set") and not json_prefix("[1] see the note")
    assert short_hunk("@@ -1,9 +1,9 @@\n a\n-b\n+c\n") == 0
    assert short_hunk("@@ -1,2 +1,2 @@\n a\n-b\n+c\n") is None
    assert announces("OK. Now I run it:") and not announces("Please confirm, and I'll go on.")
    assert announces("I see. Let's run the tests.") and not announces("I am here. Let's work together.")
    assert announces("I'm looking into a new module.") and not announces("I'm assuming the tests are right.")
    assert announces("Now I'm checking the log.") and not announces("I'm adding you to the list, if you like.")
    assert announces("Let's start by running the tests:") and not announces("I am here. Let's start!")
    assert missing_items("Four steps are left:\n1. a\n2. b") and not missing_items("Two steps:\n1. a\n2. b")
    assert half_word("a restart lo", "a restart loses it") and not half_word("a restart", "a restart loses it")
