"""Taking our own secrets out of what a server sends back, and nothing else of it."""

import base64
import json
import re

# A shorter key ("test", "none", "EMPTY") is an ordinary word: replacing it wherever it occurs would forge the record.
_LEAST_BYTES = 8
# The model's own text is what is judged: it is touched only for what no ordinary word or identifier is.
_LEAST_IN_ANSWER = 16
_STARS = "***"


class Scrub:
    """
    Knows the secrets of one target, in plain and as JSON writes them, and puts '***' in their place.

    Secrets of at least 8 characters are replaced wherever they occur in words and raw bytes, and of at least 16 in the
    model's own text and in what it is asked. In words and raw bytes a credential of any length is replaced after its
    scheme (`Bearer …`).
    `others` are further keys that are sent in headers of their own. `basic` must be what a client may send: base64.
    """

    def __init__(self, *, api_key: str | None, basic: str | None, others: tuple[str, ...] = ()) -> None:
        secrets = {api_key, basic, *_inside(basic), *others} - {None}
        forms = sorted({(len(one), form) for one in secrets if one for form in _forms(one)}, reverse=True)
        self._anywhere = [form.encode() for length, form in forms if length >= _LEAST_BYTES]
        self._in_answer = [form for length, form in forms if length >= _LEAST_IN_ANSWER]
        self._sent = _sent_pattern(api_key, basic)

    def raw(self, data: bytes) -> bytes:
        """Return bytes as they came, without the secrets."""
        for secret in self._anywhere:
            data = data.replace(secret, _STARS.encode())
        if self._sent is not None and (b"earer " in data or b"asic " in data):
            data = self._sent.sub(_STARS.encode(), data)
        return data

    def asked(self, data: bytes) -> bytes:
        """Return a client's request without the secrets that cannot be part of its text by chance."""
        for secret in self._in_answer:
            data = data.replace(secret.encode(), _STARS.encode())
        return data if self._sent is None else self._sent.sub(_STARS.encode(), data)

    def words(self, text: str) -> str:
        """Return a sentence about what went wrong without the secrets."""
        return self.raw(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def answer(self, text: str) -> str:
        """Return the model's own text without the secrets that cannot be part of it by chance."""
        for secret in self._in_answer:
            text = text.replace(secret, _STARS)
        return text


def _inside(basic: str | None) -> tuple[str, ...]:
    """Return `user:password` and the password in the credentials of basic authentication."""
    if basic is None:
        return ()
    plain = base64.b64decode(basic).decode()
    return plain, plain.partition(":")[2]


def _forms(secret: str) -> set[str]:
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _sent_pattern(api_key: str | None, basic: str | None) -> re.Pattern[bytes] | None:
    """Return what finds the credential behind its scheme, where it is not merely the head of a longer word."""
    pairs = [("[Bb]earer ", api_key), ("[Bb]asic ", basic)]
    forms = [f"(?<={scheme}){re.escape(form)}" for scheme, secret in pairs if secret for form in _forms(secret)]
    return re.compile(rf"(?:{'|'.join(forms)})(?![\w.~+/=-])".encode()) if forms else None
