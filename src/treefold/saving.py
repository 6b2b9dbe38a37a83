"""Models as folders: `config.json` and `model.safetensors`, the layout of the Hugging Face hub.

A configuration names a class and the arguments it was made with. Only classes of treefold and of
`torch.nn`, and those that a reader gives, are made from it; nothing is unpickled.
"""

import importlib
import inspect
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from torch import Tensor, nn

from treefold.atomic import write_atomically
from treefold.checkpoints import Damage, pack, unpack
from treefold.plain import decode, encode

CONFIG, WEIGHTS = "config.json", "model.safetensors"
RUN = "run"
"""Stands for the class in the configuration of a run, whose network its record describes."""
MADE_WITH = "_made_with"
"""The attribute in which a model keeps the arguments it was made with."""

_DOORS = ("operators", "aggr", "algebra", "finite")
_VERSION = 1

Model = TypeVar("Model", bound="Saved")
Config: TypeAlias = dict[str, Any]
Classes: TypeAlias = Sequence[type]


class Saved:
    """Gives a class of models `save_pretrained`, `from_pretrained` and `push_to_hub`."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """Remember the arguments, as plain data."""
        made = super().__new__(cls)
        made.__dict__[MADE_WITH] = _described_arguments(cls, arguments, options)
        return made

    def saved(self) -> tuple[Config, dict[str, Tensor]]:
        """The configuration and the tensors of which `restored` makes the same model."""
        return _described(self), cast(nn.Module, self).state_dict()

    @classmethod
    def restored(cls, config: Config, tensors: dict[str, Tensor], classes: Classes) -> Any:
        """The model that `saved` has described, ready to evaluate."""
        model = _built(config, (cls, *classes))
        model.load_state_dict(tensors, assign=True)
        return model.eval()

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the model to a folder; a ValueError if an argument of it cannot be written."""
        write_model(folder, *self.saved())

    def push_to_hub(self, repo: str, **options: Any) -> str:
        """Write the model to a repository of the Hugging Face hub; returns where it is."""
        return push(lambda folder: self.save_pretrained(folder), repo, **options)

    @classmethod
    def from_pretrained(
        cls: type[Model], name: Path | str, *, classes: Classes = (), **options: Any
    ) -> Model:
        """The model in a folder, or in a repository of the hub (`options`: revision, token, ...).

        `classes` are your own, where the model has parts that are not treefold's.
        """
        model = load(name, classes=(cls, *classes), **options)
        if not isinstance(model, cls):
            raise ValueError(f"{name} holds a {type(model).__name__}; expected a {cls.__name__}")
        return model


def load(name: Path | str, *, classes: Classes = (), **options: Any) -> Any:
    """The model in a folder or a repository of the hub, whatever its class is."""
    config, tensors = read_model(name, **options)
    if config["class"] == RUN:
        raise ValueError(f"{name} holds a run; use `treefold.lab.experiments.load_model`")
    kind = cast(type[Saved], _class_of(config["class"], classes))
    return kind.restored(config, tensors, classes)


def is_saved(folder: Path) -> bool:
    """True for a folder in which `save_pretrained` has written."""
    return (folder / CONFIG).is_file()


def write_model(folder: Path | str, config: Config, tensors: dict[str, Tensor]) -> None:
    """Write a configuration and tensors; the former has the SHA-256 of the latter."""
    folder = Path(folder)
    data, weights = pack(tensors)
    text = json.dumps(
        {"library_name": "treefold", "format": _VERSION, **encode(config), "weights": weights},
        indent=2,
        allow_nan=False,
    )
    if problem := _first_problem(config):
        raise ValueError(f"{problem}; expected plain data, or modules of treefold and torch.nn")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, data)
    write_atomically(folder / CONFIG, f"{text}\n".encode())


def read_config(folder: Path) -> Config:
    """The arguments of `write_model`, and a description of the tensors."""
    try:
        found = decode(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / CONFIG} cannot be read: {error}") from None
    if found.get("library_name") != "treefold" or found.get("format") != _VERSION:
        raise ValueError(
            f"{folder / CONFIG} is of {found.get('library_name')}, format {found.get('format')}; "
            f"expected a model that treefold has saved, format {_VERSION}"
        )
    return cast(Config, found)


def read_model(name: Path | str, **options: Any) -> tuple[Config, dict[str, Tensor]]:
    """The configuration and the tensors in a folder, or in a repository of the hub."""
    folder = Path(name) if Path(name).is_dir() else _downloaded(str(name), **options)
    config = read_config(folder)
    try:
        data = (folder / WEIGHTS).read_bytes()
        return config, unpack(WEIGHTS, data, config.pop("weights"))
    except (OSError, Damage) as error:
        raise ValueError(
            f"the model in {folder} is not whole: {error}; save it again, or restore it from a copy"
        ) from None


