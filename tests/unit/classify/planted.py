"""
Practice data: honest text as agents write it, and faults planted at known positions in it.

Used by the property tests and by `ops/bench/classify.py`. Everything comes from a seed. Honest text is taken from the
corpora under `transcripts/`, from this Python's own standard library, and from generators of repetitive documents.
"""

import base64
import json
import random
import string
import sysconfig
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from soak.classify.pieces import split

REPOSITORY = Path(__file__).parents[3]
# fmt: off
WORDS = [
    "river", "stone", "window", "market", "signal", "copper", "garden", "planet", "engine", "letter", "matrix",
    "forest", "yellow", "bridge", "silver", "carbon", "basket", "camera", "dragon", "eleven", "fabric", "galaxy",
    "hammer", "island", "jacket", "kernel", "ladder", "magnet", "nectar", "object", "pencil", "quartz", "module",
    "service", "handler", "parser", "socket", "buffer", "cluster", "thread", "daemon", "packet", "tensor", "layer",
    "branch", "commit", "merge", "deploy",
]
# fmt: on
SENTENCES = (
    "I need to check the file again.",
    "Let me look at the output of the tests.",
    "The function returns None when the key is missing.",
    "Wait, that is not right.",
    "I will run the command now.",
    "Actually, let me read the error message once more.",
    "The build failed because of a missing import.",
    "So the fix is to update the handler.",
    "Let me verify this by running the tests.",
    "First I should list the directory.",
    "The problem is in the parser module.",
    "Now I will edit the file to fix the bug.",
    "This should resolve the issue.",
    "But the test still fails with the same error.",
    "Let me try a different approach.",
)
# fmt: off
FOREIGN = (
    "ですが", "받은", "ность", "ไม่", "على", "ত্র", "ಗಳ", "まで",
    "지금", "здесь", "που", "στην", "להם",
    "ஆகும்", "ក្នុង",
    "进行", "处理", "数据", "关于", "之间", "ação", "przy", "öffent", "ungen", "iväg",
    "erator", "Config", "_fn", "Flags",
    "//", "=>", "ysz", "quer", "sans", "Λ",
)
# fmt: on


@dataclass(frozen=True)
class Planted:
    """A text with a fault from character `onset` on; `period` in characters (0: none)."""

    kind: str
    text: str
    onset: int
    period: int = 0


def token_ids(text: str) -> tuple[int, ...]:
    """Return made-up token ids: one per word with its leading space, so as a tokenizer would."""
    return tuple(zlib.crc32(piece.encode("utf-8", "surrogatepass")) % 151_000 for piece in _merged(text))


def _merged(text: str) -> list[str]:
    merged: list[str] = []
    for piece in split(text):
        if merged and merged[-1] == " " and piece[0].isalpha():
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


@cache
def _ranks() -> dict[str, int]:
    """Return a vocabulary in the order of frequency, as byte-pair tokenizers have it: common pieces come first."""
    counts = Counter(_merged(agent_text() + "".join(library_text(at) for at in range(10))))
    # A vocabulary of a hundred thousand, of which this text has seen a part.
    spread = 100_000 // len(counts)
    return {piece: 256 + spread * rank for rank, (piece, _) in enumerate(counts.most_common())}


def ranked_ids(text: str) -> tuple[int, ...]:
    """Return made-up token ids that are ranks of frequency; a word that is not known is spelled in characters."""
    return tuple(number for piece in _merged(text) for number in _spelled(piece))


def _spelled(piece: str) -> tuple[int, ...]:
    known = _ranks().get(piece)
    return (known,) if known is not None else tuple(ord(char) % 256 for char in piece)


def ranked_salad(rng: random.Random, words: int, share: float) -> tuple[str, tuple[int, ...]]:
    """Return real text in which `share` of the tokens is drawn at random from the vocabulary, and its ids."""
    ranks = _ranks()
    vocabulary = [piece for piece in ranks if piece.isascii()]
    honest = (_merged(honest_prose(rng, 12 * words + 400)) * 2)[:words]
    pieces = [rng.choice(vocabulary) if rng.random() < share else piece for piece in honest]
    return "".join(pieces), tuple(number for piece in pieces for number in _spelled(piece))


