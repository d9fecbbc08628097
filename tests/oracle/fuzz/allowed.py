"""Where the libraries may disagree: each case is documented, and each is narrow.

A program ends at such a statement, since what follows depends on it.
"""

import re

from oracle.fuzz.compare import TOLERANCES, unlike

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
    (r"func\.", r"[Bb]atching rule", "vmap"),
    (r"vmap", r"data-dependent control flow|in-place arithmetic", "vmap"),
    (r"vmap", r"doesn't match the broadcast shape", "vmap of in-place ops"),
    (r"func\..*convolution", r"The size of tensor a", "PyTorch's vmap of convolution"),
    (r"", r"tensor does not have a device", "group_norm with one parameter"),
    (r"kron\(|take_along_dim\(", r"view size is not compatible", "arguments of any layout"),
    (r"detach_\(", r"Can't detach views in-place", "results that are views only there"),
    (r"", r"Function Pixel\w+ returned an invalid gradient .* got \[0,", "no elements"),
    (r"pixel_unshuffle", r"pixel_shuffle expects its input's 'channel'", "no elements"),
    (r"func\.|grad\(", r"cannot reshape tensor of 0 elements into shape \[0, -1\]", "no elements"),
    (r"func\.", r"expected weight to be at least 1 at dimension 0", "no elements"),
    (r"", r"mean\(\): could not infer output dtype", "losses of integers are floating"),
    (r"out=", r"expected scalar type|Dimension out of range", "out="),
    (r"out=", r"out=... arguments don't support automatic", "integers have no gradient"),
    (r"", r"Autograd not support dtype", "integers have no gradient"),
    (r"margin_loss", r"expected scalar type", "promotion"),
    (r"kl_div", r"Integral inputs not supported", "losses of integers are floating"),
    (r"histc", r"input tensor and hist tensor should have the same dtype", "out= of another dtype"),
    (r"conv", r"output_padding is not supported for non-transposed", "a fault of PyTorch"),
    (r"backward\(|grad\(", r"output_padding is not supported", "a fault of PyTorch"),
    (r"func\.", r"Setting a forward grad that itself has a forward gradient", "dual levels nest"),
    (r"func\.", r"Inference tensors cannot be saved for backward", "transforms save copies"),
    (r"bilinear", r"All tensors must have the same dtype", "promotion"),
    (r"cartesian_prod", r"meshgrid expects all tensors to have the same dtype", "promotion"),
    (r"kl_div", r"Complex inputs not supported", "losses of complex numbers"),
    (r"out=", r"std_var_all: Unsupported dtype", "halves"),
    (
        r"requires_grad_\(",
        r"only change requires_grad flags of leaf",
        "tangents",
    ),
    (r"\] = ", r"out=... arguments don't support automatic", "inference tensors that require grad"),
    (r"group_norm", r"Expected X.is_contiguous", "a fault of PyTorch under vmap"),
    (r"", r"could not create a primitive descriptor", "a kernel that this machine lacks there"),
    (r"logcumsumexp", r"Expected reduction dim \d+ to have non-zero size", "no elements"),
    (r"", r"backward through the graph a second time", "only what was used up and is needed"),
    (r"", r"a saved tensor that has been detached in-place", "the history of the saved value"),
    (r"", r"ZeroTensors are immutable", "zeros are tensors like others"),
    (r"", r"INTERNAL ASSERT FAILED", "a fault of PyTorch"),
    (r"\] = ", r"Index put requires the source and destination dtypes match", "values are cast"),
    (r"\] = ", r"value cannot be converted to type \w+ without overflow", "values are cast"),
    (r"abs(olute)?_\(", r"In-place abs is not supported for complex tensors", "values are cast"),
    (r"heaviside\(", r"not yet implemented for tensors with different dtypes", "promotion"),
    (r"out=", r"only supports bool tensor for result", "out= of another dtype"),
    (r"out=", r"self and out expected to have the same dtype", "out= of another dtype"),
    (r"out=", r"[Ee]xpected (out tensor|scalar_type|result dtype)", "out= of another dtype"),
    (r"out=", r"dtype of out: \w+ should be same as input", "out= of another dtype"),
    (r"out=", r"missing 1 required positional|invalid combination", "every op of one result"),
    (r"functional\.", r"element 0 of tensors does not require grad", "in inference mode too"),
    (r"", r"EmbeddingBackward0 returned an invalid gradient .* got \[\d+, 0\]", "no elements"),
    (r"func\.", r"cannot reshape tensor of 0 elements|is invalid for input of size", "no elements"),
    (r"func\.|grad", r"requires special handling, and does not yet have a batching", "vmap"),
    (r"backward\(|grad\(", r"Subtraction, the `-` operator, with a bool tensor", "x ** bool"),
    (r"backward\(|grad\(", r"Expected isFloatingType\(grad", "a real part written into complex"),
    (r"", r"must have the same dtype, but got|result dtype \w+ does not match", "promotion"),
    (r"", r"expected dtype [\w:<> ]+ for `\w+` but got dtype", "promotion"),
    (r"", r"Integer division with addcdiv is no longer supported", "by the input's dtype"),
    (
        r"",
        r"self and result must have the same scalar type|Expected out type",
        "out= of another dtype",
    ),
    (r"gaussian_nll_loss", r"can't be cast to the desired output type", "promotion"),
    (r"", r"PreluKernelBackwardBackward0 returned an invalid gradient", "second derivatives"),
    (r"backward\(|grad\(", r"the derivative for 'inplace version", "every op has every derivative"),
    (r"backward\(|grad\(", r"shape '\[0\]' is invalid for input", "no elements"),
    (r"\] = ", r"A view was created in inference mode", "such views are written"),
    (
        r"backward\(",
        r"A different number of tensors was saved",
        "a frozen leaf",
    ),
    (
        r"backward\(|grad\(",
        r"for \*: 'NoneType' and 'int'",
        "a hook of a missing gradient is not called",
    ),
    (r"vmap", r"inplace arithmetic\(self|a leaf Variable that requires", "vmap of in-place ops"),
]
# Where rushlight refuses what PyTorch computes, by rushlight's message.
REFUSED = [
    (r"", r"without ctx\.mark_dirty", "a Function that writes to an argument"),
    (r"out=", r"arguments don't support automatic differentiation", "out= drops no gradient"),
    (r"out=", r"storage that is not resizable", "a .data alias does not resize its origin"),
    (r"out=", r"result type Complex\w+ can't be cast", "out= drops no imaginary part"),
    (r"", r"there is no complex dtype for halves", "no complex halves"),
    (r"addbmm_\(", r"doesn't match the result's shape", "in-place ops do not resize"),
    (
        r"logical_\w+_\(",
        r"a (view of a )?leaf Variable that requires grad",
        "leaves",
    ),
    (
        r"\bprod\(.*out=",
        r"can't be cast to the desired output type",
        "out= gives no dtype",
    ),
    (r"kthvalue|mode|cummax|cummin", r"complex numbers have no order", "even one number"),
    (r"rms_norm", r"not implemented for 'Long'", "integers have no norm"),
    (r"addbmm", r"must have the same dtype", "mixed dtypes"),
    (r"cdist", r"expected scalar type", "mixed dtypes"),
    (r"square", r"not implemented for 'Bool'", "bools are not multiplied"),
    (r"inner", r"both inputs should have same dtype", "mixed dtypes under autocast"),
    (r"\] = ", r"some elements of the input tensor and the written-to", "a part written to itself"),
    (r"group_norm", r"must share same datatype", "mixed dtypes"),
    (r"_norm", r"with respect to argument 'running_mean'", "statistics get no gradient"),
    (r"\] = |_\(|out=", r"more than one element of the written-to tensor", "expanded tensors"),
    (r"cum(sum|prod)", r"can't be cast to the desired output type", "results are not narrowed"),
    (r"loss|cross_entropy", r"with respect to argument 'weight'", "weights of classes get none"),
    (r"\[", r"is out of bounds for dimension", "indices are checked, even for no elements"),
    (r"sum\(.*out=", r"can't be cast to the desired output type", "out= gives no dtype"),
    (r"as_strided_scatter", r"more than one element of the input", "expanded tensors"),
    (r"backward\(|grad\(", r"derivative for heaviside is not implemented", "in place too"),
    (r"view_as_complex", r"but got a tensor of scalar type: Half", "no complex halves"),
    (r"as_strided", r"reaches outside of its input", "samples of a batch with gaps"),
    (r"detach_\(", r"Can't detach views in-place", "results that are views only here"),
    (r"grad\(total", r"'NoneType' object is not iterable", "a derivative that depends on nothing"),
    (r"batch_norm|conv", r"should be the same|must share same datatype", "mixed dtypes"),
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
    (r"out=", r"missing 1 required positional", "every op of one result has out="),
    (r"func\.", r"don't yet support saved tensor hooks", "transforms and hooks go together"),
    (r"dual", r"INTERNAL ASSERT FAILED", "a fault of PyTorch"),
    (r"cdist", r"derivative for '_cdist_backward' is not implemented", "mixed dtypes"),
    (r"vmap", r"data-dependent control flow", "vmap"),
    (r"func", r"Autograd not support dtype|tuple index out of range", "no floating point result"),
    (
        r"\] = ",
        r"shape mismatch|out of bounds|is a view and is being modified|A view was created"
        r"|a view of a leaf|refer to a single memory",
        "what is checked first",
    ),
]


