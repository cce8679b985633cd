"""`soak proxy` through the command line: a run like any other, a recording that replays, and what it survives."""

import json
import re
import signal
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, holds_bytes, wait_until

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

KEY = "sk-of-the-client-9f3a7c21d8"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
SHORT = {"model": "fake-model", "messages": [{"role": "user", "content": "x"}], "stream": True}
JUDGED = ("--min-turns", 4)


class Through:
    """A proxy that runs as a command, and a client of it."""

    def __init__(self, command: Command) -> None:
        self.command = command.said('"listening"')
        self.url = re.findall(r'"url": "(http[^"]+)"|(http://127\.0\.0\.1:\d+) passes on', command.err)[-1][1]

    def post(self, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str) -> bytes:
        """Return the body of an answer, whatever its status."""
        given = {"content-type": "application/json", "authorization": f"Bearer {KEY}", **headers}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), given)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            return error.read()

    def converse(self, task: str, turns: int, **changes: Any) -> list[dict[str, Any]]:
        """Hold a conversation as an agent does, alternately streamed and not; return its messages."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": task},
        ]
        for turn in range(turns):
            body = {"model": "fake-model", "messages": messages, "max_tokens": 700, "seed": turn, **changes}
            streamed = turn % 2 == 0
            reply = self.post(
                {**body, "stream": streamed, "stream_options": {"include_usage": True}} if streamed else body
            )
            message = folded(reply) if streamed else json.loads(reply)["choices"][0]["message"]
            messages.append(
                {k: v for k, v in message.items() if k in ("role", "content", "tool_calls") and v is not None}
            )
            calls = messages[-1].get("tool_calls") or ()
            results = [{"role": "tool", "tool_call_id": call["id"], "content": f"result {turn}"} for call in calls]
            messages += results or [{"role": "user", "content": f"go on, {turn}"}]
        return messages

    def stop(self, number: signal.Signals = signal.SIGINT) -> Command:
        """End the proxy and return the command."""
        self.command.signal(number)
        return self.command.wait()


Proxied = Callable[..., Through]


def folded(stream: bytes) -> dict[str, Any]:
    """Return the message that a stream amounts to."""
    content, calls = "", {}
    for line in stream.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            content += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(
                    piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = piece.get("id") or call["id"]
                call["function"]["name"] += piece["function"].get("name") or ""
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls.values())} if calls else message


@pytest.fixture
def proxied(begin: Soak) -> Callable[..., Through]:
    """Begin `soak proxy` on a free port."""

    def start(target: str, run: str = "run", *more: object, **options: Any) -> Through:
        order = ("proxy", "--target", target, "--port", 0, "--run", run, "--log-json", *JUDGED, *more)
        return Through(begin(*order, **options))

    return start


def test_a_proxied_run_is_a_run_like_any(soak: Soak, fake: Fakes, proxied: Proxied, tmp_path: Path) -> None:
    """`check`, `show` and `report` work on what the proxy kept; the engine's counters are in it, no key is."""
    proxy = proxied(fake("--rates", "none", "--speculation", "on").url, "run", "--json")
    proxy.converse("mend the parser", 3)
    proxy.converse("write a test", 2)
    assert proxy.post({}, "/v1/embeddings") == b'{"detail": "Not Found"}'
    done = proxy.stop()
    summary = done.json
    assert (done.code, summary["verdict"], summary["state"], summary["scenario"]) == (0, "pass", "complete", "proxy")
    assert summary["plan"]["episodes"] == 2
    arm = summary["arms"]["candidate"]
    assert (arm["turns"]["finished"], arm["turns"]["ok"], arm["turns"]["planned"]) == (5, 5, 5)
    assert arm["valid"] and arm["speculation"]["drafts"] > 0 and arm["prefix_cache"]["hit_rate"] > 0
    assert arm["ttft_ms"]["p50"] > 0
    assert any("1 exchange was passed on and not judged (1 POST embeddings)" in reason for reason in summary["reasons"])
    assert soak("check", "run", "--json").json["arms"]["candidate"]["turns"] == arm["turns"]
    assert len(set(re.findall(r"chat-[0-9a-f]{12}:\d:0:candidate", soak("show", "run", "--class", "ok").out))) == 5
    report = soak("report", "run", "--html", "page.html")
    assert report.code == 0, report.err
    assert not holds_bytes(tmp_path, KEY.encode())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["scenario"]["replay"] == "proxy"
    assert "cannot be resumed" in soak("resume", "run").err


