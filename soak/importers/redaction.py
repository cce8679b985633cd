"""
Personal data and secrets in an episode → placeholders: e-mail addresses, home folders, keys and tokens.

The same value gives the same placeholder throughout an episode, so that what refers to each other still does. Text and
tool-call arguments, tool schemas and `meta` are gone through. Arguments that were JSON stay JSON. Redacting twice
changes nothing. What does not look like a secret (a password that is a word) is not found: read before you publish.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from soak.facts import Episode, Message, ToolCall, make_episode
from soak.importers.values import as_json

# What the common vendors' keys look like, as their documentation or their secret scanners describe them.
_KEYS = (
    r"sk-(?:ant-|proj-|or-v1-|svcacct-|admin-|lf-)?[A-Za-z0-9_-]{20,}",
    r"pk-lf-[A-Za-z0-9-]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{30,}",
    r"github_pat_[A-Za-z0-9_]{30,}",
    r"glpat-[A-Za-z0-9_-]{20,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{15,}",
    r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-AgEI[A-Za-z0-9_-]{30,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"(?:gsk|xai|nvapi|r8|dop_v1|shpat|pplx|tgp_v1|lin_api|dckr_pat)[_-][A-Za-z0-9_-]{24,}",
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
)
_KEY = re.compile(r"(?<![A-Za-z0-9_-])(?:" + "|".join(_KEYS) + r")(?![A-Za-z0-9])")
_RUN = re.compile(r"[A-Za-z0-9+/_.~-]{20,}={0,2}")
_PEM = re.compile(r"(?<=-----BEGIN )([A-Z ]{0,20}PRIVATE KEY-----)[A-Za-z0-9+/=\s\\]{20,20000}(?=-----END )")
_NAMING = re.compile(
    r"(?i)(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|token|passwd|password|authorization|bearer)"
    r"[\"'\\]{0,3}\s?[:=\s]\s?[\"'\\]{0,3}(?:bearer\s)?\Z"
)
_NAMING_MAX = 40
_LOOKS_MAX = 5
_DIGITS = re.compile(r"[0-9](?:[^0-9]*[0-9]){2}")
_LETTERS = re.compile(r"[A-Za-z](?:[^A-Za-z]*[A-Za-z]){2}")
_LENGTH_MIN = 6
_LOGIN = re.compile(r"(?<=://)([A-Za-z0-9._~%-]{1,64}:[A-Za-z0-9._~%!$&*+,;=-]{3,128})(?=@)")
_DOMAIN = re.compile(r"@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}")
_MAILBOX = re.compile(r"[A-Za-z0-9._%+-]{1,64}\Z")
_HOME = re.compile(
    r"((?:/home/|/Users/|/export/home/|\b[A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/)))([A-Za-z0-9][A-Za-z0-9._-]{0,63})"
)
_DASHED = re.compile(r"(?<![A-Za-z0-9])(-(?:home|Users)-)([A-Za-z0-9][A-Za-z0-9._]{0,63})")
_RESERVED = re.compile(r"(?i)@(?:[a-z0-9-]+\.)*(?:example\.(?:com|org|net)|example|invalid|test|localhost)\Z")
_OURS = re.compile(r"user\d+\Z|REDACTED_[A-Z]+_\d+\Z")
_SHARED_HOMES = ("Shared", "Public", "runner", "ubuntu", "user", "username", "you", "me")
_FILE = re.compile(r"(?i)\.(?:png|jpe?g|gif|svg|webp|js|css|py|json|md|txt)\Z")


def redact_text(text: str) -> str:
    """Return `text` without personal data and secrets."""
    return _Pen().text(text)


def redact(episodes: Iterable[Episode]) -> tuple[tuple[Episode, ...], dict[str, int]]:
    """Return the episodes without personal data and secrets, and how many were replaced, by kind."""
    total: Counter[str] = Counter()
    redacted: list[Episode] = []
    for episode in episodes:
        clean, counts = redact_episode(episode)
        redacted.append(clean)
        total.update(counts)
    return tuple(redacted), dict(total)


def redact_episode(episode: Episode) -> tuple[Episode, dict[str, int]]:
    """Return one episode without personal data and secrets, and how many were replaced, by kind."""
    pen = _Pen()
    messages = [_message(node.message, pen) for node in episode.nodes]
    tools = tuple(pen.value(tool) for tool in episode.tools)
    meta = pen.value(episode.meta)
    id_ = pen.text(episode.id)
    if id_.startswith(("home-", "Users-")):
        id_ = pen.text(f"-{id_}")[1:]  # made of a path, whose first sign was lost
    if not pen.counts:
        return episode, {}
    parents = [node.parent for node in episode.nodes]
    clean = make_episode(id_, messages, parents=parents, turns=list(episode.turns), tools=tools, meta=meta)
    return clean, dict(pen.counts)


class _Pen:
    """Replaces values, each by a placeholder of its own, and counts what it replaced."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._names: dict[tuple[str, str], str] = {}

    def text(self, text: str) -> str:
        """Return `text` with placeholders; what a replacement brings together is looked at again."""
        for _ in range(_LOOKS_MAX):
            looked_at = text
            text = self._once(text)
            if text == looked_at:
                break
        return text

    def _once(self, text: str) -> str:
        if len(text) < _LENGTH_MIN:
            return text
        text = _PEM.sub(lambda found: f"{found[1]} {self._give('key', found[0])} ", text) if "PRIVATE" in text else text
        if "://" in text:
            text = _LOGIN.sub(self._login, text)
        text = _RUN.sub(self._run, text)
        if "@" in text:
            text = self._emails(text)
        if "/home/" in text or "Users" in text or "-home-" in text:
            text = _DASHED.sub(self._home, _HOME.sub(self._home, text))
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with placeholders in its texts, the names in objects included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            found: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(key)
                while name in found:
                    name += "_"
                found[name] = self.value(item)
            return found
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _give(self, kind: str, value: str) -> str:
        """Return the placeholder of a value, the same each time, and count it."""
        self.counts[kind] += 1
        known = self._names.get((kind, value))
        if known is None:
            number = 1 + sum(1 for one, _ in self._names if one == kind)
            made = {"e-mail address": f"user{number}@example.com", "user name": f"user{number}"}
            known = self._names[kind, value] = made.get(kind, f"REDACTED_{kind.upper()}_{number}")
        return known

    def _key(self, found: re.Match[str]) -> str:
        return self._give("key", found[0])

    def _run(self, found: re.Match[str]) -> str:
        """Replace the keys in a long run of letters and digits, or all of it where it is called a secret."""
        run, start = found[0], found.start()
        without = _KEY.sub(self._key, run)
        if without != run or not _looks_random(run) or _OURS.search(run):
            return without
        if _NAMING.search(found.string[max(start - _NAMING_MAX, 0) : start]) is None:
            return run
        return self._give("key", run)

    def _login(self, found: re.Match[str]) -> str:
        return found[0] if _OURS.search(found[1]) else self._give("key", found[1])

    def _emails(self, text: str) -> str:
        """Return `text` without e-mail addresses: each "@" is looked at from both sides."""
        pieces: list[str] = []
        done = 0
        for domain in _DOMAIN.finditer(text):
            box = _MAILBOX.search(text[max(domain.start() - 64, done) : domain.start()])
            if done and domain.start() == done:
                done = domain.end()  # one address runs into the next: both are gone
                continue
            address = "" if box is None else box[0] + domain[0]
            if not address or _RESERVED.search(address) or _FILE.search(address) or address.startswith("git@"):
                continue
            pieces += [text[done : domain.start() - len(address) + len(domain[0])]]
            pieces += [self._give("e-mail address", address.lower())]
            done = domain.end()
        return "".join(pieces) + text[done:]

    def _home(self, found: re.Match[str]) -> str:
        name = found[2]
        if _OURS.match(name) or name in _SHARED_HOMES:
            return found[0]
        return found[1] + self._give("user name", name)


def _looks_random(value: str) -> bool:
    """Return whether a value after a word such as "token" is a secret, not a word or a path: digits in letters."""
    if _DIGITS.search(value) is None or _LETTERS.search(value) is None:
        return False
    return "/" not in value[:1] and value.count("/") < 3 and value.count(".") < 3


def _message(message: Message, pen: _Pen) -> Message:
    calls = tuple(_call(call, pen) for call in message.tool_calls)
    return msgspec.structs.replace(
        message,
        content=pen.value(message.content),
        reasoning=pen.value(message.reasoning),
        tool_calls=calls,
        name=pen.value(message.name),
    )


def _call(call: ToolCall, pen: _Pen) -> ToolCall:
    """Return a call with placeholders in its arguments, which stay JSON if they were."""
    arguments = pen.text(call.arguments)
    before = _parsed(call.arguments)
    if before is not None:
        after = _parsed(arguments)
        if after is None or _Pen().value(after[0]) != after[0]:
            arguments = as_json(pen.value(before[0]))
    return call if arguments == call.arguments else msgspec.structs.replace(call, arguments=arguments)


def _parsed(text: str) -> tuple[Any] | None:
    """Return the JSON value in `text`, wrapped, or None where it is none."""
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None
