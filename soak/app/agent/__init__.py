"""
`replay: agent`: an agent no one here wrote works on tasks, its commands run shut away, hidden tests decide.

    carrier.py   one conversation of the run = one task on one arm        walls.py      where its commands run
    attempt.py   the agent at work, in a thread of its own                 verify.py     the hidden tests
    mini.py      mini-swe-agent: the only module that imports it           workshop.py   which of two ways a task goes
    For instances of SWE-bench: instances.py (their containers) and grading.py (their tests: the only door to swebench).
"""
