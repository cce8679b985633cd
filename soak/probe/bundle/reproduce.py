#!/usr/bin/env python3
"""
Ask a server what is in bodies.jsonl, class each answer, and hold the count against expected.json.

    python reproduce.py URL [--repeats K] [--in-flight N] [--model NAME] [--api-key-env VARIABLE] [--answers FILE]

URL is the server's base, such as http://localhost:8000 (with or without /v1). Needs Python 3.9 or newer and nothing
else. Exit code: 0 the failure came about as often as expected, 1 it did not, 2 wrong usage, 5 no server or no answer.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import math
import os
import ssl
import sys
import threading
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900
ANSWER_S = 3600
MAX_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024
TAIL = 8000
LOOP_CHARS = 400
LOOP_COPIES = 4
SQUEEZED = 8.0  # honest text is squeezed by zlib to a third to a fifth, a loop with counters to a tenth and less


# -- classing an answer: the plain part of what soak does ------------------------------------------------------------


def loops(text: str) -> bool:
    """Whether the text ends in at least four copies of one unit over 400 characters, or is squeezed as loops are."""
    tail = text[-TAIL:]
    backwards = tail[::-1]
    border = [0] * len(backwards)
    for at in range(1, len(backwards)):
        length = border[at - 1]
        while length and backwards[at] != backwards[length]:
            length = border[length - 1]
        border[at] = length + (backwards[at] == backwards[length])
        size = at + 1
        period = size - border[at]
        if size >= LOOP_CHARS and size >= LOOP_COPIES * period:
            return True
    return any(squeezed(text[at : at + 4000]) for at in range(0, max(1, len(text)), 2000))


def squeezed(part: str) -> bool:
    """Whether a long piece of text is squeezed by zlib as only loops are."""
    data = part.encode("utf-8", "replace")
    return len(part) >= 2000 and len(data) / len(zlib.compress(data, 9)) >= SQUEEZED


def class_of(answer: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return the class of an answer: ok, garbage_loop, early_stop, max_tokens or error."""
    finish, texts = answer["finish_reason"], [answer["content"], answer["reasoning"]]
    texts += [call["arguments"] for call in answer["tool_calls"]]
    if any(loops(text) for text in texts) or finish == "repetition":
        return "garbage_loop"
    if answer["error"] or finish in (None, "abort", "error"):
        return "error"
    if finish == "length":
        return "max_tokens"
    for call in answer["tool_calls"]:
        try:
            if not isinstance(json.loads(call["arguments"] or "{}"), dict):
                return "error"
        except (ValueError, RecursionError):
            return "error"
    said = answer["content"].strip()
    if answer["tool_calls"]:
        return "ok"
    short = not said or len(said) < expected["short_chars"]
    return "early_stop" if short or digest(said) in expected["early_texts"] else "ok"


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# -- asking ----------------------------------------------------------------------------------------------------------


def connect(url: str) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection and the path below which the API lies."""
    parts = urllib.parse.urlsplit(url if "://" in url else "http://" + url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a URL: " + url)
    path = parts.path.rstrip("/")
    path = path if path.endswith("/v1") else path + "/v1"
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=context), path
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S), path


def headers(key: str) -> dict[str, str]:
    """Return the headers of a request."""
    sent = {"content-type": "application/json", "user-agent": "soak-reproducer"}
    if key:
        sent["authorization"] = "Bearer " + key
    return sent


def served_model(url: str, key: str) -> str:
    """Return the only model that the server lists; raises OSError where it does not answer so."""
    connection, path = connect(url)
    try:
        connection.request("GET", path + "/models", headers=headers(key))
        response = connection.getresponse()
        body = response.read(MAX_BYTES)
        if response.status != 200:
            raise OSError(f"GET /v1/models: HTTP {response.status}")
        return str(json.loads(body)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise OSError("GET /v1/models names no model") from error
    finally:
        connection.close()


def ask(url: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the answer to one request; what went wrong stands in `error`."""
    answer: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None, "error": ""}
    calls: dict[int, dict[str, str]] = {}
    try:
        connection, path = connect(url)
        try:
            connection.request("POST", path + "/chat/completions", body=json.dumps(body).encode(), headers=headers(key))
            response = connection.getresponse()
            if response.status != 200:
                answer["error"] = f"HTTP {response.status}: {response.read(500).decode('utf-8', 'replace')}"
                return answer
            read(response, answer, calls)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    answer["tool_calls"] = [calls[index] for index in sorted(calls)]
    return answer