def push(save: Callable[[Path], None], repo: str, **options: Any) -> str:
    """Upload the folder that `save` writes to a repository, which is made if it is not there."""
    hub = _hub()
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder))
        api = hub.HfApi(token=options.pop("token", None))
        api.create_repo(repo, exist_ok=True, private=options.pop("private", None))
        return str(api.upload_folder(repo_id=repo, folder_path=folder, **options))


def _downloaded(repo: str, **options: Any) -> Path:
    if repo.count("/") > 1 or repo.startswith((".", "/")):
        raise ValueError(f"{repo} is no folder; give the one that `save_pretrained` was given")
    hub = _hub()
    try:
        return Path(hub.snapshot_download(repo, allow_patterns=[CONFIG, WEIGHTS], **options))
    except (OSError, ValueError) as error:
        raise ValueError(f"{repo} is no folder here, and not found on the hub: {error}") from error


def _hub() -> Any:
    try:
        import huggingface_hub  # noqa: PLC0415 (optional)
    except ImportError:
        raise ValueError("the hub needs huggingface_hub: pip install 'treefold[hub]'") from None
    return huggingface_hub


def _described_arguments(cls: type, arguments: Any, options: Any) -> Config:
    """The arguments by name; what does not fit is left to `__init__` to refuse."""
    try:
        bound = inspect.signature(cls).bind(*arguments, **options)
    except TypeError:
        return {}
    return {name: _described(value) for name, value in bound.arguments.items()}


def _described(value: Any) -> Any:
    """A value as plain data: a model, a module or a dataclass as its class and arguments."""
    if isinstance(value, dict):
        return {str(key): _described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_described(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value)
    if isinstance(value, Saved):
        arguments = value.__dict__[MADE_WITH]
    elif kind.__module__.startswith("torch.nn."):
        arguments = _arguments_of_torch(value)
    elif is_dataclass(kind) and kind.__module__.startswith("treefold."):
        arguments = {each.name: _described(getattr(value, each.name)) for each in fields(kind)}
    else:
        return {"unknown": f"{kind.__module__}.{kind.__qualname__}"}
    name = f"torch.nn.{kind.__name__}" if kind.__module__.startswith("torch.") else kind.__name__
    return {"class": name, "arguments": arguments}


def _arguments_of_torch(module: nn.Module) -> Config:
    """The arguments of a module of torch, which keeps them as attributes of the same names."""
    if isinstance(module, nn.Sequential):
        return {"args": [_described(each) for each in module.children()]}
    found = {}
    for name in inspect.signature(type(module)).parameters:
        if hasattr(module, name) and name not in ("device", "dtype"):
            value = getattr(module, name)
            is_weight = name == "bias" and not isinstance(value, bool)
            found[name] = value is not None if is_weight else _described(value)
    return found


def _first_problem(config: Any) -> str:
    """The first value that could not be described, or nothing."""
    values = config.items() if isinstance(config, dict) else enumerate(config)
    for name, value in values:
        if isinstance(value, dict) and set(value) == {"unknown"}:
            return f"{name} is a {value['unknown']}, which cannot be saved"
        if isinstance(value, dict | list) and (found := _first_problem(value)):
            return found
    return ""


def _built(described: Any, classes: Classes) -> Any:
    """The value that was described."""
    if isinstance(described, list):
        return [_built(each, classes) for each in described]
    if not isinstance(described, dict):
        return described
    if "class" not in described:
        return {key: _built(each, classes) for key, each in described.items()}
    kind = _class_of(described["class"], classes)
    bound = inspect.signature(kind).bind_partial()
    for name, value in described["arguments"].items():
        bound.arguments[name] = _built(value, classes)
    return kind(*bound.args, **bound.kwargs)


def _class_of(name: str, classes: Classes) -> type:
    """The class of that name: one that was given, of treefold, or of torch.nn."""
    for kind in classes:
        if kind.__name__ == name:
            return kind
    rooms = (importlib.import_module(f"treefold.{door}") for door in _DOORS)
    places = [nn] if name.startswith("torch.nn.") else rooms
    for place in places:
        found = getattr(place, name.removeprefix("torch.nn."), None)
        if isinstance(found, type) and (issubclass(found, nn.Module) or is_dataclass(found)):
            return found
    raise ValueError(
        f"{name} is no class of treefold; give your own: from_pretrained(name, classes=[{name}])"
    )
