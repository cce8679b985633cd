"""
One module per verb: wires the edges to the engine and returns values.

May touch: everything below it. It never prints, never exits and never parses a command line; what happens while it
works is told to an `Audience` (`audience.py`). Tests call these functions directly.
"""
