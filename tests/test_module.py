"""Module as a native class: calls, attributes, garbage, subclasses, copies."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import rushlight as torch
from rushlight import nn


class Double(nn.Module):
    def forward(self, x, *, plus=0):
        return x * 2 + plus


def test_calls_of_every_form():
    m, x, options = Double(), torch.ones(1), {"plus": 1}
    assert m(x).item() == 2
    assert m(x, plus=3).item() == 5
    assert m.__call__(x, plus=3).item() == 5
    assert nn.Module.__call__(m, x).item() == 2
    assert next(map(m, [x])).item() == 2
    assert m(*(x,), **options).item() == 3
    assert m.forward(x).item() == 2


def test_forward_may_be_any_callable():
    class Static(nn.Module):
        @staticmethod
        def forward(x):
            return x + 1

    class Of(nn.Module):
        @classmethod
        def forward(cls, x):
            return cls, x

    class Given(nn.Module):
        forward = abs

    assert Static()(torch.ones(1)).item() == 2
    assert Of()(3) == (Of, 3)
    assert Given()(-3) == 3


def test_a_new_call_for_the_class():
    class M(Double):
        pass

    m = M()
    assert m(torch.ones(1)).item() == 2
    M.__call__ = lambda self, x: "own"
    assert m(torch.ones(1)) == "own"
    del M.__call__
    assert m(torch.ones(1)).item() == 2


def test_the_call_of_all_modules_can_be_wrapped():
    seen = []
    original = nn.Module.__call__

    def wrapped(self, *args, **kwargs):
        seen.append(type(self).__name__)
        return original(self, *args, **kwargs)

    nn.Module.__call__ = wrapped
    try:
        assert Double()(torch.ones(1), plus=1).item() == 3
    finally:
        del nn.Module.__call__
    assert seen == ["Double"]
    assert Double()(torch.ones(1)).item() == 2
    assert seen == ["Double"]


def test_getattr_added_to_a_class_later():
    class M(nn.Module):
        pass

    m = M()
    M.__getattr__ = lambda self, name: name.upper()
    assert m.anything == "ANYTHING"
    del M.__getattr__
    with pytest.raises(AttributeError):
        m.anything


def test_a_getattr_of_its_own_is_asked_before_members():
    class M(nn.Module):
        def __getattr__(self, name):
            return "own"

    m = M()
    m._parameters["p"] = nn.Parameter(torch.ones(1))
    assert m.p == "own"


def test_a_getattribute_of_its_own():
    class M(nn.Module):
        def __getattribute__(self, name):
            return 7 if name == "seven" else super().__getattribute__(name)

    m = M()
    m.p = nn.Parameter(torch.ones(1))
    assert m.seven == 7
    assert isinstance(m.p, nn.Parameter)


def test_properties_and_class_attributes_come_first():
    class M(nn.Module):
        fixed = 1

        @property
        def total(self):
            return self.p.sum()

        @total.setter
        def total(self, value):
            self.given = value

    m = M()
    m.p = nn.Parameter(torch.ones(2))
    m.total = 5
    assert m.total.item() == 2
    assert m.given == 5
    assert m.fixed == 1


def test_an_error_inside_a_property_is_told():
    class M(nn.Module):
        @property
        def broken(self):
            return self.missing_inside

    with pytest.raises(AttributeError, match="missing_inside"):
        M().broken


def test_a_missing_attribute_is_explained():
    layer = nn.Linear(1, 1)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wieght'") as error:
        layer.wieght
    assert error.value.name == "wieght"
    assert error.value.obj is layer


def test_hooks_appear_when_asked_for():
    m = Double()
    assert "_forward_hooks" not in m.__dict__
    assert m._forward_hooks == {}
    assert m._forward_hooks is m._forward_hooks
    assert m(torch.ones(1)).item() == 2
    m._forward_hooks[0] = lambda module, args, out: out + 1
    assert m(torch.ones(1)).item() == 3
    m._forward_hooks.clear()
    assert m(torch.ones(1)).item() == 2
    with pytest.raises(AttributeError):
        m._no_such_hooks


def test_hooks_are_copied_and_pickled():
    m = Double()
    m.register_forward_hook(add_one)
    for other in (copy.deepcopy(m), copy.copy(m), pickle.loads(pickle.dumps(m))):
        assert other(torch.ones(1)).item() == 3


def add_one(module, args, out):
    return out + 1


def test_every_pickle_protocol():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(model, protocol))
        assert torch.equal(loaded[0].weight, model[0].weight)


class Slotted(nn.Module):
    __slots__ = ("mark",)


def test_slots_survive_copies():
    m = Slotted()
    m.mark = 3
    m.weight = nn.Parameter(torch.ones(1))
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other.mark == 3
        assert other.weight.item() == 1


def test_cycles_are_collected():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Linear(1, 1)
            self.itself = [self]

    def made():
        m = Owner()
        m.register_forward_hook(lambda *_: m)
        return weakref.ref(m), weakref.ref(m.child), weakref.ref(m.child.weight)

    gone = made()
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_long_chains_are_freed():
    first = last = nn.Module()
    for _ in range(100_000):
        last.next = nn.Module()
        last = last.next
    del first, last


def test_a_module_may_be_freed_while_it_runs():
    class Suicidal(nn.Module):
        def forward(self, x):
            holder.clear()
            gc.collect()
            return self.__class__.__name__, x

    holder = [Suicidal()]
    assert holder[0](1) == ("Suicidal", 1)


def test_calls_from_many_threads():
    layer, results = nn.Linear(2, 2), []

    def work():
        for _ in range(200):
            results.append(layer(torch.ones(1, 2)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 800


def test_recursion_ends_in_an_error():
    class Loop(nn.Module):
        def forward(self, x):
            return self(x)

    with pytest.raises(RecursionError):
        Loop()(1)


def test_abstract_classes_and_kwargs_of_classes():
    import abc

    class Base(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Whole(Base):
        def forward(self, x):
            return x

    class Tagged(nn.Module):
        def __init_subclass__(cls, tag, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag

    class Sub(Tagged, tag="t"):
        pass

    with pytest.raises(TypeError):
        Base()
    assert Whole()(3) == 3
    assert Sub().tag == "t"
    assert Sub.tag == "t"


def test_dict_can_be_replaced():
    m = nn.Linear(1, 1)
    other = m.__new__(nn.Linear)
    other.__dict__ = m.__dict__
    assert other.weight is m.weight
    assert other(torch.ones(1, 1)).shape == (1, 1)


def test_import_does_not_load_the_modules():
    program = (
        "import sys, rushlight\n"
        "assert 'rushlight.nn.modules' not in sys.modules\n"
        "rushlight.nn.Linear\n"
        "from rushlight.nn import *\n"
        "assert Linear is rushlight.nn.Linear\n"
        "assert 'Conv2d' in dir(rushlight.nn)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_missing_module_is_told():
    with pytest.raises(AttributeError, match="no attribute 'Lineer'"):
        nn.Lineer


def test_conversion_errors():
    with pytest.raises((RuntimeError, AssertionError)):
        nn.Linear(1, 1).cuda()
    with pytest.raises(TypeError, match="invalid combination"):
        nn.Linear(1, 1).to([])


def test_empty_content_on_request():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    assert layer.to_empty(device="cpu").weight is weight
    assert weight.shape == (2, 2)


def test_a_prefix_that_explains_missing_keys():
    model = nn.Sequential(nn.Linear(1, 1))
    state = {f"module.{k}": v for k, v in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="Unexpected key") as error:
        model.load_state_dict(state)
    assert "strip 'module.'" in error.value.__notes__[0]


def test_loading_a_wrong_size_changes_nothing_else():
    layer = nn.Linear(2, 2)
    before = layer.bias.detach().clone()
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        layer.load_state_dict({"weight": torch.ones(3, 3), "bias": layer.bias.detach()})
    assert torch.equal(layer.bias, before)
    assert layer.weight.shape == (2, 2)


def test_classes_that_walk_over_their_parts_in_their_own_way():
    class Shy(nn.Linear):
        def named_modules(self, *args, **kwargs):
            return iter(())

    class Named(nn.Sequential):
        def named_parameters(self, *args, **kwargs):
            yield "only", self[0].bias

    shy, open_ = Shy(1, 1), nn.Linear(1, 1)
    seen = list(nn.Sequential(shy, open_).parameters())
    assert [id(p) for p in seen] == [id(open_.weight), id(open_.bias)]
    assert next(Named(open_).parameters()) is open_.bias
    both = nn.Sequential(open_, open_, nn.BatchNorm1d(1))
    assert len(list(both.parameters())) == 4
    assert len(list(both.parameters(recurse=False))) == 0
    assert len(list(both.buffers())) == 3


class TestProtocols:
    def test_signatures(self):
        import inspect

        assert str(inspect.signature(nn.Linear(1, 1))) == "(*args, **kwargs)"
        assert list(inspect.signature(nn.Linear).parameters)[:3] == [
            "in_features",
            "out_features",
            "bias",
        ]
        assert list(inspect.signature(nn.Linear(1, 1).forward).parameters) == ["input"]

    @pytest.mark.parametrize(
        "register",
        [
            lambda m: setattr(m, "k", nn.Parameter(torch.ones(1))),
            lambda m: setattr(m, "k", nn.Linear(1, 1)),
            lambda m: m.register_parameter("k", nn.Parameter(torch.ones(1))),
            lambda m: m.register_buffer("k", torch.ones(1)),
        ],
    )
    def test_a_property_that_is_not_there_yet_gives_way(self, register):
        class Late(nn.Module):
            @property
            def k(self):
                raise AttributeError("no k yet")

        module = Late()
        with pytest.raises(AttributeError, match="no k yet"):
            module.k
        register(module)
        assert module.k is next(
            d["k"] for d in (module._parameters, module._buffers, module._modules) if "k" in d
        )

    def test_a_property_with_a_value_does_not(self):
        class Taken(nn.Module):
            @property
            def k(self):
                return 3

        with pytest.raises(KeyError, match="already exists"):
            Taken().k = nn.Parameter(torch.ones(1))


LAZY = {
    nn.LazyLinear: ((3,), (2, 5)),
    nn.LazyConv1d: ((3, 2), (1, 2, 8)),
    nn.LazyConv2d: ((3, 2), (1, 2, 8, 8)),
    nn.LazyConv3d: ((3, 2), (1, 2, 4, 4, 4)),
    nn.LazyConvTranspose1d: ((3, 2), (1, 2, 8)),
    nn.LazyConvTranspose2d: ((3, 2), (1, 2, 8, 8)),
    nn.LazyConvTranspose3d: ((3, 2), (1, 2, 4, 4, 4)),
    nn.LazyBatchNorm1d: ((), (2, 3, 8)),
    nn.LazyBatchNorm2d: ((), (2, 3, 8, 8)),
    nn.LazyBatchNorm3d: ((), (2, 3, 4, 4, 4)),
    nn.LazyInstanceNorm1d: ((), (2, 3, 8)),
    nn.LazyInstanceNorm2d: ((), (2, 3, 8, 8)),
    nn.LazyInstanceNorm3d: ((), (2, 3, 4, 4, 4)),
}
BEFORE_THE_FIRST_CALL = {
    "double": lambda m: m.double(),
    "half": lambda m: m.half(),
    "bfloat16": lambda m: m.bfloat16(),
    "to dtype": lambda m: m.to(torch.float64),
    "to device and dtype": lambda m: m.to("cpu", torch.float64),
    "to tensor": lambda m: m.to(torch.ones(1, dtype=torch.float16)),
    "type": lambda m: m.type(torch.float64),
    "there and back": lambda m: m.double().float(),
    "in a container": lambda m: nn.Sequential(m).double()[0],
    "requires_grad_": lambda m: m.requires_grad_(False),
    "state_dict": lambda m: (m.load_state_dict(m.state_dict()), m)[1],
    "deepcopy": lambda m: copy.deepcopy(m.double()),
    "pickle": lambda m: pickle.loads(pickle.dumps(m.half())),
}


@pytest.mark.parametrize("change", BEFORE_THE_FIRST_CALL)
@pytest.mark.parametrize("kind", LAZY, ids=lambda kind: kind.__name__)
def test_lazy_modules_are_converted_before_their_first_call(kind, change):
    args, shape = LAZY[kind]
    options = {"affine": True} if "Norm" in kind.__name__ else {}
    module = BEFORE_THE_FIRST_CALL[change](kind(*args, **options))
    assert module.has_uninitialized_params()
    before = next(module.parameters())
    dtype, flag = before.dtype, before.requires_grad
    expected = {"double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
    assert dtype == expected.get(change, dtype)
    assert flag == (change != "requires_grad_")
    out = module(torch.randn(shape).to(dtype))
    assert out.dtype == dtype
    assert type(module) is kind.cls_to_become
    assert all(p.dtype == dtype and p.requires_grad == flag for p in module.parameters())


class TestFlatWeights:
    def test_what_is_set_is_computed_with(self):
        rnn = nn.LSTM(2, 3)
        x = torch.ones(1, 1, 2)
        rnn._flat_weights = [w.detach() * 0 for w in rnn._flat_weights]
        assert rnn(x)[0].abs().sum() == 0
        rnn.bias_ih_l0 = nn.Parameter(torch.ones(12))
        assert rnn(x)[0].abs().sum() > 0
        assert rnn._flat_weights[2] is rnn.bias_ih_l0
        assert rnn._flat_weights[0].abs().sum() == 0
        rnn.double()
        assert rnn._flat_weights[0] is rnn.weight_ih_l0

    def test_the_modules_own_weights_follow_it(self):
        rnn = nn.GRU(2, 3)
        rnn._flat_weights = [getattr(rnn, name) for name in rnn._flat_weights_names]
        rnn.weight_ih_l0 = nn.Parameter(torch.zeros(9, 2))
        assert rnn._flat_weights[0] is rnn.weight_ih_l0
        with pytest.raises(ValueError, match="longer"):
            rnn._flat_weights = []
