"""The entry point: names the extra to install where the command line's packages are missing."""


def main() -> None:
    """Run the command line."""
    try:
        from treefold.lab.cli.app import app
        from treefold.lab.cli.errors import stop_printing
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        raise SystemExit(
            f"treefold: the command line needs {error.name}; pip install 'treefold[train,report]'"
        ) from None
    try:
        app()
    except BrokenPipeError:  # the reader, such as `head`, is gone
        stop_printing()
        raise SystemExit(1) from None
