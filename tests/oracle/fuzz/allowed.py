"""Where the libraries may disagree: each case is documented, and each is narrow.

A program ends at such a statement, since what follows depends on it. Every variable is compared
after every statement, so that a cause is looked for in the last one, and in those that its
variables come from.
"""

import re

from oracle.fuzz.cases import (
    NORMS,
    ONE_NODE,
    always,
    constant_derivative,
    has_no_elements,
    is_aliased,
    is_beside_out,
    is_call_for_nothing,
    is_deficient,
    is_derived_by_result,
    is_empty,
    is_function_of_derivative,
    is_hermitian_here,
    is_hook_of_hidden_view,
    is_hook_of_jvp,
    is_inference,
    is_integral,
    is_large_exponential,
    is_left_out,
    is_missing_there,
    is_nan_beside,
    is_nan_here,
    is_nan_there,
    is_node_asked_for,
    is_nothing,
    is_part_of_hidden,
    is_part_of_one_node,
    is_permuted,
    is_product_with_zeros,
    is_retained_aside,
    is_rounded_sinc,
    is_seen_by_node,
    is_shared_there,
    is_single_precision,
    is_singular,
    is_tie,
    is_unfactored,
    is_written_unseen,
    is_wrong_next,
    is_wrong_tangent,
    is_wrong_there,
    is_zero,
    is_zero_gradient,
    is_zero_there,
    is_zero_times_nan,
)

