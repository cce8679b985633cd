"""
`soak probe`, `soak repro`: one turn or a few, asked again, on servers in different states.

    cases.py     the turn that is meant, from a run or a turn file
    benches.py   servers, each in one state, opened one after the other; every answer kept in the probe's folder
    repeats.py   the plainest probe: the turn as it was, k times

May touch: everything below it, as `app`. Each further probe is a module beside these: what it will send at most
(`--plan`), and what it found, as values; decisions are made in `soak.probe`.
"""
