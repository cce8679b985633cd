"""
Scripts that run inside a build's own virtual environment, with its Python and packages; never imported by soak.

Each is started as `python -I FILE arguments`, needs nothing of soak, and imports the engine's packages by name at run
time, since they do not exist where soak is checked.
"""
