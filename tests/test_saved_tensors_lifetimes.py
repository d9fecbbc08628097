"""How long what nodes save lives, with hooks around it and copies made for writes."""

import gc
import weakref

import rushlight as torch
from rushlight.autograd.graph import allow_mutation_on_saved_tensors, saved_tensors_hooks
from support import leaf


class TestLifetimes:
    def probed(self, t):
        class Probe:
            pass

        t.probe = Probe()
        return weakref.ref(t.probe)

    def test_an_identity_pair_leaks_nothing(self):
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            y = leaf([1.0]).exp()
        alive = self.probed(y)
        del y
        gc.collect()
        assert alive() is None

    def test_packed_values_go_with_the_graph(self):
        class Box:
            def __init__(self, value):
                self.value = value

        boxes = []

        def pack(t):
            box = Box(t.detach())
            boxes.append(weakref.ref(box))
            return box

        x = leaf([1.0])
        with saved_tensors_hooks(pack, lambda box: box.value):
            y = x.exp()
            z = x.sin()
        y.sum().backward()
        gc.collect()
        assert [b() is None for b in boxes] == [True, False]
        del z
        gc.collect()
        assert boxes[1]() is None

    def test_shared_contents_go_with_the_tensor(self):
        hooks = saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t, share=True)
        with hooks:
            h = leaf([1.0]) + 1
            y = h * h
        alive = self.probed(h)
        del y, h
        gc.collect()
        assert alive() is None

    def test_copies_made_for_a_write_go_with_the_graph(self):
        gc.collect()
        before = torch.memory_stats()["allocated_bytes"]
        x = torch.ones(1 << 18, requires_grad=True)
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = (t * t).sum()
            t.zero_()
            y.backward()
        del x, t, y
        gc.collect()
        assert torch.memory_stats()["allocated_bytes"] <= before + (1 << 16)
