"""Functions of functions: derivatives and batching that nest to any depth."""

from rushlight.func._compat import (
    debug_unwrap as debug_unwrap,
    functionalize as functionalize,
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
from rushlight.func._functional_call import functional_call as functional_call
from rushlight.func._functional_call import stack_module_state as stack_module_state
from rushlight.func._grad import (
    grad as grad,
    grad_and_value as grad_and_value,
    jvp as jvp,
    linearize as linearize,
    vjp as vjp,
)
from rushlight.func._jacobian import hessian as hessian
from rushlight.func._jacobian import jacfwd as jacfwd
from rushlight.func._jacobian import jacrev as jacrev
from rushlight.func._jet import jet as jet
from rushlight.func._products import gauss_newton_product as gauss_newton_product
from rushlight.func._products import hvp as hvp
from rushlight.func._rearrange import rearrange as rearrange
from rushlight.func._sparse import (
    Coloring as Coloring,
    SparseJacobian as SparseJacobian,
    banded_jacobian as banded_jacobian,
    coloring as coloring,
    sparse_jacobian as sparse_jacobian,
)
from rushlight.func._vmap import vmap as vmap

__all__ = [
    "Coloring",
    "SparseJacobian",
    "banded_jacobian",
    "coloring",
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "gauss_newton_product",
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jet",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "sparse_jacobian",
    "stack_module_state",
    "vjp",
    "vmap",
]
