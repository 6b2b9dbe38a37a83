"""Cut a handful of graphs out of whole data sets, in the same files: make.py WHOLE TARGET.

The numbers of val and test stay those of the benchmark, so that published values can be met.
"""

import gzip
import pickle
import sys
from pathlib import Path

import torch

ZINC_INDEX = {"train": [3, 0, 4], "val": [0, 2, 1], "test": [0, 1]}
MOLHIV_GRAPHS = slice(8, 15)  # all zeros but the fourth of them
MOLHIV = {"train": [3, 4, 6], "valid": [0], "test": [1, 5]}  # numbers in that slice
MOLHIV_FILES = {
    "num-node-list": "graph",
    "num-edge-list": "graph",
    "graph-label": "graph",
    "node-feat": "node",
    "edge-feat": "edge",
    "edge": "edge",
}
NUM_IMAGES = (2, 1, 1)


def zinc(whole: Path, target: Path) -> None:
    for split, index in ZINC_INDEX.items():
        molecules = pickle.loads((whole / f"{split}.pickle").read_bytes())[: max(index) + 1]
        (target / f"{split}.pickle").write_bytes(pickle.dumps(molecules, protocol=4))
        (target / f"{split}.index").write_text(",".join(map(str, index)) + "\n")


def molhiv(whole: Path, target: Path) -> None:
    rows = {"graph": MOLHIV_GRAPHS}
    for kind in ("node", "edge"):
        counts = list(map(int, _lines(whole / "raw" / f"num-{kind}-list.csv.gz")))
        before = sum(counts[: MOLHIV_GRAPHS.start])
        rows[kind] = slice(before, before + sum(counts[MOLHIV_GRAPHS]))
    for name, kind in MOLHIV_FILES.items():
        lines = _lines(whole / "raw" / f"{name}.csv.gz")
        _write(target / "raw" / f"{name}.csv.gz", lines[rows[kind]])
    for name, numbers in MOLHIV.items():
        _write(target / "split" / "scaffold" / f"{name}.csv.gz", map(str, numbers))


def superpixels(whole: Path, target: Path) -> None:
    lists = torch.load(whole, weights_only=True)
    cut = [graphs[:number] for graphs, number in zip(lists, NUM_IMAGES, strict=True)]
    torch.save([[_own(graph) for graph in graphs] for graphs in cut], target)


def _own(graph):
    return {name: tensor.clone() for name, tensor in graph.items()}


def _lines(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def _write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def main(whole: Path, target: Path) -> None:
    for name in ("ZINC", "MNIST", "CIFAR10"):
        (target / name / "raw").mkdir(parents=True, exist_ok=True)
    zinc(whole / "ZINC" / "raw", target / "ZINC" / "raw")
    molhiv(whole / "ogbg_molhiv", target / "ogbg_molhiv")
    for name in ("MNIST", "CIFAR10"):
        superpixels(*(root / name / "raw" / f"{name}_v2.pt" for root in (whole, target)))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
