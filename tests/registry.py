"""The registry as the tests read it: public ops by path, and samples of the pointwise ones."""

import numpy as np

import rushlight as torch
from rushlight import _C
from samples import SAMPLES, Sample

ENTRIES = [e for e in _C._registry() if not e["name"].startswith("_")]


def path(entry):
    """`sin`, `nn.functional.pad`, `Tensor.view`: where users find the op."""
    if "method" in entry["forms"] and "function" not in entry["forms"]:
        return f"Tensor.{entry['name']}"
    return f"{entry['namespace']}.{entry['name']}" if entry["namespace"] else entry["name"]


def parameters(entry):
    """(type, name, has_default) of every parameter, in order."""
    inside = entry["signature"].split("->")[0]
    inside = inside[inside.index("(") + 1 : inside.rindex(")")]
    result = []
    for part in inside.split(", "):
        if part in ("", "*"):
            continue
        declaration, _, default = part.partition("=")
        kind, name = declaration.rsplit(" ", 1)
        result.append((kind, name, bool(default)))
    return result


def is_pointwise(entry):
    return entry["family"] == "pointwise" and "function" in entry["forms"]


def is_structural(entry):
    """Users can call it, and nothing but samples says what its arguments may be."""
    return bool(entry["forms"]) and entry["family"] not in ("pointwise", "creation", "random")


RANGES = {
    "real": (-2.0, 2.0),
    "nonzero": (0.5, 2.0),
    "positive": (0.3, 2.5),
    "above_one": (1.2, 3.0),
    "unit": (-0.9, 0.9),
    "probability": (0.1, 0.9),
}
# Numbers for required parameters that are not tensors.
NUMBERS = {"alpha": 0.7, "exponent": 2.5, "threshold": 0.1, "value": 0.3}


def draw(entry, shape, dtype, random, phase=0.37):
    """Distinct numbers of the op's domain, no two alike and none at a kink."""
    low, high = RANGES[entry["domain"] or "real"]
    count = int(np.prod(shape))
    if dtype == torch.bool:
        data = random.random(shape) > 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        grid = low + (high - low) * (np.arange(count) + phase) / max(count, 1)
        data = random.permutation(grid).reshape(shape)
        if dtype.is_complex:
            data = data + 1j * random.permutation(data.ravel()).reshape(shape)
    else:
        data = random.permutation(count).reshape(shape) % 7 + 1
    return torch.tensor(np.asarray(data)).to(dtype)


def pointwise_call(entry, shapes, dtype, seed):
    """Arguments for one call: tensors for the tensor parameters, numbers for required others."""
    random = np.random.default_rng(seed)
    args, kwargs = [], {}
    shapes = iter(shapes)
    for kind, name, has_default in parameters(entry):
        if name == "condition":
            args.append(torch.tensor(random.random(next(shapes)) > 0.5))
        elif name == "n":  # a degree
            args.append(torch.tensor(random.integers(0, 6, next(shapes))))
        elif kind in ("Tensor", "Tensor|Number"):
            # A phase of its own keeps the arguments of one call apart.
            args.append(draw(entry, next(shapes), dtype, random, 0.37 + 0.2 * len(args)))
        elif not has_default:
            kwargs[name] = NUMBERS[name]
    return Sample(tuple(args), kwargs)


def tensor_parameters(entry):
    return sum(kind in ("Tensor", "Tensor|Number") for kind, _, _ in parameters(entry))


SHAPES = {
    1: [((),), ((0,),), ((1, 0, 3),), ((3, 4),), ((37,),)],
    2: [((), ()), ((0,), (0,)), ((2, 3), (2, 3)), ((2, 1), (3,)), ((4, 1, 2), (3, 1)), ((), (3,))],
    3: [((), (), ()), ((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), (2, 3)), ((0, 2), (2,), (1,))],
}


def pointwise_samples(entry, dtype, seed=0):
    for i, shapes in enumerate(SHAPES[tensor_parameters(entry)]):
        yield pointwise_call(entry, shapes, dtype, seed + i)


def samples_of(entry, dtype, seed=0):
    """Samples of any op that has them."""
    if is_pointwise(entry):
        return list(pointwise_samples(entry, dtype, seed))
    generator = SAMPLES.get(path(entry))
    return list(generator(dtype, seed)) if generator else []


def sample_makers():
    """(path, generator of samples for a dtype and a seed) of every op that has samples."""
    for name in sorted(SAMPLES):
        yield name, SAMPLES[name]
    for entry in ENTRIES:
        if is_pointwise(entry):
            yield path(entry), lambda dtype, seed, e=entry: samples_of(e, dtype)