RECURRENT = r"(lstm|gru|rnn_tanh|rnn_relu)(_cell)?\("
DERIVES = r"func\.|dual|autograd\.|backward\("
# PyTorch's messages: about derivatives, about `out`, about its dtype, about empty tensors.
NO_DERIVATIVE = (
    r"derivative for ('?[\w: ]+'? is not implemented|'inplace version)|outputs with complex dtype"
    r"|(double backward|forward AD) with .* that does not support it|is not differentiable with"
    r"|does not support (double backward|forward AD)"
)
NO_OUT = r"unexpected keyword argument 'out'|missing 1 required positional|invalid combination"
WRITES = r"in-?place arithmetic|a leaf Variable that requires"
NO_ELEMENTS = (
    r"cannot reshape tensor of 0 elements|shape '\[.*' is invalid for input of size"
    r"|returned an invalid gradient .* got \[[^]]*\b0\b|to have non-zero size"
    r"|at least 1 at dimension 0|pixel_shuffle expects its input's 'channel'"
)
OTHER_DTYPE = (
    r"[Ee]xpected (out|the output|the dtype for|scalar[_ ]type|result dtype)|output tensor's dtype"
    r"|Found dtype|non-boolean outputs|bool tensor for result|dtype of out: |Unsupported dtype"
    r"|the operation's result requires|must have the same scalar type|should have the same dtype"
    r"|(self and out expected|input and result) to have the same dtype"
    r"|heaviside is not yet implemented|for argument 'out'"
    r"|expects a (floating point|complex) output tensor"
)
# Where PyTorch raises and rushlight computes: a pattern for the statement, one for PyTorch's
# message, the reason. docs/guide/coming-from-pytorch.md and docs/guide/in-place.md.
COMPUTED = [
    (r"", r"not implemented for '\w+'", "an element type that PyTorch has no kernel for"),
    (r"", r"has been modified by an inplace operation", "only the saved elements count"),
    (r"", r"backward through the graph a second time", "only what was used up and is needed"),
    (r"", r"a saved tensor that has been detached in-place", "the history of the saved value"),
    (r"", r"Inference tensors cannot be saved for backward", "only what is needed is saved"),
    (r"", r"is a view and (is|its base .*) (being|been) modified inplace", "parts are written"),
    (r"", r"created in no_grad mode and (is|its base) ", "such views are written"),
    (r"\] = |_\(", r"A view was created in inference mode", "such views are written"),
    (r"Doubled", r"a leaf Variable that requires grad", "a view made under no_grad is no leaf"),
    (r"", NO_DERIVATIVE, "every op has every derivative"),
    (DERIVES, r"PreluKernelBackwardBackward0 returned an invalid gradient", "second derivatives"),
    (DERIVES, r"the `-` operator, (with|on) a bool tensor", "x ** bool, atan2 of bools"),
    (DERIVES, r"Expected isFloatingType\(grad", "a real part written into complex"),
    (DERIVES, r"setStorage: sizes", "a part of what out= has resized"),
    (DERIVES, r"output_padding is not supported", "a fault of PyTorch"),
    (
        r"autograd\.grad|backward\(",
        r"doesn't match the broadcast shape",
        "derivatives of PyTorch's vmap",
    ),
    (DERIVES, r"for \*: 'NoneType' and 'int'", "a hook of a missing gradient is not called"),
    (DERIVES, r"A different number of tensors was saved", "a frozen leaf"),
    (r"functional\.", r"element 0 of tensors does not require grad", "in inference mode too"),
    (r"out=", NO_OUT, "every op of one result has out="),
    (r"out=", OTHER_DTYPE, "out= of another dtype"),
    (r"out=", r"out=... arguments don't support automatic", "integers have no gradient"),
    (r"", r"Autograd not support dtype", "integers have no gradient"),
    (r"", r"(some|more than one) elements? of the .*written-to tensor", "results are written last"),
    (r"func\.", r"Tensor that doesn't have storage", "counts that are tensors under transforms"),
    (r"func\.", r"don't yet support saved tensor hooks", "transforms and hooks go together"),
    (r"func\.", r"mutate a captured Tensor", "captured tensors are written"),
    (DERIVES, r"Setting a forward grad that itself has a forward gradient", "dual levels nest"),
    (r"func\.", r"[Bb]atching rule|does not yet have a batching|data-dependent control", "vmap"),
    (r"func\.", WRITES + "|Inplace update to inference tensor", "writes in transforms"),
    (
        DERIVES,
        r"non-empty (TensorList|list of)|for tensor of size \[0",
        "derivatives of no elements",
    ),
    (
        DERIVES + "|group_norm",
        r"not have a device|shape '\[(\d+, )?0\]'",
        "group_norm without a weight",
    ),
    (r"kron\(|take_along_dim\(", r"view size is not compatible", "arguments of any layout"),
    (r"detach_\(", r"Can't detach views in-place", "results that are views only there"),
    (r"requires_grad_\(", r"only change requires_grad flags of leaf", "tangents"),
    (r"", r"mean\(\): could not infer output dtype", "losses of integers are floating"),
    (r"kl_div", r"(Integral|Complex) inputs not supported", "losses of any numbers"),
    (r"", r"could not create a primitive descriptor", "a kernel that this machine lacks there"),
    (
        r"",
        r"ZeroTensors are immutable|ZeroTensor is not ser|invalid python storage",
        "zeros are tensors like others",
    ),
    (r"", r"INTERNAL ASSERT FAILED|autocast::prioritize", "a fault of PyTorch"),
    (r"\] = ", r"Index put requires the source and destination dtypes match", "values are cast"),
    (r"\] = ", r"value cannot be converted to type \w+ without overflow", "values are cast"),
    (r"abs(olute)?_\(", r"In-place abs is not supported for complex tensors", "values are cast"),
    (r"", r"must have the same dtype, but got|result dtype \w+ does not match", "promotion"),
    (r"", r"expected dtype [\w:<> ]+ for `\w+` but got dtype", "promotion"),
    (r"triangular_solve|lu_unpack", r"has a different size than", "a triangle for a batch"),
    (r"lu_unpack", r"must match the size of tensor b \(0\)|triu: input", "no data asked for"),
    (DERIVES, r"linalg_eig_backward: The eigenvectors in the", "rounding, of eigenvalues alone"),
    (r"autocast.*\n.*fft\.i?hfft[2n]\(", r"Unsupported dtype", "autocast leaves these out there"),
    (r"fftshift", r"`shifts` required", "of a number, a copy"),
    (DERIVES, r"unresolved conjugated tensors", "what fft gives is conjugated lazily there"),
    (r"", r"Integer division with addcdiv is no longer supported", "by the input's dtype"),
]
# Where rushlight refuses what PyTorch computes, by rushlight's message.
REFUSED = [
    (r"", r"without ctx\.mark_dirty", "a Function that writes to an argument"),
    (r"out=", r"arguments don't support automatic differentiation", "out= drops no gradient"),
    (r"out=", r"storage that is not resizable", "a .data alias does not resize its origin"),
    (r"out=", r"result type (Complex\w+|Float|Double) can't be cast", "out= is not narrowed"),
    (r"logical_\w+_\(", r"a (view of a )?leaf Variable that requires grad", "leaves"),
    (r"kthvalue|mode|cummax|cummin", r"complex numbers have no order", "even one number"),
    (r"rms_norm", r"not implemented for '(Long|Complex\w+)'", "norms are of floating numbers"),
    (r"soft_margin_loss", r"not implemented for 'Complex\w+'", "losses of complex numbers"),
    (r"cum(sum|prod)_\(", r"not implemented for 'Bool'", "even one number"),
    (r"square", r"not implemented for 'Bool'", "bools are not multiplied"),
    (r"\] = ", r"some elements of the input tensor and the written-to", "a part written to itself"),
    (r"\] = ", r"cannot be converted to type double without", "an imaginary part by rounding"),
    (r"_norm", r"with respect to argument 'running_(mean|var)'", "statistics get no gradient"),
    (r"\] = |_\(|out=", r"more than one element of the written-to tensor", "expanded tensors"),
    (r"(sum|prod)_?\(", r"can't be cast to the desired output type", "results are not narrowed"),
    (r"loss|cross_entropy", r"with respect to argument 'weight'", "weights of classes get none"),
    (r"\[", r"is out of bounds for dimension", "indices are checked, even for no elements"),
    (DERIVES, r"derivative for heaviside is not implemented", "in place too"),
    (r"as_strided", r"reaches outside of its input", "samples of a batch with gaps"),
    (r"detach_\(", r"Can't detach views in-place", "results that are views only here"),
    (RECURRENT + "|rms_norm|igamma|zeta", r"Inference tensors cannot be saved", "inputs are saved"),
    (r"grad\(total", r"'NoneType' object is not iterable", "a derivative that depends on nothing"),
]
# Where rushlight refuses because of what came before: a pattern for that, rushlight's message.
USED_UP = [
    (r"make_dual", r"a second time", "a tangent shares parts of its primal's graph"),
    (r"trapz|trapezoid|\*\* ?-?\d|alpha=\(", r"a second time", "numbers are saved"),
    (r"copysign", r"saved by CopysignBackward0", "the sign's source is saved, not its sign"),
    (r"ndtr\(", r"saved by SpecialNdtrBackward0", "the input is saved, not a multiple"),
    (r"kron", r"saved by MulBackward0", "PyTorch does not notice the write"),
    (r"matmul|@", r"saved by BmmBackward0", "PyTorch saves a copy of another layout"),
    (r"checkpoint", r"torch.utils.checkpoint: ", "PyTorch does not notice the write"),
    (r"vmap.*m(in|ax|edian)\(", r"output 0 of M", "the result is saved"),
    (r"func\.", r"modified by an inplace", "PyTorch's transforms do not notice the write"),
    (r"_norm\(", r"modified by an inplace", "PyTorch saves a copy of another layout"),
    (RECURRENT, r"modified by an inplace", "inputs are saved"),
    (r"\.detach\(\)|\.data\b", r"update to inference", "detached, it is an inference tensor still"),
]
# Where both raise in different classes, by PyTorch's message.
BOTH = [
    (r"", r"not implemented for '\w+'", "an element type that PyTorch has no kernel for"),
    (r"", r"forward AD with .* that does not support it", "the class of reverse mode"),
    (r"out=", NO_OUT + "|must be tuple of Tensors", "every op of one result has out="),
    (r"out=", r"cat\(\): input types can't be cast", "the class of all other ops"),
    (r"func\.", r"don't yet support saved tensor hooks", "transforms and hooks go together"),
    (r"dual", r"INTERNAL ASSERT FAILED", "a fault of PyTorch"),
    (DERIVES, r"for \*: 'NoneType' and 'int'", "a hook of a missing gradient is not called"),
    (DERIVES, r"backward through the graph a second time", "only what was used up and is needed"),
    (r"vmap", r"data-dependent control flow", "vmap"),
    (DERIVES, r"derivative for '(inplace version|.* is not impl)", "every op has every derivative"),
    (r"jvp|dual", r"more than one element of the written-to tensor", "expanded primals"),
    (
        r"func|dual",
        r"Autograd not support dtype|tuple index out of range",
        "no floating point result",
    ),
    (r"\] = ", r"shape mismatch|out of bounds|\b[Aa] view |single memory", "what is checked first"),
]


