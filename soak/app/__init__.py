"""
One module per verb: wires the edges to the engine and returns values.

May touch: everything below it. It never prints, never exits and never parses a command line; what happens while it
works is told to an `Audience` (`audience.py`). Tests call these functions directly.

    run.py, resume.py    a run begins or goes on: what is asked for, its folder and manifest
    sides.py             its arms: servers started, targets asked; carding.py says what they really are
    order.py, course.py  which arms are up at a time, phase after phase
    sitting.py           one phase: arms, carrier and history wired to the engine; keeping.py restarts servers that die
    agent/               the carrier of `replay: agent`
    proxying.py          the same around live traffic, which nobody planned
    judging.py           a stored run, judged; comparing, showing and reporting start from it
"""