def reason_in(entries, statement, text):
    for pattern, message, reason in entries:
        if re.search(pattern, statement) and re.search(message, text):
            return reason
    return None


def allowance(program, ours, theirs, spaces):
    """Why the exceptions of the last statement, one of which may be None, may differ; or None."""
    statement = program.statements[-1]
    if ours is None:
        return reason_in(COMPUTED, statement.text, str(theirs))
    if theirs is not None:
        return reason_in(BOTH, statement.text, str(theirs))
    if "a second time" in str(ours) and any("make_dual" in s.text for s in program.statements):
        return "a tangent shares parts of its primal's graph"
    tensors = [v for v in spaces["torch"].values() if hasattr(v, "numel")]
    if re.search(r"a second time|modified by an inplace", str(ours)) and any(
        map(is_empty, tensors)
    ):
        return "what was saved for no elements"
    if "a second time" in str(ours) and re.search(r"trapz|trapezoid|\*\* ?-?\d", program.source()):
        return "numbers are saved"
    if "saved by CopysignBackward0" in str(ours):
        return "the sign's source is saved, and not its sign"
    if "saved by MulBackward0" in str(ours) and "rms_norm" in program.source():
        return "the input is saved, and not the normalised one"
    used = [spaces["torch"].get(name) for name in statement.variables]
    if "not implemented for '" in str(ours) and any(map(is_empty, used)):
        return "an element type without a kernel is refused, even for no elements"
    made = [spaces["torch"].get(name) for name in statement.defines]
    if "does not require grad" in str(ours) and all(map(is_nothing, made)):
        return "the derivative of a constant derivative"
    return reason_in(REFUSED, statement.text, str(ours))


