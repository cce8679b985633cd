"""
The recorder: makes the corpora under `transcripts/` by really working, and rebuilds them byte for byte.

A corpus is recorded from two kinds of source kept here: `repositories/NAME/` (a small repository written for the
purpose: `tree/` is its last state, with several real defects, and `history.toml` tells how its commits are made) and
`episodes/CORPUS/*.episode` (what the agent says and which tools it calls; see `ops.recorder.script`). The commands are
executed in a fresh copy of the repository and their real outputs become the tool results. What would differ from one
machine or run to the next (paths, durations, addresses) is replaced; see `ops.recorder.sandbox`.

    python -m ops.recorder rebuild                  record again, compare with transcripts/, say what differs
    python -m ops.recorder rebuild --write          record again and replace transcripts/
    python -m ops.recorder tasks [--write]          the same for the tasks made of the episodes (scenarios/tasks/)

May touch: processes it starts itself, `/tmp/soak-recorder`, and with `--write` the folders `transcripts/` and
`scenarios/tasks/`.
"""
