"""
The door for people: parse, resolve, act, render.

The only room that prints, reads the environment (`SOAK_TARGET`, `SOAK_API_KEY`) and exits. Each command resolves its
flags, calls one function of `app`, and renders what it returns.
"""