def read(response: http.client.HTTPResponse, answer: dict[str, Any], calls: dict[int, dict[str, str]]) -> None:
    """Read the events of a stream into the answer; lines, the whole and the time it takes are bounded."""
    size, began = 0, time.monotonic()
    while line := response.readline(MAX_LINE_BYTES):
        size += len(line)
        if size > MAX_BYTES or len(line) == MAX_LINE_BYTES or time.monotonic() - began > ANSWER_S:
            answer["error"] = f"an answer of more than {MAX_BYTES} bytes, {MAX_LINE_BYTES} in a line or {ANSWER_S} s"
            return
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        try:
            event = json.loads(data)
            if "error" in event:
                answer["error"] = json.dumps(event["error"])[:500]
            for choice in event.get("choices") or []:
                take(choice, answer, calls)
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError):
            answer["error"] = "an event that is no chat completion chunk"


def take(choice: dict[str, Any], answer: dict[str, Any], calls: dict[int, dict[str, str]]) -> None:
    """Add one choice of an event to the answer."""
    delta = choice.get("delta") or {}
    answer["content"] += delta.get("content") or ""
    answer["reasoning"] += delta.get("reasoning_content") or delta.get("reasoning") or ""
    for piece in delta.get("tool_calls") or []:
        call = calls.setdefault(int(piece.get("index") or 0), {"name": "", "arguments": ""})
        function = piece.get("function") or {}
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""
    answer["finish_reason"] = choice.get("finish_reason") or answer["finish_reason"]


# -- the command -----------------------------------------------------------------------------------------------------


def load(name: str) -> Any:
    """Return the lines of a JSONL file beside this script, or the document of a JSON file; ValueError if damaged."""
    try:
        with (HERE / name).open(encoding="utf-8") as file:
            return [json.loads(line) for line in file] if name.endswith("l") else json.load(file)
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is damaged: {error}") from error


COUNTS = ("repeats", "in_flight", "asked", "script_failed", "low", "high", "checked", "checker_agrees", "short_chars")
LARGEST = 10**6


def load_expected() -> dict[str, Any]:
    """Return what to expect; raises ValueError where expected.json does not tell it."""
    expected = load("expected.json")
    if not isinstance(expected, dict):
        raise ValueError("expected.json is damaged: it is no JSON object")
    for name in COUNTS:
        value = expected.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise ValueError(f"expected.json is damaged: {name} is no number from 0 to {LARGEST}")
    if expected["script_failed"] > expected["asked"]:
        raise ValueError("expected.json is damaged: more failed than were asked")
    if not isinstance(expected.get("failure"), str):
        raise ValueError("expected.json is damaged: failure is no text")
    if not isinstance(expected.get("early_texts"), list):
        raise ValueError("expected.json is damaged: early_texts is no list")
    return expected


def load_bodies() -> list[dict[str, Any]]:
    """Return the requests with their seeds; raises ValueError where bodies.jsonl does not hold them."""
    lines: list[dict[str, Any]] = load("bodies.jsonl")
    if not lines:
        raise ValueError("bodies.jsonl is damaged: it is empty")
    for number, one in enumerate(lines, 1):
        if not isinstance(one, dict) or not isinstance(one.get("body"), dict):
            raise ValueError(f"bodies.jsonl is damaged: line {number} holds no body that is an object")
        seeds = one.get("seeds")
        if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
            raise ValueError(f"bodies.jsonl is damaged: the seeds of line {number} are no list of numbers")
    return lines


