"""Trained models that come with treefold, by name."""

from pathlib import Path

from treefold.names import by_name

_FOLDER = Path(__file__).parent.parent / "trained"
TRAINED = {f"trained/{each.name}": each for each in sorted(_FOLDER.iterdir()) if each.is_dir()}


def located(path: Path | str) -> Path:
    """The folder of a trained model, for a name such as trained/parity; else the path itself."""
    path = Path(path)
    if path.parent != Path("trained") or path.exists():
        return path
    return by_name(TRAINED, path.as_posix(), "trained model")