def test_the_recording_replays_the_same_requests(soak: Soak, fake: Fakes, proxied: Proxied, tmp_path: Path) -> None:
    """What was recorded through the proxy is sent again by `soak run`, message for message and tool for tool."""
    server = fake("--rates", "none")
    with recorder(server.url) as (url, bodies):
        proxy = proxied(url, "run", "--record", "mine")
        proxy.converse("mend the parser", 5, tools=TOOLS)
        proxy.converse("no tools here", 3)
        assert proxy.stop().code == 0
        asked, bodies[:] = list(bodies), []
        settings = ("--set", "corpus=mine", "--set", "warm_up_turns=0", "--passes", 1)
        done = soak("run", "--scenario", "smoke", "--target", url, "--run", "again", *settings)
        assert "again" in done.err, done.err
        replayed = [body for body in bodies if body.get("stream") and len(body["messages"]) > 1]
    assert soak("corpus", "check", "mine").code == 0
    assert len(asked) == 8
    assert sorted(map(question, replayed)) == sorted(map(question, asked))


def question(body: dict[str, Any]) -> str:
    """Return what a request asks, with its fields in one order."""
    return json.dumps({name: body.get(name) for name in ("messages", "tools")}, sort_keys=True)


@contextmanager
def recorder(target: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Stand before a server and keep the body of every chat request."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass(None)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/chat/completions"):
                bodies.append(json.loads(data))
            self._pass(data)

        def _pass(self, data: bytes | None) -> None:
            request = urllib.request.Request(target + self.path, data, {"content-type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    status, kind, body = answer.status, answer.headers["content-type"], answer.read()
            except urllib.error.HTTPError as error:
                status, kind, body = error.code, "application/json", error.read()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        server.shutdown()
        server.server_close()


def test_a_killed_proxy_leaves_a_run_that_can_be_recorded(
    soak: Soak, fake: Fakes, proxied: Proxied, tmp_path: Path
) -> None:
    """After SIGKILL with a turn in flight the run is readable and says so, and its recording can be written later."""
    proxy = proxied(fake("--rates", "none", "--gap-s", 0.05).url, "run", "--record", "mine")
    proxy.converse("mend it", 1, max_tokens=4)
    with ThreadPoolExecutor() as pool:
        pending = pool.submit(
            proxy.post, {"model": "fake-model", "messages": [{"role": "user", "content": "x"}], "stream": True}
        )
        wait_until(lambda: starts(tmp_path / "run") == 2, what="the second start")
        wait_until(lambda: finished(tmp_path / "run") == 1, what="the first end")
        proxy.command.signal(signal.SIGKILL)
        proxy.command.wait()
        with pytest.raises(Exception):  # noqa: B017 - whatever the client calls a connection that breaks
            pending.result(30)
    checked = soak("check", "run", "--json")
    assert (checked.code, checked.json["state"]) == (3, "running")
    assert checked.json["arms"]["candidate"]["turns"]["finished"] == 1
    assert not (tmp_path / "mine").exists()
    finish = soak("proxy", "--finish", "run", "--record", "mine")
    assert finish.code == 0, finish.err
    assert "2 conversations, 2 turns, 1 without an answer" in finish.err
    assert soak("corpus", "check", "mine").code == 0


def starts(run: Path) -> int:
    """Return how many starts are on disk."""
    with closing(sqlite3.connect(f"{(run / 'history.sqlite').as_uri()}?mode=ro", uri=True)) as history:
        return int(history.execute("SELECT count(*) FROM starts").fetchone()[0])


def finished(run: Path) -> int:
    """Return how many ends are on disk."""
    with closing(sqlite3.connect(f"{(run / 'history.sqlite').as_uri()}?mode=ro", uri=True)) as history:
        return int(history.execute("SELECT count(*) FROM ends").fetchone()[0])


def test_it_drains(fake: Fakes, proxied: Proxied) -> None:
    """SIGTERM lets the answer in flight come to its end, takes no new one, and ends with the verdict's code."""
    server = fake("--rates", "none", "--gap-s", 0.02)
    proxy = proxied(server.url)
    with ThreadPoolExecutor() as pool:
        pending = pool.submit(proxy.post, SHORT)
        wait_until(lambda: server.state()["running"] == 1, what="the request in flight")
        proxy.command.signal(signal.SIGTERM)
        proxy.command.said("no new requests")
        assert pending.result(60).endswith(b"data: [DONE]\n\n")
    assert proxy.command.wait().code == 3  # one turn is no evidence
    with pytest.raises(urllib.error.URLError):
        proxy.post(SHORT)


def test_a_second_signal_stops_at_once(fake: Fakes, proxied: Proxied, tmp_path: Path) -> None:
    """The second signal breaks off what is in flight: the server is hung up on and the turn is indeterminate."""
    server = fake("--rates", "silent_middle=1")
    proxy = proxied(server.url, "run", "--json")
    with ThreadPoolExecutor() as pool:
        pending = pool.submit(proxy.post, {**SHORT, "seed": 1})
        wait_until(lambda: server.state()["running"] == 1, what="the request in flight")
        proxy.command.signal(signal.SIGINT)
        proxy.command.said("no new requests")
        done = proxy.stop()
        assert pending.exception(30) is not None
    turns = done.json["arms"]["candidate"]["turns"]
    assert (turns["indeterminate"], turns["finished"]) == (1, 0)
    wait_until(lambda: server.state()["hung_up"] == 1, what="the hang-up")


def test_a_full_disk_stops_the_recording_and_not_the_traffic(fake: Fakes, proxied: Proxied) -> None:
    """Where the history can no longer be written, answers go on passing, it is said loudly, and the exit code is 7."""
    proxy = proxied(fake("--rates", "none").url, "run", limits={"RLIMIT_FSIZE": 1_500_000})
    text = "line of a long prompt that fills the disk " * 4000
    for turn in range(14):
        body = {"model": "fake-model", "messages": [{"role": "user", "content": f"{turn} {text}"}], "max_tokens": 20}
        assert b'"choices"' in proxy.post(body)
    proxy.command.said("NOT RECORDING ANY MORE")
    done = proxy.stop()
    assert done.code == 7
    assert "not all that passed was recorded" in done.err


def test_modes_are_not_mixed(soak: Soak, fake: Fakes, proxied: Proxied) -> None:
    """A proxied run compared with a replay is unknown and says why; two proxied runs of equal requests are paired."""
    server = fake("--rates", "none")
    for run in ("a", "b"):
        proxy = proxied(server.url, run)
        for task in ("one", "two"):
            proxy.converse(task, 3)
        proxy.stop()
    soak("run", "--scenario", "smoke", "--target", server.url, "--run", "replay")
    mixed = soak("compare", "replay", "a", "--json")
    assert (mixed.code, mixed.json["verdict"]) == (3, "unknown")
    assert any("different modes of replay: recorded and proxy" in why for why in mixed.json["invalid"])
    same = soak("compare", "a", "b", "--json")
    assert (same.json["pairs"], same.json["invalid"]) == (6, [])


def test_what_cannot_be_begun_is_refused_in_words(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """No target, a target that is away, a port that is taken, a folder in use: three lines and the contract's code."""
    server = fake("--rates", "none")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file.txt").write_text("mine")
    cases = [
        ((), 2, "no server to pass traffic on to"),
        (("--target", "http://127.0.0.1:1", "--port", 0), 5, "cannot reach"),
        (("--target", server.url, "--port", server.port), 2, "cannot listen on"),
        (("--target", server.url, "--listen", "nonsense"), 2, "cannot be read"),
        (("--target", server.url, "--port", 0, "--record", "used"), 4, "in use"),
        (("--target", server.url, "--port", 0, "--run", "used"), 7, "cannot make a new run"),
        (("--target", server.url, "--port", 0, "--pass-if", "zzz < 1"), 2, "threshold"),
        (("--finish", "used", "--record", "x"), 7, "not a run folder"),
    ]
    for more, code, words in cases:
        done = soak("proxy", *more)
        assert (done.code, words in " ".join(done.error_lines())) == (code, True), done.err
