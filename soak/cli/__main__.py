"""`python -m soak.cli` is the command `soak`."""

from soak.cli.main import main

main()
