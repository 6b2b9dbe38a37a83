"""`python -m treefold.lab.cli` is `treefold`."""

from treefold.lab.cli.entry import main

main()
