"""Public names of torch's modules exist here, and take the same arguments."""

import importlib
import inspect

import pytest
import torch

import rushlight

MODULES = [
    "autograd",
    "autograd.grad_mode",
    "autograd.function",
    "autograd.graph",
    "autograd.forward_ad",
    "distributions",
    "distributions.constraint_registry",
    "distributions.constraints",
    "distributions.kl",
    "distributions.transforms",
    "distributions.utils",
    "futures",
    "hub",
    "library",
    "nn.attention.bias",
    "nn.attention.flex_attention",
    "nn.modules.utils",
    "nn.parallel",
    "utils._pytree",
    "utils.flop_counter",
    "utils.weak",
]
# Modules of which only a part is here, or nothing, and why.
LEFT_OUT = {
    "export": "there are no exported programs: the names that are there say what to use",
    "onnx": "ONNX files are not written",
    "distributed": "what is named is there (tests/distributed); no rpc",
    "ao": "quantisation",
    "quantization": "quantisation",
    "mtia": "no such device",
    "package": "archives of code",
}
TENSOR_MEMBERS = [
    "grad", "grad_dtype", "grad_fn", "requires_grad", "requires_grad_", "is_leaf", "retain_grad",
    "retains_grad", "backward", "detach", "detach_", "register_hook",
    "register_post_accumulate_grad_hook", "data", "output_nr", "_version", "_base", "_is_view",
    "is_inference", "_backward_hooks", "_post_accumulate_grad_hooks",
]  # fmt: skip
QUERIES = [
    "is_grad_enabled", "is_inference", "is_inference_mode_enabled", "is_anomaly_enabled",
    "is_anomaly_check_nan_enabled", "set_anomaly_enabled", "use_deterministic_algorithms",
    "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
    "get_deterministic_debug_mode", "set_deterministic_debug_mode",
]  # fmt: skip
CALLABLES = [
    "nn.attention.flex_attention.flex_attention", "nn.attention.flex_attention.create_block_mask",
    "library.custom_op", "library.register_autograd", "library.register_fake", "library.opcheck",
    "library.register_kernel", "library.register_vmap", "library.infer_schema",
    "utils._pytree.register_pytree_node", "utils._pytree.tree_map", "utils._pytree.tree_flatten",
    "futures.collect_all", "hub.load", "hub.load_state_dict_from_url", "cond",
    "autograd.backward", "autograd.grad", "autograd.gradcheck", "autograd.gradgradcheck",
    "autograd.set_detect_anomaly", "autograd.detect_anomaly", "autograd.set_grad_enabled",
    "autograd.inference_mode", "autograd.set_multithreading_enabled",
    "autograd.enforce_grad_layout_policy", "autograd.graph.saved_tensors_hooks",
    "autograd.graph.save_on_cpu", "autograd.graph.disable_saved_tensors_hooks",
    "autograd.graph.register_multi_grad_hook", "autograd.graph.increment_version",
    "autograd.graph.get_gradient_edge",
    "autograd.forward_ad.make_dual", "autograd.forward_ad.unpack_dual",
    "autograd.forward_ad.enter_dual_level", "autograd.forward_ad.exit_dual_level",
    "autograd.graph.set_warn_on_accumulate_grad_stream_mismatch",
    "autograd.graph.set_override_stale_capture_stream", "use_deterministic_algorithms",
    "set_deterministic_debug_mode",
]  # fmt: skip


def public(name):
    return importlib.import_module(f"torch.{name}").__all__


@pytest.mark.parametrize(("module", "name"), [(m, n) for m in MODULES for n in public(m)])
def test_the_public_names_of_a_module_exist(module, name):
    assert hasattr(importlib.import_module(f"rushlight.{module}"), name)


@pytest.mark.parametrize("module", LEFT_OUT)
def test_what_is_left_out_is_no_silent_part(module):
    """A name is there or raises AttributeError: nothing of it is half there."""
    ours = getattr(rushlight, module, None)
    for name in dir(ours) if ours is not None else ():
        if not name.startswith("_"):
            getattr(ours, name)


@pytest.mark.parametrize("name", TENSOR_MEMBERS)
def test_members_of_tensors_exist(name):
    assert hasattr(torch.Tensor, name)
    assert hasattr(rushlight.Tensor, name)


@pytest.mark.parametrize("name", QUERIES)
def test_queries_exist(name):
    assert hasattr(torch, name)
    assert callable(getattr(rushlight, name))


@pytest.mark.parametrize("path", CALLABLES)
def test_arguments_have_torchs_names_and_order(path):
    ours, theirs = rushlight, torch
    parent = path.rpartition(".")[0]
    for library in ("rushlight", "torch"):
        importlib.import_module(f"{library}.{parent}".rstrip("."))
    for part in path.split("."):
        ours, theirs = getattr(ours, part), getattr(theirs, part)
    expected = list(inspect.signature(theirs).parameters)
    assert list(inspect.signature(ours).parameters)[: len(expected)] == expected