def reason_in(entries, statement, text):
    for pattern, message, reason in entries:
        if re.search(pattern, statement) and re.search(message, text):
            return reason
    return None


def allowance(program, ours, theirs, spaces):
    """Why the exceptions of the last statement, one of which may be None, may differ; or None."""
    statement = program.statements[-1]
    names = {name for source in program.sources() for name in source.variables}
    empty = any(is_empty(spaces["torch"].get(name)) for name in names)
    if ours is None and empty and re.search(NO_ELEMENTS, str(theirs)):
        return "no elements"
    used = [spaces["torch"].get(name) for name in statement.variables]
    if re.search(r"input matrix is singular", str(ours or theirs)) and any(map(is_deficient, used)):
        return "a singular matrix"
    before = "\n".join(source.text for source in program.sources())
    if ours is None and "view size is not compatible" in str(theirs) and "dual" in before:
        return "tangents lie as their primals do"
    if ours is None:
        return reason_in(COMPUTED, statement.text, str(theirs))
    if theirs is not None:
        return reason_in(BOTH, statement.text, str(theirs))
    if re.search(r"a second time|modified by an inplace|update to inference", str(ours)):
        return "nothing is saved of no elements" if empty else reason_in(USED_UP, before, str(ours))
    if any(map(is_empty, used)) and re.search(r"implemented for|expected scalar type", str(ours)):
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
    (r"backward\(", r""),
]


