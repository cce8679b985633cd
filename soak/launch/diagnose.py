"""Why a process of ours died, read from its exit code and its last lines."""

import re
import signal
from typing import Literal

import msgspec

Kind = Literal["memory", "disk", "port", "packages", "machine", "model", "flags", "network", "unknown"]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of trouble, why in one sentence, and what to do."""

    kind: Kind
    why: str
    hint: str


# First match wins, so causes come before their consequences (a lack of memory also ends in an ImportError).
_SIGNS: tuple[tuple[Kind, str, str, str], ...] = (
    (
        "disk",
        r"No space left on device|Disk quota exceeded|Errno 28\b|Errno 122\b",
        "the disk is full",
        "free some space, or set XDG_CACHE_HOME to a folder on a larger disk; the build is repaired on the next call",
    ),
    (
        "memory",
        r"MemoryError|Cannot allocate memory|can't allocate memory|DefaultCPUAllocator|[Oo]ut of memory|"
        r"is less than (desired CPU memory utilization|requested memory)|OutOfMemoryError|bad_alloc",
        "out of memory",
        "stop other programs, or give the server less: --kv-cache-memory-bytes, --max-model-len",
    ),
    (
        "port",
        r"[Aa]ddress already in use|Errno 98\b|Errno 48\b",
        "its port is in use",
        "give another port, or none to have a free one found",
    ),
    (
        "packages",
        r"ModuleNotFoundError|ImportError|PackageNotFoundError|operator \S+ does not exist|undefined symbol|"
        r"cannot open shared object file|No module named",
        "its packages do not fit together",
        "run it again: the environment is made anew",
    ),
    (
        "network",
        r"Temporary failure in name resolution|Failed to establish a new connection|Connection refused|"
        r"Read timed out|Could not fetch URL|No matching distribution found|error sending request",
        "a package could not be fetched",
        "check the network and pip's index settings (pip config list), then run it again",
    ),
    (
        "flags",
        r"unrecognized arguments|error: argument |ValidationError|the following arguments are required",
        "the engine does not accept its flags",
        "look at the flags given beyond the build's own",
    ),
    (
        "model",
        r"does not appear to have a file named|is not a valid model identifier|Can't load the (model|configuration|"
        r"tokenizer)|are not supported for now|SafetensorError|Invalid repository ID|HFValidationError",
        "the model cannot be loaded",
        "run it again: the model is checked and made anew if it is damaged",
    ),
)  # fmt: skip

_SIGNALS: dict[int, tuple[Kind, str, str]] = {
    signal.SIGKILL: (
        "memory",
        "killed by signal 9 (SIGKILL), as the system does when memory runs out",
        "look at free memory (and dmesg); stop other programs or give the server less memory",
    ),
    signal.SIGILL: (
        "machine",
        "killed by signal 4 (SIGILL): this processor lacks instructions the engine was compiled for",
        "use a machine with AVX2 (better AVX-512), or --target with a server elsewhere",
    ),
}


_IN_FRONT = "let the command stay in the foreground: what it leaves behind when it ends is ended with it (see the log)"


def diagnose(code: int | None, lines: tuple[str, ...]) -> Diagnosis:
    """
    Return what the exit code (negative: a signal's number; None: unknown) and the last log lines say.

    Lines that a log marks as information or a warning are no cause of death; what is quoted has no log head.
    """
    loud = tuple(_HEAD.sub("", line) for line in lines if not _QUIET.match(line))
    text = "\n".join(loud)
    for kind, pattern, why, hint in _SIGNS:
        found = re.search(pattern, text)
        if found:
            return Diagnosis(kind=kind, why=f"{why} ({_line_of(text, found.start())})", hint=hint)
    if code is not None and -code in _SIGNALS:
        kind, why, hint = _SIGNALS[-code]
        return Diagnosis(kind=kind, why=why, hint=hint)
    hint = _IN_FRONT if code == 0 else "read the log for the cause"
    return Diagnosis(kind="unknown", why=_plainly(code, lines, loud), hint=hint)


def _line_of(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0][:LINE_CHARS]


def _plainly(code: int | None, lines: tuple[str, ...], loud: tuple[str, ...]) -> str:
    end = "it went away" if code is None else f"it ended with exit code {code}"
    if code is not None and code < 0:
        end = f"it was killed by signal {-code}"
    if telling := _telling(lines, loud):
        return f"{end}: {telling[:LINE_CHARS]}"
    return f"{end}; its last line: {lines[-1][:LINE_CHARS]}" if lines else f"{end} without a word"


def _telling(lines: tuple[str, ...], loud: tuple[str, ...]) -> str | None:
    """Return the last line of a traceback, or else the last one logged as an error; causes before consequences."""
    raised = [line for line in loud if _RAISED.match(line)]
    logged = [_HEAD.sub("", line) for line in lines if _ERROR.match(line)]
    causes = [[line for line in found if not _CONSEQUENCE.search(line)] for found in (raised, logged)]
    return next((found[-1] for found in (*causes, raised, logged) if found), None)


LINE_CHARS = 200

# vLLM's log head, as in `(EngineCore pid=7) ERROR 11-30 18:00:00 [core.py:9] `.
_PROCESS = r"(\(\S+ pid=\d+\) )?"
_HEAD = re.compile(rf"^{_PROCESS}((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d: -]+\[[^\]]*\])? *")
_QUIET = re.compile(rf"^{_PROCESS}(DEBUG|INFO|WARNING)\b|^\S+:\d+: \w*Warning: ")
_ERROR = re.compile(rf"^{_PROCESS}(ERROR|CRITICAL)\b")
_RAISED = re.compile(r"^([\w.]+\.)?\w*(Error|Exception|Interrupt|Fault)(: |$)")
# What an engine says of a death that another of its lines explains.
_CONSEQUENCE = re.compile(r"EngineDeadError|root cause|Engine core initialization failed|^KeyboardInterrupt")
