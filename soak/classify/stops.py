"""Early stops: the answer ended by itself without what it was to deliver."""

import re

from soak.classify.context import Context
from soak.classify.explain import reference_text
from soak.classify.markup import without_thinking
from soak.classify.settings import Settings
from soak.classify.structure import announces, broken_off, half_word, open_fence
from soak.classify.textcalls import calls_in_text
from soak.classify.words import ONE_WORD_ANSWERS
from soak.facts import Finding, Observation, ToolCall, text_of

_SENTENCE_END = re.compile(r"[.!?:;\u3002\uff01\uff1f\u2026)\]}\"'`|*>]\Z")
# What stands inside names, quotations and marks; a comma or full stop may follow what is complete.
_INSIDE = "'\u2019\"`_-/=*@([{"
_EXCERPT_CHARS = 200
_TAIL_CHARS = 20_000
_MAX_CHARS = 400_000

_SENTENCES = {
    "open_fence": "a code fence is never closed",
    "open_tag": "a tag is never closed",
    "open_json": "the JSON value is never closed",
    "cut_diff": "the last diff hunk has fewer lines than its header says",
    "short_list": "the list has fewer items than promised",
    "unending_word": "the last word cannot end a sentence",
    "open_sentence": "the sentence is not finished",
    "no_full_stop": "the last sentence has no end",
    "others_end": "all sentences before it have one",
    "cut_row": "the last row of the table has no end",
    "colon": "nothing follows its colon",
    "dangling": "it ends on an operator, bracket or comma",
    "open_quote": "a quote or bracket of the last line is open",
    "half_word": "it ends within a word",
    "prefix": "it breaks off inside a line of the recorded answer",
    "announced": "it announces an action that never comes",
    "reference_call": "the recorded answer called a tool",
    "short": "it is far shorter than the recorded answer",
    "shorter": "it is shorter than the recorded answer",
    "tiny": "it is a token or two where the recorded answer goes on",
}


def early_stop(observation: Observation, context: Context, settings: Settings) -> list[Finding]:
    """
    Return findings of kind `early_stop` (or `empty`, `reasoning_only`) or `suspect_stop`; none for a complete answer.

    Only for answers that ended by themselves and without a tool call.
    """
    content, thoughts = without_thinking(observation.content[-_MAX_CHARS:])
    if not content.strip() and not observation.refusal:
        return [_nothing_said(observation, thoughts)]
    points = _points(content, observation, context, settings)
    total = _total(points)
    if total < settings.suspect_points:
        return []
    early = total >= settings.early_points
    names = sorted(points, key=lambda name: -points[name])
    why = "; ".join(_SENTENCES[name] for name in names)
    at = len(observation.content.rstrip())
    return [
        Finding(
            kind="early_stop" if early else "suspect_stop",
            onset_char=at,
            unit=observation.content[max(0, at - _EXCERPT_CHARS) : at],
            confidence=min(0.95, 0.25 + 0.15 * total),
            text=f"the answer stops after {at} characters: {why}",
        )
    ]


def _total(points: dict[str, int]) -> int:
    """Return the sum, in which the record alone (it called a tool, it was longer) is worth one point at most."""
    beside = sum(points.get(name, 0) for name in ("reference_call", "short", "shorter"))
    text = sum(points.values()) - beside
    return text + (beside if text >= 2 else min(beside, 1))


def _nothing_said(observation: Observation, thoughts: str) -> Finding:
    thinking = (observation.reasoning + thoughts).strip()
    if thinking:
        text = f"only reasoning ({len(thinking)} characters), then a stop: no content and no tool call"
        return Finding(
            kind="reasoning_only", where="reasoning", unit=thinking[-_EXCERPT_CHARS:], confidence=0.95, text=text
        )
    text = "nothing was generated" if not observation.content else "nothing but white space or empty tags"
    return Finding(kind="empty", confidence=0.99, text=f"{text}, and the finish reason is a normal stop")


def _points(content: str, observation: Observation, context: Context, settings: Settings) -> dict[str, int]:
    fences = not (context.tool_mode == "text" and open_fence(content) == 0)
    points = {
        sign.name: sign.points
        for sign in broken_off(content[-_TAIL_CHARS:] if len(content) > 4 * _TAIL_CHARS else content, fences=fences)
    }
    reference = reference_text(context.reference)
    body = content.rstrip()
    known = reference + "\n" + context.prompt_text[-200_000:] + "\n" + body[:-1]
    if body == content and not _decided(points) and half_word(content, known):
        points["half_word"] = 3 if half_word(content, reference) else 2
    if context.reference is not None:
        points |= _against_reference(body, observation, context, settings)
    if context.reference is not None and reference.rstrip().endswith(":") and not recorded_calls(context):
        points.pop("colon", None)
    points |= _announced(body, context)
    return points


def recorded_calls(context: Context) -> tuple[ToolCall, ...]:
    """Return the calls of the recorded answer, in tool mode `text` those too that stand in its text."""
    recorded = context.reference
    if recorded is None or recorded.tool_calls or context.tool_mode == "native":
        return () if recorded is None else recorded.tool_calls
    return calls_in_text(text_of(recorded.content))


def _announced(body: str, context: Context) -> dict[str, int]:
    """Return the points of an announced action: two where a tool was at hand, one more if it ends on the colon."""
    if not announces(body) or (context.reference is not None and not recorded_calls(context)):
        return {}
    at_hand = bool(context.tools) or context.reference is not None
    return {"announced": (2 if at_hand else 1) + body.endswith(":")}


def _decided(points: dict[str, int]) -> bool:
    """Whether a sign alone decides already."""
    return any(value >= 3 for value in points.values())


def _against_reference(body: str, observation: Observation, context: Context, settings: Settings) -> dict[str, int]:
    reference = context.reference
    points: dict[str, int] = {}
    if reference is None:
        return points
    recorded = text_of(reference.content).strip()
    if _breaks_off(body.strip(), recorded):
        points["prefix"] = 3
    if recorded_calls(context):
        points["reference_call"] = 1
    live, wanted = observation.output_tokens, context.reference_tokens
    if live is not None and wanted is not None and wanted >= 64 and live < settings.short_share * wanted:
        points["short"] = 1
    elif len(body) < settings.shorter_share * len(recorded):
        points["shorter"] = 1
    if live is not None and wanted is not None and live <= 2 and wanted >= 16 and not _stands_alone(body):
        points["tiny"] = 3
    return points


def _breaks_off(body: str, recorded: str) -> bool:
    """Whether `body` begins the recorded text and ends inside one of its lines and sentences, or on a colon."""
    if len(body) >= len(recorded) - 1 or not recorded.startswith(body):
        return False
    if body.endswith(":"):
        return True
    rest = recorded[len(body) :].split("\n", 1)[0]
    if not rest.strip():
        return False
    if body[-1] in "=-/_(":
        return True
    if rest[0].isspace():
        # After an end mark, a bracket or a quotation only a small letter goes on with the sentence.
        return not _SENTENCE_END.search(body) or rest.lstrip()[0].islower()
    return rest[0].isalnum() or rest[0] in _INSIDE or (rest[0] == "." and rest[1:2].isalnum())


def _stands_alone(body: str) -> bool:
    """Whether a very short answer can be a whole one: a number, a path, a yes, or anything with an end mark."""
    return bool(_SENTENCE_END.search(body) or re.search(r"[\d/._]", body)) or body.lower() in ONE_WORD_ANSWERS
