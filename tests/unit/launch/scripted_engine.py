"""
A server to be started in tests: `scripted_engine.py MODE PORT [FLAGS]`.

serve: answers 200 to everything · family: the same, with a child in its group and a grandchild that left the group,
both deaf to SIGTERM; their pids are the answer · die: says why on standard error and exits with 3 · killed: kills
itself with SIGKILL · silent: never answers · misfit: dies of an ImportError
"""

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"


def deaf(*, leaves: bool) -> "subprocess.Popen[bytes]":
    """Start a process that ignores SIGTERM and wait until it does."""
    process = subprocess.Popen([sys.executable, "-c", DEAF], start_new_session=leaves, stdout=subprocess.PIPE)
    process.stdout.read(1)
    return process


class Answer(BaseHTTPRequestHandler):
    family: tuple[int, ...] = ()

    def do_GET(self) -> None:
        body = json.dumps({"pids": self.family, "environment": dict(os.environ), "arguments": sys.argv[1:]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(mode: str, port: int) -> None:
    sys.stderr.write(f"scripted engine, {mode}, \x1b[31mport {port}\x1b[0m\n")
    if mode == "die":
        sys.stderr.write("no luck today\n")
        sys.exit(3)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "misfit":
        import a_module_that_is_not_there  # noqa: F401
    if mode == "silent":
        signal.pause()
    if mode == "family":
        Answer.family = (os.getpid(), *(deaf(leaves=leaves).pid for leaves in (False, True)))
    ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
