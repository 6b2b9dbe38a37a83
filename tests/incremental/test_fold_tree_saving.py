"""A saved tree resumes from its file, and refuses files that are not its own."""

import pytest
import torch
from trees import normal

from treefold.algebra import Mean, Sum, map_state
from treefold.checkpoints import DamagedCheckpoint
from treefold.fold import Groups
from treefold.incremental import FoldTree
from treefold.incremental.saving import load_set
from treefold.operators import BinaryGRU


class TestSaving:
    def changed_tree(self):
        torch.manual_seed(0)
        tree = FoldTree(BinaryGRU(3), torch.randn(20, 3), Groups.from_sizes([9, 0, 11]))
        tree.remove([3, 12])
        tree.insert(torch.randn(2, 3), [1, 1])
        return tree

    def test_what_is_loaded_goes_on_as_what_was_saved(self, tmp_path):
        tree = self.changed_tree()
        tree.save(tmp_path / "tree")
        again = FoldTree.load(tmp_path / "tree", tree.op)
        assert again.value().equal(tree.value())
        assert again.handles().equal(tree.handles())
        row = torch.randn(1, 3)
        for each in (tree, again):
            with pytest.raises(ValueError, match="name no element"):
                each.remove(3)
            each.replace(5, row)
            each.insert(row, 0)
        assert again.value().equal(tree.value())

    def test_states_may_be_tuples(self, tmp_path):
        op = Mean()
        tree = FoldTree(op, op.encode(normal(7, 2)))
        tree.save(tmp_path)
        loaded = FoldTree.load(tmp_path, op).value()
        map_state(lambda a, b: torch.testing.assert_close(a, b) or a, loaded, tree.value())

    def test_another_operator_is_refused(self, tmp_path):
        self.changed_tree().save(tmp_path)
        with pytest.raises(ValueError, match="another operator"):
            FoldTree.load(tmp_path, BinaryGRU(3))

    def test_a_changed_byte_is_noticed(self, tmp_path):
        tree = self.changed_tree()
        tree.save(tmp_path)
        (path,) = tmp_path.glob("*.safetensors")
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        with pytest.raises(DamagedCheckpoint, match="SHA-256"):
            FoldTree.load(tmp_path, tree.op)

    def test_it_is_loaded_to_the_device_that_is_named(self, tmp_path):
        tree = self.changed_tree()
        tree.save(tmp_path)
        loaded = load_set(tmp_path, "fold-tree", [tree.op], "meta")
        assert {tensor.device.type for tensor in loaded.tensors.values()} == {"meta"}
        assert FoldTree.load(tmp_path, tree.op, device="cpu").value().equal(tree.value())

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
    def test_it_goes_on_beside_its_operator(self, tmp_path):
        tree = self.changed_tree()
        tree.save(tmp_path)
        again = FoldTree.load(tmp_path, tree.op.cuda())
        again.insert(torch.randn(1, 3, device="cuda"))
        assert again.value().is_cuda

    def test_an_empty_folder_is_no_tree(self, tmp_path):
        with pytest.raises(ValueError, match="holds no saved fold-tree"):
            FoldTree.load(tmp_path, Sum())
