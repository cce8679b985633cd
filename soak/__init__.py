"""`soak` replays long agent conversations against LLM inference servers, judges every turn and compares builds."""

__version__ = "0.1.0"