@cache
def agent_messages() -> tuple[str, ...]:
    """Return the contents and tool results of the corpora in this repository, those of 400 characters and more."""
    parts: list[str] = []
    for path in sorted((REPOSITORY / "transcripts").glob("*/*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            contents = [message.get("content") for message in json.loads(line)["messages"]]
            parts += [content for content in contents if isinstance(content, str) and len(content) >= 400]
    return tuple(parts)


@cache
def agent_text() -> str:
    """Return all of them as one text."""
    return "\n\n".join(agent_messages())


@cache
def library_text(at: int) -> str:
    """Return one file of the standard library."""
    names = ("argparse", "difflib", "inspect", "tarfile", "typing", "datetime", "doctest", "ssl", "turtle", "zipfile")
    return (Path(sysconfig.get_paths()["stdlib"]) / f"{names[at % len(names)]}.py").read_text("utf-8")


def honest_prose(rng: random.Random, chars: int) -> str:
    """Return `chars` characters of real text: an excerpt of agent text or of a library file, from a line's start."""
    source = rng.choice([agent_text(), library_text(rng.randrange(10))])
    at = rng.randrange(max(1, len(source) - chars))
    at = source.find("\n", at) + 1
    return (source[at : at + chars] or source[:chars]).rstrip("\n") + "\n"


# -- faults ------------------------------------------------------------------------------------------------------------


def exact_loop(rng: random.Random, period_words: int, repeated_words: int) -> tuple[str, int]:
    """Return (a loop of about `repeated_words` words, its period in characters) with a unit of real text."""
    while True:
        words = honest_prose(rng, 12 * period_words + 200).split(" ")
        unit = " ".join(words[1 : period_words + 1]) + " "
        if 2 * sum(word.isalpha() and len(word) > 1 for word in unit.split()) >= period_words:
            break
    copies = max(4, repeated_words // period_words + 1)
    return unit * copies, len(unit)


def counter_loop(rng: random.Random, words: int) -> str:
    """Return rows that differ only in a counter or a time."""
    forms: list[Callable[[int], str]] = [
        lambda i: f"Step {i}: run the tests again and check the output.\n",
        lambda i: f"{i}. I need to fix the handler before I go on.\n",
        lambda i: f"Attempt {i} failed, so I retry the request with a timeout of {5 * i} s.\n",
        lambda i: f"[12:{i // 60 % 60:02d}:{i % 60:02d}] still waiting for the server to answer the request\n",
        lambda i: f"Line {i} of the file is missing, so I read the file again. ",
        lambda i: f"assistant_{i}: I will now continue with the next part of the task.\n",
    ]
    form, first = rng.choice(forms), rng.randrange(1, 400)
    return "".join(form(first + i) for i in range(words // 9 + 1))


def varied_loop(rng: random.Random, words: int) -> str:
    """Return copies of one passage in each of which a few words are exchanged."""
    unit = exact_loop(rng, rng.choice([12, 30, 60, 120]), 1)[0]
    unit_words = unit[: len(unit) // 4].split(" ")
    rate = rng.choice([0.01, 0.02, 0.04])
    out: list[str] = []
    while len(out) < max(words, 8 * len(unit_words)):
        out += [rng.choice(WORDS) if rng.random() < rate else word for word in unit_words]
    return " ".join(out)


def pool_loop(rng: random.Random, words: int) -> str:
    """Return a few sentences over and over in random order."""
    pool = rng.sample(SENTENCES, rng.randrange(2, 9))
    return " ".join(rng.choice(pool) for _ in range(words // 7 + 1))


def paraphrase_loop(rng: random.Random, words: int) -> str:
    """Return one passage introduced each time in other words."""
    body = rng.choice(
        [
            "```bash\ncd /repo && cargo test\n```\n",
            "The issue is that the cache is never invalidated.\n",
            "the parser again.\n",
        ]
    )
    starts = ["Running: ", "I need to run: ", "Let me run ", "Now run: ", "OK, running ", "Next: ", "I'll execute: "]
    return "".join(rng.choice(starts) + body for _ in range(words // 9 + 1))


def growing_loop(rng: random.Random, words: int) -> str:
    """Return a unit that grows each round."""
    part, end = " ".join(rng.sample(WORDS, 3)) + " ", rng.choice(["stops. ", "again; "])
    out, rounds = "", 1
    while len(out.split()) < words:
        out, rounds = out + part * rounds + end, rounds + 1
    return out


def interleaved_loop(rng: random.Random, words: int) -> str:
    """Return one sentence, each time after another random number."""
    sentence = " ".join(rng.sample(SENTENCES, 2))
    return "".join(f"{rng.randrange(10**6)} {sentence} " for _ in range(words // 14 + 1))


def babble(rng: random.Random, words: int) -> str:
    """Return a random walk over a handful of words."""
    few = rng.sample(WORDS, rng.randrange(3, 7))
    following = {word: rng.sample(few, 2) for word in few}
    out = [few[0]]
    while len(out) < words:
        out.append(rng.choice(following[out[-1]]) if rng.random() < 0.9 else rng.choice(few))
    return " ".join(out)


def marker_loop(rng: random.Random, words: int) -> str:
    """Return a template or tool marker over and over."""
    unit = rng.choice(
        ["<tool_call>", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_end|>\n<|im_start|>user\n", "</think>"]
    )
    return unit * max(40, words // 4)


def flood(rng: random.Random, words: int) -> str:
    """Return one character, or a short word without meaning, over and over."""
    return rng.choice(["!", "\n", " ", "G", ")", "0", "stale ", "rib-", "and ", "\u4e86", "???"]) * max(400, words)


def script_salad(rng: random.Random, words: int) -> str:
    """Return pieces of many languages glued together."""
    return "".join(rng.choice(FOREIGN) + rng.choice(["", "", " "]) for _ in range(words))


def word_salad(rng: random.Random, words: int) -> str:
    """Return the words of real prose in random order."""
    prose = (" ".join(SENTENCES) + " " + " ".join(english())).split()
    return " ".join(rng.choice(prose) for _ in range(words))


def code_salad(rng: random.Random, words: int) -> str:
    """Return fragments of real code and shell lines in random order, cut anywhere."""
    source = library_text(rng.randrange(10))
    return "".join(
        source[at : at + rng.randrange(2, 7)] for at in (rng.randrange(len(source)) for _ in range(2 * words))
    )


def broken_bytes(rng: random.Random, words: int) -> str:
    """Return replacement characters and misread bytes."""
    return "".join(rng.choice(["\ufffd", "\u00c3", "\u00ef\u00bf\u00bd", "\u00a4", " "]) for _ in range(4 * words))


@cache
def english() -> tuple[str, ...]:
    """Return words of the documentation of the standard library: doc strings and comments."""
    text = "\n".join(library_text(at) for at in range(10))
    lines = [line.strip(" #") for line in text.splitlines()]
    return tuple(
        " ".join(line for line in lines if line[:1].isupper() and line.count(" ") > 6 and "=" not in line).split()
    )


NEAR: dict[str, Callable[[random.Random, int], str]] = {
    "counter": counter_loop,
    "varied": varied_loop,
    "sentence pool": pool_loop,
    "paraphrase": paraphrase_loop,
    "growing": growing_loop,
    "interleaved": interleaved_loop,
    "babble": babble,
    "markers": marker_loop,
    "flood": flood,
}
SALAD: dict[str, Callable[[random.Random, int], str]] = {
    "script mix": script_salad,
    "shuffled words": word_salad,
    "code fragments": code_salad,
    "broken bytes": broken_bytes,
}


def planted_exact(rng: random.Random, period_words: int, lead_chars: int, repeated_words: int) -> Planted:
    """Return honest text that falls into an exact loop with a unit of `period_words` words."""
    lead = honest_prose(rng, lead_chars)
    loop, period = exact_loop(rng, period_words, repeated_words)
    return Planted(f"exact {period_words}", lead + loop, len(lead), period)


def planted(rng: random.Random, kind: str, lead_chars: int, words: int) -> Planted:
    """Return honest text that falls into the fault `kind` (a key of NEAR or SALAD)."""
    lead = honest_prose(rng, lead_chars)
    return Planted(kind, lead + (NEAR | SALAD)[kind](rng, words), len(lead))


# -- honest and repetitive ---------------------------------------------------------------------------------------------


def honest(rng: random.Random, rounds: int) -> Iterator[tuple[str, str]]:
    """Yield (category, text) of honest answers, `rounds` of each category, most of them repetitive by nature."""
    for _ in range(rounds):
        yield "agent text", rng.choice(agent_messages())
        yield "code", library_text(rng.randrange(10))[: rng.choice([4000, 20000, 80000])].rpartition("\n\n")[0]
        for name, make in _DOCUMENTS.items():
            yield name, make(rng)


def _rows(row: Callable[[int], str], low: int, high: int) -> Callable[[random.Random], str]:
    return lambda rng: "\n".join(row(i) for i in range(1, rng.randrange(low, high)))


def _pick(rng: random.Random) -> str:
    return rng.choice(WORDS)


def _table(rng: random.Random) -> str:
    rows = (
        f"| {i} | {_pick(rng)}-{_pick(rng)} | {rng.choice(['ok', 'fail'])} | {rng.random() * 100:.1f} |"
        for i in range(300)
    )
    return "| id | name | state | score |\n|---|---|---|---|\n" + "\n".join(rows)


def _pytest(rng: random.Random) -> str:
    row = "tests/test_{}.py::test_{}[{}] PASSED [{:3d}%]"
    return "\n".join(row.format(_pick(rng), _pick(rng), i, i // 4) for i in range(400))


def _dots(rng: random.Random) -> str:
    return "\n".join(f"tests/test_{_pick(rng)}.py {'.' * rng.randrange(5, 72)} [{i:3d}%]" for i in range(60))


def _sql(rng: random.Random) -> str:
    row = "INSERT INTO users (id, name, mail, active) VALUES ({}, '{}', '{}@example.org', {});"
    return "\n".join(row.format(i, _pick(rng), _pick(rng), rng.choice(["TRUE", "FALSE"])) for i in range(1, 250))


def _log(rng: random.Random) -> str:
    row = "2031-06-29T10:{:02d}:{:02d}Z INFO [worker-{}] request id={:08x} path=/api/{} status={} took {} ms"
    return "\n".join(
        row.format(
            i // 60 % 60,
            i % 60,
            rng.randrange(8),
            rng.getrandbits(32),
            _pick(rng),
            rng.choice([200, 404]),
            rng.randrange(400),
        )
        for i in range(300)
    )


def _lockfile(rng: random.Random) -> str:
    entries = {
        f"node_modules/{_pick(rng)}-{_pick(rng)}": {
            "version": f"{rng.randrange(9)}.{rng.randrange(20)}.{rng.randrange(9)}",
            "integrity": "sha512-" + base64.b64encode(rng.randbytes(64)).decode(),
            "license": "MIT",
            "engines": {"node": ">=0.10.0"},
        }
        for _ in range(120)
    }
    return json.dumps({"lockfileVersion": 3, "packages": entries}, indent=2)


def _yaml(rng: random.Random) -> str:
    unit = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {}-{}\n  namespace: prod\nspec:\n  replicas: {}\n"
        "  template:\n    spec:\n      containers:\n      - name: main\n        image: registry/{}:1.{}"
    )
    return "\n---\n".join(
        unit.format(_pick(rng), i, rng.randrange(1, 5), _pick(rng), rng.randrange(9)) for i in range(40)
    )


def _html(rng: random.Random) -> str:
    cell = '    <td class="cell">{}</td>\n'
    row = '  <tr class="row">\n' + 3 * cell + "  </tr>"
    return "<table>\n" + "\n".join(row.format(i, _pick(rng), rng.randrange(10**4)) for i in range(200)) + "\n</table>"


def _unit_tests(rng: random.Random) -> str:
    form = (
        "def test_{}_{}(client):\n    response = client.get('/api/{}/{}')\n    assert response.status_code == {}\n"
        "    assert response.json()['name'] == '{}'"
    )
    return "\n\n".join(
        form.format(_pick(rng), i, _pick(rng), i, rng.choice([200, 404]), _pick(rng)) for i in range(150)
    )


def _hexdump(rng: random.Random) -> str:
    data = rng.randbytes(6000)
    return "\n".join(
        f"{i:08x}  " + " ".join(f"{byte:02x}" for byte in data[i : i + 16]) for i in range(0, len(data), 16)
    )


def _fizzbuzz(rng: random.Random) -> str:
    names = {0: "FizzBuzz", 3: "Fizz", 5: "Buzz", 6: "Fizz", 9: "Fizz", 10: "Buzz", 12: "Fizz"}
    return "\n".join(names.get(i % 15, str(i)) for i in range(1, rng.randrange(400, 1500)))


def _identity(rng: random.Random) -> str:
    size = rng.randrange(24, 64)
    return (
        "[" + ",\n ".join("[" + ", ".join("1" if i == j else "0" for j in range(size)) + "]" for i in range(size)) + "]"
    )


def _json_rows(rng: random.Random) -> str:
    rows = [
        {"id": i, "name": _pick(rng), "tags": [_pick(rng), _pick(rng)], "active": rng.random() < 0.5}
        for i in range(200)
    ]
    return json.dumps(rows, indent=2)


def _progress(rng: random.Random) -> str:
    row = "epoch {:3d}/100 [{:<25s}] step {:3d}/50 loss {:.4f} lr 0.0003"
    return "\n".join(
        row.format(e, "=" * (s // 2), s, 2.5 / (1 + e * 0.1 + s * 0.002) + rng.random() * 0.02)
        for e in range(8)
        for s in range(0, 50, 2)
    )


_SAYINGS = (
    ("The build is green.", "ビルドは成功しました。", "빌드가 성공했습니다.", "Сборка прошла успешно."),
    ("Two tests are slow.", "二つのテストが遅いです。", "테스트 두 개가 느립니다.", "Два теста медленные."),
    ("Please review the patch.", "パッチを確認してください。", "패치를 검토해 주세요.", "Проверьте исправление."),
    ("The cache is empty.", "キャッシュは空です。", "캐시가 비어 있습니다.", "Кэш пуст."),
    (
        "Restart the server tonight.",
        "今夜サーバーを再起動してください。",
        "오늘 밤 서버를 다시 시작하세요.",
        "Перезапустите сервер.",
    ),
    ("We found the cause.", "原因が見つかりました。", "원인을 찾았습니다.", "Мы нашли причину."),
)


def _translation(rng: random.Random) -> str:
    order = rng.sample(_SAYINGS, len(_SAYINGS))
    return "\n".join(f"{i}. EN: {p[0]}\n   JA: {p[1]}\n   KO: {p[2]}\n   RU: {p[3]}" for i, p in enumerate(order))


def _checklist(rng: random.Random) -> str:
    return "\n".join(
        f"- [{rng.choice(' x')}] Update {_pick(rng)}/{_pick(rng)}.py to use the new interface" for _ in range(200)
    )


def _names(rng: random.Random) -> str:
    return "\n".join(
        "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randrange(3, 12))) for _ in range(500)
    )


_DOCUMENTS: dict[str, Callable[[random.Random], str]] = {
    "markdown table": _table,
    "pytest -v": _pytest,
    "pytest dots": _dots,
    "sql inserts": _sql,
    "log": _log,
    "lock file": _lockfile,
    "yaml": _yaml,
    "html table": _html,
    "unit tests": _unit_tests,
    "hex dump": _hexdump,
    "fizzbuzz": _fizzbuzz,
    "identity matrix": _identity,
    "json rows": _json_rows,
    "progress": _progress,
    "translation": _translation,
    "checklist": _checklist,
    "made-up names": _names,
    "counting": _rows(str, 500, 3000),
    "zeros": lambda rng: "data = [" + ", ".join("0" for _ in range(rng.randrange(300, 3000))) + "]\nprint(sum(data))\n",
    "zero bytes": _rows(lambda i: f"{16 * i:08x}  " + "00 " * 16, 60, 300),
    "multiplication": lambda rng: "\n".join(" ".join(f"{i * j:4d}" for j in range(1, 25)) for i in range(1, 60)),
    "csv": lambda rng: (
        "id,region,flag,value\n" + "\n".join(f"{i},eu-west-1,false,{rng.randrange(1000)}" for i in range(1, 600))
    ),
    "base64": lambda rng: base64.encodebytes(rng.randbytes(6000)).decode(),
    "constants": lambda rng: "\n".join(f"    {_pick(rng).upper()}_{_pick(rng).upper()} = {i}," for i in range(300)),
    "css": _rows(lambda i: f".mt-{i} {{\n  margin-top: {4 * i}px;\n}}", 60, 120),
    "bars": lambda rng: "\n".join("#" * rng.randrange(1, 79) for _ in range(200)),
    "getters": _rows(
        lambda i: f"    public int get{WORDS[i % 40].title()}{i}() {{ return {WORDS[i % 40]}{i}; }}", 40, 160
    ),
    "truth table": lambda rng: "\n".join(f"{i:08b} | {i.bit_count() % 2}" for i in range(256)),
    "requirements": lambda rng: "\n".join(
        f"{_pick(rng)}-{_pick(rng)}=={rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(9)}" for _ in range(300)
    ),
    "checksums": lambda rng: "\n".join(f"{rng.getrandbits(256):064x}  part-{i:03d}.bin" for i in range(100)),
    "same rows": lambda rng: "ok,0,0\n" * rng.randrange(50, 400),
}
