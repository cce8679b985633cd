"""
What tests of whole runs share: the engine with a clock that jumps (`replaying`), and the program as processes (`cli`).

Nothing here stands in for soak's own code: servers are real HTTP servers, stores are real folders, processes are real.
"""
