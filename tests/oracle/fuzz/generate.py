"""Draw random programs: each kind of statement is a method of Generator, drawn by its weight."""

import random
import re

import torch

from oracle.fuzz.calls import IN_PLACE, OPS, WITH_OUT, draw_call
from oracle.fuzz.compare import numbers, readable
from oracle.fuzz.program import VARIABLE, Session, Statement

DTYPES = {
    "float64": 30,
    "float32": 6,
    "int64": 3,
    "complex128": 2,
    "bfloat16": 1,
    "float16": 1,
    "bool": 1,
    "uint8": 1,
    "int32": 1,
    "complex64": 1,
}
FLOATS = {name: weight for name, weight in DTYPES.items() if "float" in name}
SHAPES = [(), (3,), (2, 3), (3, 4), (3, 3), (1, 3), (2, 1), (2, 3, 4), (0, 3), (4,)]
REGIONS = [
    "torch.no_grad()",
    "torch.no_grad()",
    "torch.enable_grad()",
    "torch.inference_mode()",
    "torch.set_grad_enabled(False)",
    "torch.no_grad(), torch.enable_grad()",
    "torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)",
    'torch.autocast("cpu", torch.bfloat16)',
]
KINDS = {}


def kind(weight):
    def register(method):
        KINDS[method] = weight
        return method

    return register


def overlaps(t):
    """Whether elements share memory."""
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
    cells = torch.arange(max(reach, 1)).as_strided(tuple(t.shape), tuple(t.stride()))
    return t.numel() > 1 and cells.unique().numel() < t.numel()


