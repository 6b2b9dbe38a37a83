"""`python -m treefold.cli` is `treefold`."""

from treefold.cli.app import main

main()