# Where both refuse, and PyTorch has written by then: a pattern for the statement, one for its
# message.
HALF_WAY = [
    (r"", r"Inplace update to inference tensor"),
    (r"out=", r""),
    (r"scatter_reduce_\(", r"not implemented for"),
    (r"\] = ", r"out of bounds"),
    (r"_\(", r"ZeroDivisionError"),
    (r"addbmm_\(", r""),
    (r"backward\(", r""),
]


def stops(statement, error):
    """Why both libraries stop at an exception with different states, or None."""
    for pattern, message in HALF_WAY:
        if re.search(pattern, statement.text) and re.search(message, repr(error)):
            return "PyTorch writes before it refuses"
    return None


def is_empty(value):
    return hasattr(type(value), "numel") and value.numel() == 0


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


def is_missing_there(fact, spaces):
    return fact.theirs == "None"


def is_number_of_parts(fact, spaces):
    """Which gradients of inputs that need none a hook of a node is shown."""
    return str(fact.theirs) in ("True", "False")


def is_single_precision(fact, spaces):
    return unlike(fact.theirs["value"], fact.ours["value"], TOLERANCES["float32"]) is None


def is_nan_here(fact, spaces):
    ours = fact.ours["value"]
    return bool((ours != ours).any())


def is_infinite(fact, spaces):
    """Infinities of another sign, and nothing else."""
    theirs, ours = abs(fact.theirs["value"]), abs(fact.ours["value"])
    return bool((theirs == float("inf")).any() and ((theirs == ours) | (theirs != theirs)).all())


