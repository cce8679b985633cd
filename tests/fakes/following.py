"""A model that knows the transcripts by heart: it says what was recorded, and goes astray where it is told to."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fakes.answers import Answer, Call
from fakes.faults import Ask, stream
from fakes.script import Script, Wait

WAYS = ("follow", "respell", "loop", "pair_loop", "astray", "stop", "repeat_answer")
"""
follow: the recorded answers. respell: the same calls spelt otherwise. loop, pair_loop: from turn `at` on the answer of
that turn (of that turn and the next) again and again. astray: calls that nobody recorded. stop: no call at turn `at`.
repeat_answer: the same text without a call from turn `at` on.
"""


class Following:
    """
    A policy over episodes as they stand in corpus lines; `ways` gives each episode its way and the turn `at`.

    What it answers depends on the messages of the request alone. `asked` keeps the bodies.
    """

    def __init__(
        self, lines: Sequence[dict[str, Any]], ways: Mapping[str, tuple[str, int]] | None = None, *, gap_s: float = 0.0
    ) -> None:
        self._lines = [(_user_texts(line["messages"]), line) for line in lines]
        self._ways = dict(ways or {})
        self._gap_s = gap_s
        self.asked: list[dict[str, Any]] = []

    def __call__(self, ask: Ask) -> Script:
        messages = ask.body["messages"]
        said = _user_texts(messages)
        line = next((line for texts, line in self._lines if said and texts[: len(said)] == said), None)
        if line is None or "seed" not in ask.body:
            return stream(Answer(content="ready"), ask)
        self.asked.append(ask.body)
        told = sum(message["role"] == "assistant" for message in messages)
        answer = self._answer(line, told, text_mode="tools" not in ask.body)
        script = stream(answer, ask)
        return Script([Wait(self._gap_s), *script.steps], finish=script.finish) if self._gap_s else script

    def _answer(self, line: dict[str, Any], told: int, *, text_mode: bool) -> Answer:
        way, at = self._ways.get(line["id"], ("follow", 0))
        answers = [message for message in line["messages"] if message["role"] == "assistant"]
        place = told
        if told >= at and way == "loop":
            place = at
        if told >= at and way == "pair_loop":
            place = at + (told - at) % 2
        if told >= at and way == "stop":
            return Answer(content="That is all there is to it; the work is done and nothing is left open.")
        if told >= at and way == "repeat_answer":
            return Answer(content="I will look at the files now and tell you what I find there.")
        if told >= at and way == "astray":
            return _said(
                "", [Call("bash", json.dumps({"command": f"frobnicate --level {told} | wc -{told}"}))], text_mode
            )
        if place >= len(answers):
            return Answer(content="Everything is done.")
        recorded = answers[place]
        calls = [
            Call(call["name"], _respelt(call) if way == "respell" else call["arguments"], f"call_{told}_{k}")
            for k, call in enumerate(recorded.get("tool_calls", ()))
        ]
        return _said(recorded.get("content") or "", calls, text_mode)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a corpus folder."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def mixed_ways(lines: Sequence[dict[str, Any]], names: Sequence[str] = WAYS, at: int = 2) -> dict[str, tuple[str, int]]:
    """Return a way for each episode, by its name alone."""
    numbers = (int.from_bytes(hashlib.sha256(line["id"].encode()).digest()[:4], "big") for line in lines)
    return {line["id"]: (names[number % len(names)], at) for line, number in zip(lines, numbers, strict=True)}


def _respelt(call: dict[str, Any]) -> str:
    arguments = json.loads(call["arguments"])
    if "command" in arguments:
        arguments["command"] = f"cd /srv/checkout && {arguments['command']} 2>&1 | tail -40"
    return json.dumps(dict(reversed(list(arguments.items()))), indent=1)


def _said(content: str, calls: list[Call], text_mode: bool) -> Answer:
    if not calls:
        return Answer(content=content)
    if not text_mode:
        return Answer(content=content, calls=tuple(calls), finish="tool_calls")
    written = (
        f'<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {c.arguments}}}\n</tool_call>' for c in calls
    )
    return Answer(content="\n".join((content, *written)))


def _user_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return what users say; in text mode what follows a result in the same message."""
    texts = (str(message.get("content") or "") for message in messages if message["role"] == "user")
    return [rest for text in texts if (rest := text.rpartition("</tool_response>")[2].strip())]