class Generator:
    """Draws the statements of one program while it runs: what fits depends on what there is."""

    def __init__(self, seed, before=None):
        self.random = random.Random(seed)
        self.session = Session(before=before)
        self.count = 0

    def program(self):
        """Draw and run a program; a Difference ends it."""
        for _ in range(self.random.randint(1, 3)):
            self.fresh()
        kinds, weights = list(KINDS), list(KINDS.values())
        for _ in range(self.random.randint(3, 14)):
            self.random.choices(kinds, weights)[0](self)
            if self.session.ended:
                return

    # What there is

    def do(self, text):
        return self.session.run(Statement(text))

    def value(self, name):
        return self.session.spaces["torch"].get(name)

    def tensors(self, fits=lambda t: True):
        space = self.session.spaces["torch"]
        found = [
            n for n, t in space.items() if VARIABLE.fullmatch(n) and isinstance(t, torch.Tensor)
        ]
        return [n for n in found if readable(space[n]) and fits(space[n])]

    def pick(self, fits=lambda t: True):
        """A variable, rather a late one than an early one; None where there is none."""
        names = self.tensors(fits)
        if not names:
            return None
        return names[max(self.random.randrange(len(names)) for _ in range(2))]

    def new(self):
        self.count += 1
        return f"v{self.count - 1}"

    def dtype(self, among=DTYPES):
        return self.random.choices(list(among), list(among.values()))[0]

    # Making tensors

    def create(self, data, dtype, shape, stride, offset, requires_grad):
        """A new variable with these numbers in this layout."""
        name = self.new()
        constant = self.session.constant(data)
        text = f"torch.tensor({constant}, dtype=torch.{dtype})"
        if stride is not None:
            text += f".as_strided({shape}, {stride}, {offset}).detach()"
        if 0 in shape:
            text = f"torch.empty({shape}, dtype=torch.{dtype})"
        if requires_grad and ("float" in dtype or "complex" in dtype):
            text += ".requires_grad_()"
        self.do(f"{name} = {text}")
        return name

    def like(self, sample, exchangeable, promotes):
        """The name of a variable in place of a sample: one that fits, or a copy of the sample."""
        dtype, shape = str(sample.dtype).removeprefix("torch."), tuple(sample.shape)
        roll = self.random.random()
        if exchangeable and roll < 0.75:
            there = [
                n
                for n in self.tensors(lambda t: tuple(t.shape) == shape)
                if (str(self.value(n).dtype) == str(sample.dtype) or (promotes and roll < 0.04))
                and self.is_tame(n)
            ]
            if there:
                return self.random.choice(there)
        sample = sample.detach()
        leaf = exchangeable and self.random.random() < 0.6
        if sample.is_contiguous():
            return self.create(numbers(sample)[0], dtype, shape, None, 0, leaf)
        stride = tuple(sample.stride())
        reach = sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1
        start = sample.storage_offset()
        whole = sample.as_strided((start + max(reach, 1),), (1,), 0)
        return self.create(numbers(whole)[0], dtype, shape, stride, start, leaf)

    def is_tame(self, name):
        """Neither huge nor strange, mostly."""
        t = self.value(name).detach()
        if t.numel() > 400:
            return False
        if t.dtype.is_floating_point and t.numel():
            return bool(t.abs().max() < 100) or self.random.random() < 0.05
        return True

    def is_writable(self, name):
        """Gradients and tangents whose elements share memory are PyTorch's alone."""
        theirs, ours = (space[name] for space in self.session.spaces.values())
        return overlaps(theirs) == overlaps(ours)

    def call(self, entries=OPS, among=DTYPES):
        return draw_call(entries, self.dtype(among), self.random, self.like)

    def within(self, text, chance=0.12):
        """The statement, now and then inside of a region."""
        if self.random.random() > chance:
            return text
        body = text.replace("\n", "\n    ")
        return f"with {self.random.choice(REGIONS)}:\n    {body}"

    def unpack(self, name):
        """Names for the tensors of a result that is a tuple."""
        value, last = self.value(name), self.session.program.statements[-1].text
        # A recurrent layer is one node: its results do not depend on each other.
        copied = ".clone()" if re.search(r"lstm|gru|rnn", last) else ""
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            for number, part in list(enumerate(value))[:3]:
                if isinstance(part, torch.Tensor):
                    self.do(f"{self.new()} = {name}[{number}]{copied}")

    def assign(self, expression, chance=0.12):
        name = self.new()
        if self.do(self.within(f"{name} = {expression}", chance)) and not self.session.ended:
            self.unpack(name)

    # Kinds of statements

    @kind(1)
    def fresh(self):
        shape = self.random.choice(SHAPES)
        dtype = self.dtype()
        generator = torch.Generator().manual_seed(self.random.randrange(1000))
        data = torch.rand(shape, generator=generator, dtype=torch.float64) * 3 - 1.2
        whole = not ("float" in dtype or "complex" in dtype)
        data = (data.abs() * 2).long() if whole else data
        leaf = self.random.random() < 0.75
        self.create(data.numpy(), dtype, shape, None, 0, leaf)

    @kind(24)
    def operation(self):
        call = self.call()
        if call:
            self.assign(call.text(self.random))

    @kind(10)
    def in_place(self):
        call = self.call(IN_PLACE)
        if call and call.args[0][0] == "v" and self.is_writable(call.args[0]):
            self.do(self.within(call.in_place()))

    @kind(2)
    def with_out(self):
        call = self.call(WITH_OUT)
        target = self.pick(lambda t: not t.requires_grad)
        if call is None or target is None or not self.is_writable(target):
            return
        names = VARIABLE.findall(call.function())
        # PyTorch resizes a target before it reads the arguments.
        apart = all(self.value(n) is not self.value(target) for n in names)
        if not apart or call.entry["result"] != "Tensor":
            return
        call.kwargs["out"] = target
        if any(self.value(n).requires_grad for n in names) and self.random.random() < 0.8:
            self.do(f"with torch.no_grad():\n    {call.function()}")
        else:
            self.do(self.within(call.function()))

    @kind(5)
    def operator(self):
        left = self.pick()
        if left is None:
            return
        symbols = ["+", "-", "*", "/", "**", "//", "%", "<", "==", ">=", "&", "@", "!="]
        symbol = self.random.choice(symbols)
        scalar = self.random.choice(["2", "0.5", "-1.5", "True", "3", "1j"])
        other = scalar if self.random.random() < 0.4 else self.pick()
        if self.random.random() < 0.25 and self.is_writable(left):
            self.do(self.within(f"{left} {symbol}= {other}" if symbol in "+-*/" else f"-{left}"))
        elif self.random.random() < 0.2:
            self.assign(f"{scalar} {symbol} {left}")
        else:
            self.assign(f"{left} {symbol} {other}")

    def index(self, name):
        """A random index that fits the variable."""
        shape = tuple(self.value(name).shape)
        parts = []
        for size in shape[: self.random.randint(0, len(shape))]:
            choice = self.random.random()
            if choice < 0.3 and size:
                parts.append(str(self.random.randrange(-size, size)))
            elif choice < 0.45:
                parts.append(self.random.choice([":", "1:", "::2", ":-1", "0:1"]))
            elif choice < 0.6 and size:
                parts.append(str([self.random.randrange(-size, size) for _ in range(2)]))
            elif choice < 0.7:
                parts.append("None")
            elif choice < 0.8:
                mask = [bool(self.random.getrandbits(1)) for _ in range(size)]
                parts.append(f"torch.tensor({mask}, dtype=torch.bool)")
            elif size:
                parts.append(f"torch.tensor({self.random.randrange(size)})")
        if self.random.random() < 0.3:
            parts.insert(self.random.randint(0, len(parts)), "...")
        if not parts:
            return f"{name} > 0" if self.random.random() < 0.5 else "..."
        return ", ".join(parts)

    @kind(5)
    def read(self):
        name = self.pick()
        if name:
            self.assign(f"{name}[{self.index(name)}]")

    @kind(6)
    def write(self):
        name = self.pick(lambda t: not (t.requires_grad and t.is_leaf) or not t.ndim)
        if name is None or not self.is_writable(name):
            return
        index = self.index(name)
        other = self.pick()
        value = self.random.choice(
            ["0.5", "2", f"{other}.sum()", f"{name}[{index}] * 2", other, f"{other}.mean() * 2"]
        )
        self.do(self.within(f"{name}[{index}] = {value}", 0.2))

    @kind(3)
    def custom_function(self):
        name = self.pick(lambda t: t.dtype.is_floating_point)
        if name and self.is_writable(name):
            scale = ", 0.5"
            functions = ["Cube", "Exponential", "Parts", "Turned", "Softened"]
            # PyTorch forgets the hooks of what a Function overwrites.
            if not any(f"{name}.register" in s.text for s in self.session.program.statements):
                functions.append("Doubled")
            function = self.random.choice(functions)
            self.assign(f"{function}.apply({name}{scale if function == 'Softened' else ''})")

    @kind(4)
    def flags(self):
        name = self.pick()
        action = self.random.choice(
            ["requires_grad_()", "requires_grad_(False)", "detach_()", "retain_grad()"]
        )
        if name:
            self.do(f"{name}.{action}")

    @kind(3)
    def relative(self):
        """Another tensor on the same memory, or a copy."""
        name = self.pick()
        how = ["{}.detach()", "{}.data", "{}.clone()", "copy.deepcopy({})"]
        how += ["pickle.loads(pickle.dumps({}))", "{}.grad", "{}.double()", "{}.float()"]
        if name:
            text = self.random.choice(how).format(name)
            # Copies made in inference mode require grad, and PyTorch records next to nothing of it.
            self.assign(text, 0 if "pickle" in text or "deepcopy" in text else 0.12)

    @kind(4)
    def hook(self):
        name = self.pick(lambda t: t.requires_grad)
        if name is None:
            return
        hooks = ["register_hook(seen)", "register_hook(seen)", "register_hook(lambda g: g * 2)"]
        hooks += ["register_post_accumulate_grad_hook(lambda p: log.append(p.grad.clone()))"]
        if self.has_one_node(name):
            hooks += ["grad_fn.register_hook(node_seen)", "grad_fn.register_prehook(node_seen)"]
        self.do(f"{name}.{self.random.choice(hooks)}")

    def has_one_node(self, name):
        """Whether both libraries made it by a node of as many inputs."""
        nodes = [space[name].grad_fn for space in self.session.spaces.values()]
        return all(nodes) and len({len(n.next_functions) for n in nodes}) == 1

    def loss(self):
        names = self.tensors(lambda t: t.requires_grad and t.grad_fn is not None)
        if not names:
            return None
        few = self.random.sample(names, min(len(names), self.random.choice([1, 1, 2])))
        if len(few) == 1 and self.random.random() < 0.3:
            return f"{few[0]}.sum()"
        return " + ".join(f"total({n})" for n in few)

    @kind(6)
    def backward(self):
        loss = self.loss()
        if loss is None:
            return
        keep = self.random.choice(["", "", "retain_graph=True", "create_graph=True"])
        leaf = self.pick(lambda t: t.requires_grad)
        if leaf and self.random.random() < 0.2:
            keep = ", ".join(filter(None, [keep, f"inputs=[{leaf}]"]))
        self.do(f"({loss}).backward({keep})")

    @kind(3)
    def backward_of_tensor(self):
        name = self.pick(lambda t: t.requires_grad and t.dtype.is_floating_point)
        if name:
            self.do(f"{name}.backward(torch.ones_like({name}), retain_graph=True)")

    @kind(6)
    def grad(self):
        """Gradients up to the third order, one after another."""
        loss, name = self.loss(), self.pick(lambda t: t.requires_grad)
        for _ in range(self.random.choice([1, 1, 2, 3])):
            if loss is None:
                return
            options = "create_graph=True, allow_unused=True"
            if self.random.random() < 0.15:
                options += ", materialize_grads=True"
            result = self.new()
            done = self.do(f"{result} = torch.autograd.grad({loss}, [{name}], {options})")
            if not done or self.session.ended:
                return
            part = self.value(result)[0]
            if part is None or not part.requires_grad:
                return
            loss = f"total({result}[0])"

    @kind(2)
    def clear(self):
        name = self.pick(lambda t: t.is_leaf and t.grad is not None)
        if name:
            actions = ["grad = None", "grad.zero_()", "grad.detach_()", "grad = {}.detach() * 2"]
            self.do(f"{name}.{self.random.choice(actions).format(name)}")

    def function(self):
        """A call with one variable as the argument `u` of a function."""
        call = self.call(among=FLOATS)
        names = [] if call is None or call.entry["result"] == "bool" else call.variables()
        names = [n for n in names if self.value(n).dtype.is_floating_point]
        if not names:
            return None, None
        name = self.random.choice(names)
        return name, call.replaced(name, "u").text(self.random)

    @kind(6)
    def transform(self):
        name, body = self.function()
        if name is None:
            return
        size = self.value(name).numel()
        total, first = f"lambda u: total({body})", f"lambda u: floats({body})[0]"
        twice = f"lambda u: total(torch.func.grad({total})(u))"
        dim = self.random.randint(0, self.value(name).ndim)
        stack = f"torch.stack([{name}, {name} * 0.5], {dim})"
        forms = [
            f"torch.func.grad({total})({name})",
            f"torch.func.grad({twice})({name})",
            f"torch.func.jvp({first}, ({name},), (torch.ones_like({name}),))",
            f"torch.func.vjp({first}, {name})[0].clone()",  # of the identity, it is the argument
            f"torch.func.vmap({first}, in_dims={dim}, out_dims=-1)({stack})",
            f"torch.func.vmap(lambda u: {body}, in_dims={dim})({stack})",
            f"torch.func.vmap(torch.func.grad({total}), {dim})({stack})",
            f"checkpoint(lambda u: {body}, {name}, use_reentrant=False)",
        ]
        if size <= 12:
            forms += [
                f"torch.func.jacrev({first})({name})",
                f"torch.func.jacfwd({first})({name})",
                f"torch.func.hessian({total})({name})",
                f"torch.autograd.functional.jacobian({first}, {name})",
            ]
        self.assign(self.random.choice(forms), 0.05)

    @kind(3)
    def forward_mode(self):
        name, body = self.function()
        if name is None:
            return
        dual = f"fwAD.make_dual({name}, torch.ones_like({name}))"
        result = self.new()
        call = f"fwAD.unpack_dual(floats((lambda u: {body})({dual}))[0])"
        if self.do(f"with fwAD.dual_level():\n    {result} = {call}") and not self.session.ended:
            self.unpack(result)
