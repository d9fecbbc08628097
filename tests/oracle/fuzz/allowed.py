"""Where the libraries may disagree: each case is documented, and each is narrow.

A program ends at such a statement, since what follows depends on it.
"""

import re

# Where PyTorch raises and rushlight computes: a pattern for the statement, one for PyTorch's
# message, the reason. docs/guide/coming-from-pytorch.md and docs/guide/in-place.md.
COMPUTED = [
    (r"", r"not implemented for '\w+'", "an element type that PyTorch has no kernel for"),
    (r"", r"has been modified by an inplace operation", "only the saved elements count"),
    (r"", r"is a view and (is|its base .*) being modified inplace", "parts are written"),
    (r"", r"A view was created in no_grad mode and is being modified", "such views are written"),
    (r"", r"derivative for '?[\w:]+'? is not implemented", "every op has every derivative"),
    (r"", r"does not support (double backward|forward AD)", "every op has every derivative"),
    (r"", r"Trying to use forward AD with .* that does not support it", "every op has its tangent"),
    (r"", r"is not differentiable with respect to argument", "every op has every derivative"),
    (r"", r"differentiation for outputs with complex dtype", "every op has every derivative"),
    (r"fwAD", r"Nested forward mode AD is not supported", "dual levels nest"),
    (r"out=", r"got an unexpected keyword argument 'out'", "every op of one result has out="),
    (r"out=", r"Expected (out tensor to have|the dtype for) .*dtype", "out= of another dtype"),
    (r"out=", r"Found dtype \w+ but expected", "out= of another dtype"),
    (r"out=", r"output tensor's dtype is wrong", "out= of another dtype"),
    (r"out=", r"Expected the output tensor to have dtype", "out= of another dtype"),
    (r"out=", r"does not support non-boolean outputs", "out= of another dtype"),
    (r"", r"(some|more than one) elements? of the .*written-to tensor", "results are written last"),
    (r"jacobian|hessian", r"stack expects a non-empty TensorList", "derivatives by no elements"),
    (r"func\.", r"select\(\): index 0 out of range for tensor of size \[0", "by no elements"),
    (r"func\.", r"Tensor that doesn't have storage", "counts that are tensors under transforms"),
    (r"func\.", r"don't yet support saved tensor hooks", "transforms and hooks go together"),
    (r"func\.", r"mutate a captured Tensor", "captured tensors are written"),
    (r"vmap", r"data-dependent control flow|[Bb]atching rule|in-place arithmetic", "vmap"),
    (r"vmap", r"doesn't match the broadcast shape", "vmap of in-place ops"),
    (r"func\..*convolution", r"The size of tensor a", "PyTorch's vmap of convolution"),
    (r"", r"tensor does not have a device", "group_norm with one parameter"),
    (r"kron\(|take_along_dim\(", r"view size is not compatible", "arguments of any layout"),
    (r"detach_\(", r"Can't detach views in-place", "results that are views only there"),
    (r"", r"Function Pixel\w+ returned an invalid gradient .* got \[0,", "no elements"),
]
# Where rushlight refuses what PyTorch computes, by rushlight's message.
REFUSED = [
    (r"", r"without ctx\.mark_dirty", "a Function that writes to an argument"),
    (r"out=", r"arguments don't support automatic differentiation", "out= drops no gradient"),
    (r"out=", r"storage that is not resizable", "a .data alias does not resize its origin"),
    (r"out=", r"result type Complex\w+ can't be cast", "out= drops no imaginary part"),
    (r"", r"there is no complex dtype for halves", "no complex halves"),
    (r"addbmm_\(", r"doesn't match the result's shape", "in-place ops do not resize"),
]
# Where both raise in different classes, by PyTorch's message.
BOTH = [
    (r"", r"not implemented for '\w+'", "an element type that PyTorch has no kernel for"),
    (
        r"",
        r"Trying to use forward AD with .* that does not support it",
        "the class of reverse mode",
    ),
    (r"out=", r"unexpected keyword argument 'out'", "every op of one result has out="),
    (r"out=", r"received an invalid combination of arguments", "every op of one result has out="),
    (r"out=", r"argument 'out' must be tuple of Tensors", "every op of one result has out="),
    (r"out=", r"cat\(\): input types can't be cast", "the class of all other ops"),
]


def reason_in(entries, statement, text):
    for pattern, message, reason in entries:
        if re.search(pattern, statement) and re.search(message, text):
            return reason
    return None


