"""SMILES become what the official files hold; what cannot is listed with its line."""

import csv
import gzip
import io
import json

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")

from torch_geometric import datasets

from treefold.lab.tasks import ZINC
from treefold.lab.tasks.realworld.build_zinc import build_zinc
from treefold.lab.tasks.realworld.molecules import ATOMS, Chem, excess_ring_length, read_molecule

OFFICIAL = {
    "full train[0]": (
        r"CCCCCCC1=NN2C(=N)/C(=C\c3cc(C)n(-c4ccc(C)cc4C)c3C)C(=O)N=C2S1",
        *(3.0464, 33, 72),
    ),
    "full val[0]": ("CCN(Cc1ccc(OC)c(OC)c1)C(=O)c1ccsc1", 2.0992, 21, 44),
    "full test[0]": ("CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1", 3.1382, 24, 52),
    "subset test[0]": ("Clc1ccc(CNc2ncccc2Cl)cn1", 1.9973, 16, 34),
}


@pytest.fixture
def table(few):
    return few / "molecules.csv"


def rows(table):
    with table.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", OFFICIAL)
def test_published_molecules_have_their_published_size_and_target(name):
    smiles, target, atoms, edges = OFFICIAL[name]
    molecule = read_molecule(smiles)
    assert molecule.target == pytest.approx(target, abs=2e-4)
    assert len(molecule.atoms) == atoms
    assert int((molecule.bonds > 0).sum()) == edges
    assert (molecule.bonds == molecule.bonds.T).all()


