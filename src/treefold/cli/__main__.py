"""`python -m treefold.cli` is `treefold`."""

from treefold.cli.entry import main

main()