def allowance(statement, ours, theirs, spaces):
    """Why the exceptions of a statement, either of which may be None, may differ; or None."""
    if ours is None:
        return reason_in(COMPUTED, statement.text, str(theirs))
    if theirs is not None:
        return reason_in(BOTH, statement.text, str(theirs))
    used = [spaces["torch"].get(name) for name in statement.variables]
    if "not implemented for '" in str(ours) and any(map(is_empty, used)):
        return "an element type without a kernel is refused, even for no elements"
    made = [spaces["torch"].get(name) for name in statement.defines]
    if "does not require grad" in str(ours) and all(map(is_nothing, made)):
        return "the derivative of a constant derivative"
    return reason_in(REFUSED, statement.text, str(ours))


def stops(error):
    """Why both libraries stop at an exception with different states, or None."""
    if "Inplace update to inference tensor" in str(error):
        return "PyTorch writes before it refuses"
    return None


def is_empty(value):
    return hasattr(value, "numel") and value.numel() == 0


def is_nothing(value):
    """No gradient, or zero."""
    if isinstance(value, (tuple, list)):
        return all(map(is_nothing, value))
    return value is None or (hasattr(value, "count_nonzero") and not value.count_nonzero())


def is_constant(account, space):
    """Whether a tensor that requires grad has no derivative by any variable of the program."""
    library, tensor = space["torch"], account["tensor"]
    leaves = [t for t in space.values() if isinstance(t, library.Tensor)]
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf]
    with library.enable_grad():
        loss = space["total"](tensor)
    try:
        grads = library.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    except RuntimeError:  # something it was computed from has been overwritten since
        return True
    return is_nothing(grads)


def constant_derivative(fact, spaces):
    """A derivative that depends on nothing may require grad or not, as its formula is written."""
    if fact.theirs["requires_grad"]:
        return is_constant(fact.theirs, spaces["torch"])
    return is_constant(fact.ours, spaces["rushlight"])


def is_integral(fact, spaces):
    return not any(kind in fact.theirs["dtype"] for kind in ("float", "complex"))


def is_zero_gradient(fact, spaces):
    """The gradient of such a constant is zero in one and missing in the other."""
    given = [a for a in (fact.theirs, fact.ours) if a != "None"]
    return len(given) == 1 and isinstance(given[0], dict) and not given[0]["value"].any()


def is_nan_there(fact, spaces):
    theirs, ours = fact.theirs["value"], fact.ours["value"]
    return bool((theirs != theirs).any() and (ours == ours).all())


def always(fact, spaces):
    return True


DERIVES = r"func\.|dual|autograd\.|create_graph"
# Differences in one fact: its name, a pattern for the program, a test, the reason.
FACTS = [
    ("requires_grad", r"", is_integral, "integers never require grad"),
    ("requires_grad", DERIVES, constant_derivative, "a derivative that depends on nothing"),
    ("kind", DERIVES, is_zero_gradient, "the gradient of a derivative that depends on nothing"),
    ("kind", r"native_(group|layer)_norm", always, "gradients of the statistics"),
    ("requires_grad", r"native_layer_norm", always, "gradients of the statistics"),
    ("dtype", r"native_\w+_norm", always, "statistics of halves are float32"),
    ("kind", r"pickle", lambda f, s: f.theirs == "None", "pickle keeps .grad"),
    ("dtype", r"", lambda f, s: f.theirs["dtype"] == "complex32", "no complex halves"),
    ("shape", r"pixel_unshuffle", lambda f, s: 0 in f.theirs["shape"], "no elements"),
    ("version", r"out=", always, "how often out= is written"),
    (
        "is_leaf",
        r"func\.vjp.*(positive|resolve_conj|contiguous)",
        always,
        "func.vjp of the identity",
    ),
    ("value", r"as_strided_scatter", always, "PyTorch's gradient is wrong there"),
    ("value", r"native_(group|layer)_norm", always, "gradients of the statistics"),
    ("value", r"norm|dist|poisson_nll_loss|sinc", is_nan_there, "derivatives at 0 are numbers"),
]


def excuse(fact, program, spaces):
    """Why two accounts may differ in a fact, or None."""
    text = "\n".join(s.text for s in program.statements)
    for name, pattern, test, reason in FACTS:
        if name == fact.name and re.search(pattern, text) and test(fact, spaces):
            return reason
    return None