def test_atoms_are_named_by_element_hydrogens_and_charge_in_the_order_of_the_kekulised_smiles():
    molecule = read_molecule("[NH3+]CC#N")
    assert Chem.CanonSmiles("[NH3+]CC#N") == "N#CC[NH3+]"
    assert [ATOMS[place] for place in molecule.atoms] == ["N", "C", "C", "N H3 +"]
    assert molecule.bonds.tolist() == [[0, 3, 0, 0], [3, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    aromatic = read_molecule("c1cc[nH]c1")  # in kekulised form the nitrogen needs no bracket
    assert sorted(ATOMS[place] for place in aromatic.atoms) == ["C", "C", "C", "C", "N"]
    assert sorted(aromatic.bonds[np.triu_indices(5)].tolist())[-5:] == [1, 1, 1, 2, 2]


def test_the_cycle_term_is_the_excess_length_of_the_longest_ring():
    for smiles, excess in (("CCO", 0), ("C1CCCCC1", 0), ("C1CCCCCCC1", 2), ("C1CC1C1CCCCCC1", 1)):
        assert excess_ring_length(Chem.MolFromSmiles(smiles)) == excess


def test_targets_are_those_of_the_benchmark_s_molecules(table):
    for row in rows(table):
        assert read_molecule(row["smiles"]).target == pytest.approx(float(row["y"]), abs=2e-4)


def test_what_is_built_is_what_the_official_files_have(table, few, tmp_path):
    built = build_zinc(table, tmp_path)
    assert built.sizes == {"train": 5, "val": 3, "test": 3}
    assert built.left_out == ()
    for split in ("val", "test"):
        own = ZINC().split(split, tmp_path).take(torch.tensor([0, 1]))
        theirs = ZINC(subset=False).split(split, few).take(torch.tensor([0, 1]))
        assert own.x.equal(theirs.x)
        assert own.edge_index.equal(theirs.edge_index)
        assert own.edge_attr.equal(theirs.edge_attr)
        torch.testing.assert_close(own.y, theirs.y, atol=2e-4, rtol=0)
    about = json.loads((tmp_path / "ZINC" / "built.json").read_text())
    assert about == {"from": "molecules.csv", "graphs": built.sizes, "left_out": 0}


def test_pyg_reads_what_is_built(table, tmp_path):
    build_zinc(table, tmp_path)
    theirs = datasets.ZINC(str(tmp_path / "ZINC"), subset=True, split="test")
    assert [graph.num_nodes for graph in theirs] == [16, 23, 23]
    assert theirs[0].y.item() == pytest.approx(1.9973, abs=2e-4)


BAD = """smiles,name
CCO,fine
C1CC,ring left open
,nothing
[Na+].[Cl-],salt
CC(C)C,fine
c1cccc1,cannot be kekulised
CCN,fine
C$C,four bonds
"""


def test_bad_lines_are_left_out_with_their_lines_and_counted(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(BAD)
    seen = []
    built = build_zinc(path, tmp_path / "out", lambda done, total: seen.append((done, total)))
    assert seen == [(number, 8) for number in range(1, 9)]
    assert built.sizes == {"train": 1, "val": 1, "test": 1}
    assert [entry.place for entry in built.left_out] == [
        f"mine.csv, line {line}" for line in (3, 4, 5, 7, 9)
    ]
    problems = [entry.problem for entry in built.left_out]
    assert "no SMILES that RDKit can read" in problems[0]
    assert "has no SMILES" in problems[1]
    assert "an atom Cl -, which is not one of the 28" in problems[2]
    assert "bond of type QUADRUPLE" in problems[4]
    text = (tmp_path / "out" / "ZINC" / "left_out.csv").read_text()
    listed = list(csv.DictReader(text.splitlines()))
    assert [entry["content"] for entry in listed] == ["C1CC", "", "[Na+].[Cl-]", "c1cccc1", "C$C"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"molecule\nCCO\n", "has the columns molecule; expected one called smiles"),
        (b"", "has the columns none"),
        (b"smiles\n", "no lines below its head"),
        (b"smiles\nC1CC\n", "none of 1 molecules can be used; the first: mine.csv, line 2"),
        (b"smiles\nCCO\n", "1 usable examples cannot be split"),
        (b"smiles,split\nCCO,train\nCCN,val\n", "no usable example is in the split test"),
        (b"smiles\n\xff\xfe\n", "cannot be used: .utf-8. codec"),
    ],
)
def test_a_table_that_gives_no_data_set_is_refused_and_nothing_is_written(
    content, message, tmp_path
):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        build_zinc(path, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not [file for file in (tmp_path / "out").rglob("*") if file.is_file()]


def test_an_unknown_split_is_left_out_and_other_columns_do_not_matter(tmp_path):
    path = tmp_path / "mine.csv.gz"
    text = "Split,SMILES,y\ntrain,CCO,1\nval,CCN,2\ntest,CCC,3\nvalid,CCCC,4\n"
    path.write_bytes(gzip.compress(text.encode()))
    built = build_zinc(path, tmp_path / "out")
    assert built.sizes == {"train": 1, "val": 1, "test": 1}
    assert "the split 'valid'; expected train, val or test" in str(built.left_out[0])
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(ValueError, match="cannot be used"):
        build_zinc(path, tmp_path / "other")


def test_a_folder_that_is_there_is_not_touched(table, tmp_path):
    (tmp_path / "ZINC").mkdir()
    (tmp_path / "ZINC" / "mine").write_text("precious")
    with pytest.raises(ValueError, match="is there already; give another --out"):
        build_zinc(table, tmp_path)
    assert [path.name for path in (tmp_path / "ZINC").iterdir()] == ["mine"]


def test_a_sample_of_the_whole_benchmark_is_built_alike(packed):
    with gzip.open(packed / "ZINC" / "molecules.csv.gz", "rt") as file:
        listed = list(csv.DictReader(io.StringIO(file.read())))
    arrays = np.load(packed / "ZINC" / "zinc12k.npz")
    for split in ("train", "val", "test"):
        of_split = [row for row in listed if row["split"] == split]
        ends = np.cumsum(arrays[f"{split}_n_atom"].astype(int))
        for number in range(7, len(of_split), len(of_split) // 40):
            molecule = read_molecule(of_split[number]["smiles"])
            assert molecule.atoms.tolist() == (
                arrays[f"{split}_atom"][ends[number - 1] : ends[number]].tolist()
            )
            expected = float(arrays[f"{split}_y"][number])
            assert molecule.target == pytest.approx(expected, abs=2e-4)