def stops(statement, error):
    """Why both libraries stop at an exception with different states, or None."""
    for pattern, message in HALF_WAY:
        if re.search(pattern, statement.text) and re.search(message, repr(error)):
            return "PyTorch writes before it refuses"
    return None


COMPARES = r"\.(eq|ne|[lg][te]|less|greater|not_equal|logical)"
NO_TANGENT = r"dual[^\n]*(scatter_reduce|binary_cross_entropy_with_logits)"
TIES = r"scatter_reduce.*'am(ax|in)'.*include_self=False"
RESIZED = r"(take|slice_scatter|kron|chain_matmul|logsigmoid|mvlgamma)\(.*out="
FACTORS = r"(cholesky\w*|linalg\.\w+|orgqr|geqrf)\(.*out="


# Differences in one fact: its name, a pattern for the last statement, a test, the reason.
FACTS = [
    ("requires_grad", r"", is_integral, "integers never require grad"),
    ("requires_grad", COMPARES + r"\w*_\(", always, "comparisons"),
    ("requires_grad", DERIVES, constant_derivative, "a derivative that depends on nothing"),
    ("requires_grad", DERIVES, is_wrong_next, "PyTorch's derivatives of these are wrong"),
    ("requires_grad", ONE_NODE, always, "results of one node there"),
    ("kind", DERIVES, is_zero_gradient, "the gradient of a constant derivative"),
    ("kind", r"autograd\.grad\(", is_retained_aside, "a tangent that depends on nothing asked for"),
    ("kind", DERIVES, is_left_out, "PyTorch's derivatives of these are wrong"),
    ("is_leaf", DERIVES, is_zero, "the gradient of a derivative that depends on nothing"),
    ("length", DERIVES, is_call_for_nothing, "hooks of missing gradients"),
    ("shape", DERIVES, is_permuted, "the order of a node's gradients"),
    ("value", DERIVES, is_permuted, "the order of a node's gradients"),
    ("value", r"autograd\.grad\(", is_derived_by_result, "a formula of the result there"),
    ("length", DERIVES, is_function_of_derivative, "a derivative that depends on nothing"),
    ("length", r"inputs=\[", is_node_asked_for, "a node whose result is asked for does not run"),
    ("length", DERIVES, is_seen_by_node, "gradients that are not needed"),
    ("length", DERIVES, is_part_of_one_node, "results of one node there"),
    ("kind", DERIVES, is_part_of_one_node, "results of one node there"),
    ("requires_grad", DERIVES, is_part_of_one_node, "results of one node there"),
    ("kind", DERIVES, is_seen_by_node, "gradients that are not needed"),
    ("kind", r"pickle", is_missing_there, "pickle keeps .grad"),
    ("kind", r"Doubled", is_missing_there, ".grad stays after a write"),
    (
        "requires_grad",
        r"inference_mode\(\):\n|requires_grad_\(",
        is_part_of_hidden,
        "results are no views",
    ),
    ("requires_grad", r"inference_mode\(\):\n.*shuffle", has_no_elements, "an alias, by mistake"),
    (
        "dtype",
        r"autocast.*\n.*(loss|cross\(|lstm|gru|rnn|linalg)",
        always,
        "results under autocast",
    ),
    ("dtype", r"jvp|dual", is_wrong_tangent, "PyTorch's tangents of 0-dimensional tensors"),
    ("dtype", r"", is_product_with_zeros, "a fault of PyTorch"),
    ("shape", r"fft\.ihfftn\(.*out=", always, "out= of another shape, which is kept there"),
    ("shape", r"pixel_unshuffle", has_no_elements, "no elements"),
    (
        "value",
        r"(index_add|masked_scatter)_\(|(m(atmul|m|ean|v)|solve|am(in|ax))\(.*out=|[-+*/]= v",
        is_aliased,
        "written last",
    ),
    ("value", r"= torch\.linalg\.cholesky_ex\(", is_unfactored, "a matrix that has no factor"),
    ("value", DERIVES, is_large_exponential, "PyTorch's gradient has few digits"),
    ("value", DERIVES, is_hermitian_here, "PyTorch's gradient of a Hermitian matrix is not"),
    ("value", r"out=", is_single_precision, "integers are computed in float32"),
    (
        "value",
        r"\b(any|all)\(.*out=",
        always,
        "PyTorch casts elements to uint8 before it tests them",
    ),
    (
        "value",
        r"igamma|(jvp|dual)[^\n]*corrcoef",
        is_nan_here,
        "a derivative where there is no value",
    ),
    ("value", r"linalg\.(cond|solve_ex|inv_ex)\(|qr\(|logdet\(", is_singular, "a singular matrix"),
    ("value", DERIVES, is_zero_times_nan, "0 times a derivative that is NaN"),
    ("value", DERIVES, is_nan_there, "derivatives at 0 are numbers"),
    ("value", DERIVES, is_shared_there, "a fault of PyTorch"),
    ("value", DERIVES, is_rounded_sinc, "sums of halves that cancel"),
    ("value", DERIVES, is_written_unseen, "saved values, or copies of them"),
    ("value", DERIVES, is_wrong_there, "PyTorch's derivatives of these are wrong"),
    ("value", r"(jac|hess|jvp|dual)[^\n]*kl_div", is_nan_beside, "sums with NaN in them"),
    ("value", RESIZED, always, "out= that is resized has the strides of the plain result"),
    ("value", FACTORS, is_beside_out, "out= that is resized has the strides of the plain result"),
    ("length", DERIVES, is_hook_of_jvp, "the result of jvp is a view there"),
    ("value", r"(func|dual)[^\n]*" + TIES, always, "only what takes part is a tie"),
    ("kind", NO_TANGENT, is_missing_there, "PyTorch has no tangent, in silence"),
    (
        "value",
        r"(jvp|jacfwd|dual)[^\n]*(scatter_reduce|binary_cross_entropy)",
        is_zero_there,
        "PyTorch has no tangent, in silence",
    ),
    (
        "value",
        r"func\.[^\n]*func\.[^\n]*batch_norm",
        is_zero_there,
        "PyTorch's gradient by the bias does not depend on it",
    ),
    ("kind", r"dual", is_inference, "PyTorch has no tangent, in silence"),
    (
        "requires_grad",
        r"(jvp|dual)[^\n]*(scatter_reduce|binary_cross_entropy|logdet|addcmul)",
        always,
        "a tangent that does not depend on the point",
    ),
    ("value", r"(jvp|dual)[^\n]*fm(ax|in)\(", always, "its tangent of ties is not its gradient"),
    ("value", r"topk", is_tie, "the order of equal elements"),
    ("value", r"polygamma", always, "poles, and ten digits there"),
    ("value", r"func\.[^\n]*func\.[^\n]*prelu", always, "its kink has two sides there"),
    ("value", DERIVES, is_hook_of_hidden_view, "a hook of what is a view only there is lost"),
    ("value", r"histc", always, "edges of bins in the input's precision"),
    ("version", r"nan_to_num_\(", always, "integers have no NaN"),
    ("version", r"out=", always, "how often out= is written"),
    ("inference", r"channel_shuffle", has_no_elements, "an alias, by mistake"),
    ("inference", r"func\.|\.view\(torch\.", always, "results of transforms, and of no view"),
]


def excuse(case):
    """Why two accounts may differ in a fact, or None."""
    last = case.program.statements[-1].text
    for name, pattern, test, reason in FACTS:
        if name == case.fact.name and re.search(pattern, last) and test(case):
            return reason
    return None


def has_history(t):
    return t.requires_grad


# Statements with another history: the program ends there. A pattern, a test of what the statement
# made or wrote, the reason.
ENDS = [
    (r"logical_\w+_\(", has_history, "the history of what was overwritten"),
    (r"(func|dual)[^\n]*" + NORMS, has_history, "PyTorch's derivatives of these are wrong"),
    (TIES, has_history, "only what takes part is a tie"),
    (r"vmap.*select_scatter", has_history, "PyTorch's gradient is wrong"),
    (r"scatter_reduce.*'prod'", lambda t: t.is_complex(), "PyTorch's gradient is wrong"),
]


def ends(statement, spaces):
    """Why nothing can be said of what follows a statement, or None."""
    used = [spaces["torch"].get(name) for name in statement.variables]
    used = [value for value in used if hasattr(value, "numel")]
    for pattern, test, reason in ENDS:
        if re.search(pattern, statement.text) and any(map(test, used)):
            return reason
    return None