def is_zero_or_statistic(fact, spaces):
    return not fact.theirs["value"].any() or not fact.ours["value"].any()


def is_call_for_nothing(fact, spaces):
    return "None" in fact.theirs


def is_gradient(fact, spaces):
    return fact.text.startswith((".grad", "["))


def is_zero(fact, spaces):
    return not fact.theirs["value"].any() and not fact.ours["value"].any()


def is_nan_there(fact, spaces):
    theirs, ours = fact.theirs["value"], fact.ours["value"]
    return bool((theirs != theirs).any() and (ours == ours).all())


def always(fact, spaces):
    return True


DERIVES = r"func\.|dual|autograd\.|create_graph"
ONE_NODE = r"(lstm_cell|gru|lstm|rnn_tanh|rnn_relu)\("
WRONG_NORMS = r"(?s)(instance|batch|layer|group)_norm.*(func\.|dual|autograd\.grad.*autograd\.grad)"
WRONG_NORMS += r"|(func\.|dual).*(instance|batch|layer|group)_norm"
NAN_AT_ZERO = r"norm|dist|poisson_nll_loss|sinc|std|logcumsumexp|prod"
# Differences in one fact: its name, a pattern for the program, a test, the reason.
FACTS = [
    ("requires_grad", r"", is_integral, "integers never require grad"),
    ("requires_grad", r"logical_\w+_\(", always, "the history of what was overwritten"),
    ("requires_grad", r"scatter_reduce", always, "a derivative that depends on nothing"),
    ("requires_grad", r"jvp.*cumprod", always, "a derivative that depends on nothing"),
    ("requires_grad", r"dual.*cumprod", always, "a derivative that depends on nothing"),
    ("requires_grad", r"func\.vjp.*atleast_", always, "func.vjp of the identity"),
    ("requires_grad", DERIVES, constant_derivative, "a derivative that depends on nothing"),
    ("kind", DERIVES, is_zero_gradient, "the gradient of a derivative that depends on nothing"),
    ("kind", r"native_(group|layer)_norm", always, "gradients of the statistics"),
    ("requires_grad", r"native_layer_norm", always, "gradients of the statistics"),
    ("dtype", r"native_\w+_norm", always, "statistics of halves are float32"),
    ("kind", r"pickle", is_missing_there, "pickle keeps .grad"),
    ("kind", r"scatter_reduce", is_missing_there, "tangents of reductions without self"),
    ("kind", ONE_NODE, always, "one node: its results do not depend on each other"),
    ("value", ONE_NODE, is_gradient, "one node: its results do not depend on each other"),
    ("value", r"logical_\w+_\(", is_gradient, "the history of what was overwritten"),
    ("value", r"Doubled", always, "a tangent whose elements shared memory"),
    ("value", r"cross\(.*\n(.*\n)*.*logical_", always, "a product that is zero, or nearly"),
    ("value", r"scatter_reduce_\(.*'prod'", is_gradient, "PyTorch's is wrong for complex numbers"),
    ("kind", r"binary_cross_entropy_with_logits", is_missing_there, "tangents of the weights"),
    ("dtype", r"autocast.*\n.*loss", always, "losses under autocast"),
    ("value", r"dual[^\n]*softmax", always, "a tangent that is zero, or nearly"),
    ("value", r"scatter_reduce.*include_self=False", always, "only what takes part is a tie"),
    ("value", r"polar\(", always, "the gradient by a negative modulus"),
    ("value", WRONG_NORMS, is_gradient, "PyTorch's tangents and third derivatives are wrong there"),
    ("is_leaf", DERIVES, is_zero, "the gradient of a derivative that depends on nothing"),
    ("length", r"register_hook", is_call_for_nothing, "a hook of a missing gradient is not called"),
    ("length", r"node_seen", always, "results without gradients among those of a node"),
    (
        "length",
        r"register_hook\(seen\)(.*\n)*.*\] = ",
        always,
        "hooks of a view that is written",
    ),
    ("kind", r"Doubled", is_missing_there, ".grad stays after a write"),
    ("dtype", r"autocast.*\n.*cross\(", always, "cross under autocast"),
    ("value", r"xlogy", is_nan_here, "nothing times the logarithm of a negative number"),
    ("value", DERIVES, is_infinite, "the sign of a zero"),
    ("value", r"select_scatter", is_gradient, "PyTorch's gradient under vmap is wrong"),
    ("value", r"index_add_\(", always, "results are written last"),
    ("version", r"nan_to_num_\(", always, "integers have no NaN"),
    ("dtype", r"hinge_embedding_loss", always, "losses of integers are floating"),
    ("dtype", r"autocast.*\n.*(lstm|gru|rnn)", always, "recurrent layers under autocast"),
    ("is_leaf", r"materialize_grads", is_zero_or_statistic, "the gradient of a constant"),
    ("is_leaf", r"native_group_norm", always, "gradients of the statistics"),
    ("value", r"jvp.*softmax[^\n]*\n(.*\n)*.*\*\*", always, "powers of a tangent that is zero"),
    ("requires_grad", r"func\.vjp.*(ravel|atleast_)", always, "func.vjp of the identity"),
    ("value", r"histc", always, "edges of bins in the input's precision"),
    ("value", r"(matmul|mm)\(.*out=|masked_scatter_\(", always, "results are written last"),
    ("value", r"dual[^\n]*expand", always, "tangents are not expanded"),
    ("value", r"out=", is_single_precision, "integers are computed in float32"),
    ("requires_grad", r"inference_mode\(\):\n.*pickle", always, "unpickled in inference mode"),
    ("dtype", r"binary_cross_entropy_with_logits", always, "promotion"),
    ("kind", r"node_seen", is_number_of_parts, "gradients that are not needed"),
    ("length", r"(?s)Parts.*inputs=\[", always, "a node whose result is asked for does not run"),
    ("inference", r"inference_mode", always, "results of transforms and of conj"),
    ("requires_grad", r"\.(eq|ne|lt|le|gt|ge|less|greater|not_equal)\w*_\(", always, "comparisons"),
    ("dtype", r"huber_loss", always, "promotion"),
    ("value", r"conj\(", always, "conj is a copy"),
    ("version", r"conj\(", always, "conj is a copy"),
    ("dtype", r"", lambda f, s: f.theirs["dtype"] == "complex32", "no complex halves"),
    ("shape", r"pixel_unshuffle", lambda f, s: 0 in f.theirs["shape"], "no elements"),
    ("version", r"out=", always, "how often out= is written"),
    (
        "is_leaf",
        r"func\.vjp.*(positive|conj|cartesian_prod|resolve_conj|resolve_neg|contiguous|atleast_\dd)",
        always,
        "func.vjp of the identity",
    ),
    ("value", r"as_strided_scatter", always, "PyTorch's gradient is wrong there"),
    ("value", r"native_(group|layer)_norm", always, "gradients of the statistics"),
    (
        "value",
        r"norm|dist|poisson_nll_loss|sinc|std|logcumsumexp|prod",
        is_nan_there,
        "derivatives at 0 are numbers",
    ),
]


def excuse(fact, program, spaces):
    """Why two accounts may differ in a fact, or None."""
    text = "\n".join(s.text for s in program.statements)
    for name, pattern, test, reason in FACTS:
        if name == fact.name and re.search(pattern, text) and test(fact, spaces):
            return reason
    return None
