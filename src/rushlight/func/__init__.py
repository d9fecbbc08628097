"""Functions of functions: derivatives and batching that nest to any depth."""

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
from rushlight.func._vmap import vmap as vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jet",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