def questions(lines: list[dict[str, Any]], repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the bodies to send: of every round each conversation once, seeds as they were, then counted on."""
    for number in range(repeats):
        for one in lines:
            body, seeds = dict(one["body"]), one["seeds"]
            if seeds:
                body["seed"] = seeds[number] if number < len(seeds) else (seeds[-1] + number) % (2**31 - 1) + 1
            yield body


def main() -> int:
    """Carry out the command line; return the exit code."""
    try:
        expected, lines = load_expected(), load_bodies()
    except ValueError as error:
        print(ascii(str(error)[:500])[1:-1], file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="such as http://localhost:8000")
    parser.add_argument("--repeats", type=int, default=expected["repeats"])
    parser.add_argument("--in-flight", type=int, default=expected["in_flight"])
    parser.add_argument("--model", help="default: the one that the server lists first")
    parser.add_argument("--api-key-env", metavar="VARIABLE", help="the environment variable that holds the key")
    parser.add_argument("--answers", default="reproduced.jsonl", help="where the answers are written")
    options = parser.parse_args()
    if options.repeats < 1 or options.in_flight < 1:
        parser.error("--repeats and --in-flight must be at least 1")
    key = os.environ.get(options.api_key_env, "") if options.api_key_env else ""
    try:
        connect(options.url)
        model = options.model or served_model(options.url, key)
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"the server does not answer: {str(error)[:500]!a}", file=sys.stderr)
        return 5
    try:
        return report(options, expected, ask_all(options, model, key, expected, lines))
    except OSError as error:
        print(f"{options.answers!a} cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; what was answered is in {options.answers!a}", file=sys.stderr)
        return 130


def ask_all(
    options: argparse.Namespace, model: str, key: str, expected: dict[str, Any], lines: list[dict[str, Any]]
) -> list[str]:
    """Return the class of every answer, printed and written as it comes."""
    lock = threading.Lock()
    classes: list[str] = []
    asked = enumerate(questions(lines, options.repeats))
    with Path(options.answers).open("w", encoding="utf-8") as file, ThreadPoolExecutor(options.in_flight) as pool:

        def one() -> bool:
            with lock:
                number, body = next(asked, (-1, {}))
            if number < 0:
                return False
            answer = ask(options.url, dict(body, model=model), key)
            found = class_of(answer, expected)
            with lock:
                classes.append(found)
                line = {"id": str(number), "class": found, "max_tokens": body.get("max_tokens"), **answer}
                file.write(json.dumps(line) + "\n")
                file.flush()
                end = (answer["error"] or answer["content"] or answer["reasoning"])[-60:].replace("\n", " ")
                print(f"{number:4d}  {found:13} {str(answer['finish_reason'])[:20]!a:11} ...{end!a}", flush=True)
            return True

        def worker() -> None:
            while one():
                pass

        try:
            for done in [pool.submit(worker) for _ in range(options.in_flight)]:
                done.result()
        except BaseException:
            with lock:
                asked = iter(())  # type: ignore[assignment]
            raise
    return classes


def predicted(events: int, turns: int, further: int) -> tuple[int, int]:
    """Return between how many and how many of further answers will fail with 95 %: beta-binomial, Jeffreys' prior."""
    a, b = events + 0.5, turns - events + 0.5
    low, high, below = 0, further, 0.0
    for count in range(further + 1):
        log = math.lgamma(further + 1) - math.lgamma(count + 1) - math.lgamma(further - count + 1)
        log += math.lgamma(count + a) + math.lgamma(further - count + b) - math.lgamma(further + a + b)
        log += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        share = math.exp(log)
        if below < 0.025 <= below + share:
            low = count
        if below < 0.975 <= below + share:
            high = count
        below += share
    return low, high


def report(options: argparse.Namespace, expected: dict[str, Any], classes: list[str]) -> int:
    """Print the count beside what was expected; return the exit code."""
    failure = expected["failure"]
    failed = classes.count(failure)
    low, high = expected["low"], expected["high"]
    if options.repeats != expected["repeats"]:
        low, high = predicted(expected["script_failed"], expected["asked"], len(classes))
    print(f"\n{failure} in {failed} of {len(classes)} (expected {low} to {high})")
    if expected["checker_agrees"] < expected["checked"]:
        agreed = f"{expected['checker_agrees']} of {expected['checked']}"
        print(f"this script's plain checker agrees with soak on {agreed} stored answers; to be sure: soak classify")
    errors = classes.count("error")
    if failure != "error" and errors:
        print(f"{errors} of {len(classes)} answers were errors, which show neither the failure nor its absence")
        if errors == len(classes):
            return 5
    return 0 if low <= failed and failed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
