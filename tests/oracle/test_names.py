"""Public names of torch's modules exist here, and take the same arguments."""

import importlib
import inspect
import warnings

import pytest
import torch

import rushlight

MODULES = [
    "linalg", "fft", "special", "masked", "masked.maskedtensor", "masked.maskedtensor.core",
    "masked.maskedtensor.creation", "signal.windows", "sparse", "nested", "return_types",
    "autograd", "autograd.grad_mode", "autograd.function", "autograd.graph", "autograd.forward_ad",
    "autograd.functional", "autograd.profiler", "func", "functional",
    "distributions", "distributions.constraint_registry", "distributions.constraints",
    "distributions.kl", "distributions.transforms", "distributions.utils",
    "fx", "library", "futures", "hub", "overrides", "storage", "types",
    "nn", "nn.attention", "nn.attention.bias", "nn.attention.flex_attention", "nn.functional",
    "nn.grad", "nn.init", "nn.modules", "nn.modules.utils", "nn.parallel", "nn.utils",
    "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.rnn", "nn.utils.stateless",
    "optim", "optim.lr_scheduler", "optim.swa_utils", "amp", "multiprocessing", "random",
    "serialization", "testing", "jit", "export", "compiler", "cpu", "accelerator", "profiler",
    "utils", "utils._pytree", "utils._python_dispatch", "utils.checkpoint", "utils.data",
    "utils.data.datapipes.iter", "utils.data.datapipes.map", "utils.data.graph",
    "utils.data.graph_settings", "utils.dlpack", "utils.flop_counter", "utils.hooks",
    "utils.weak",
    "distributed", "distributed.checkpoint", "distributed.device_mesh", "distributed.fsdp",
    "distributed.nn", "distributed.optim", "distributed.pipelining", "distributed.tensor",
    "distributed.tensor.parallel",
]  # fmt: skip
# Public names that are left out, by the reason.
WITHOUT = {
    "PyTorch itself does not have it, though it lists it": {"sparse": ["solve"]},
    "kernels of GPUs for weights of which half are zeros": {
        "sparse": [
            "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUTLASS",
            "SparseSemiStructuredTensorCUSPARSELT", "to_sparse_semi_structured",
        ],
    },
    "matrices in float8 and float4 are not multiplied": {
        "nn.functional": ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"],
    },
    "tools of TorchScript, of which programs run as Python": {
        "nn.functional": ["assert_int_or_pair"],
        "jit": ["CompilationUnit", "export_opnames", "load", "save"],
    },
    "there is one implementation of attention": {
        "nn.attention": [
            "WARN_FOR_UNFUSED_KERNELS", "register_flash_attention_impl",
            "activate_flash_attention_impl", "list_flash_attention_impls",
            "current_flash_attention_impl", "restore_flash_attention_impl",
        ],
    },
    "there are no exported programs": {
        "export": [
            "AdditionalInputs", "Constraint", "CustomDecompTable", "default_decompositions", "dims",
            "ExportBackwardSignature", "ExportGraphSignature", "FlatArgsAdapter",
            "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule",
        ],
    },
    "nothing is compiled, so there are no caches, guards and backends": {
        "compiler": [
            "config", "set_default_backend", "get_default_backend", "set_enable_guard_collectives",
            "load_compiled_function", "save_cache_artifacts", "load_cache_artifacts",
            "keep_portable_guards_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
            "skip_guard_on_all_nn_modules_unsafe", "keep_tensor_guards_unsafe",
            "skip_guard_on_globals_unsafe", "skip_all_guards_unsafe", "nested_compile_region",
        ],
        "utils._python_dispatch": [
            "AliasInfo", "SchemaInfo", "any_torch_dispatch_mode_on_stack", "get_alias_info",
            "set_is_in_mode_without_ignore_compile_internals",
        ],
        "profiler": ["ExecutionTraceObserver"],
    },
    "protocols of PyTorch's own compiler, which type checkers read": {
        "utils._python_dispatch": ["TensorWithFlatten", "TraceableWrapperSubclass"],
    },
    "no new kinds of devices can be added": {
        "utils": [
            "ThroughputBenchmark", "generate_methods_for_privateuse1_backend", "get_cpp_backtrace",
            "rename_privateuse1_backend",
        ],
        "accelerator": ["Graph", "empty_host_cache"],
        "cpu": ["get_capabilities"],
        "serialization": [
            "register_package", "validate_cuda_device", "validate_hpu_device",
            "normalize_storage_type", "storage_to_tensor_type", "StorageType",
        ],
    },
    "lists for who checks PyTorch's own functions": {
        "overrides": [
            "enable_reentrant_dispatch", "get_ignored_functions", "get_overridable_functions",
            "get_testing_overrides", "redispatch_function",
        ],
    },
    "a generator is not for several threads at once": {"random": ["thread_safe_generator"]},
    "helpers of PyTorch's own reader and writer of files": {
        "serialization": [
            "SourceChangeWarning", "mkdtemp", "check_module_version_greater_or_equal", "skip_data",
        ],
    },
    "checks of annotated types of samples; decoders of images": {
        "utils.data": ["argument_validation", "runtime_validation", "runtime_validation_disabled"],
        "utils.data.datapipes.iter": ["RoutedDecoder"],
    },
    "options and parts of PyTorch's own engines": {
        "distributed": [
            "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BackendConfig",
            "BarrierOptions", "BroadcastOptions", "GatherOptions", "GroupName", "ProcessGroupGloo",
            "ReduceOptions", "ReduceScatterOptions", "Reducer", "ScatterOptions", "breakpoint",
            "record_comm", "shrink_group", "split_group",
        ],
    },
    "checkpoints in other formats, and planners of one's own": {
        "distributed.checkpoint": [
            "BytesStorageMetadata", "ChunkStorageMetadata", "HuggingFaceStorageReader",
            "HuggingFaceStorageWriter", "QuantizedHuggingFaceStorageReader", "ReadItem",
            "TensorStorageMetadata", "WriteItem", "load_sharded_optimizer_state_dict",
        ],
    },
    "of pipelines there are GPipe and 1F1B": {"distributed.pipelining": ["ScheduleDualPipeV"]},
    "later additions to fully_shard": {
        "distributed.fsdp": ["DataParallelMeshDims", "share_comm_ctx"],
    },
}  # fmt: skip
# Members of tensors: those of quantised ones, and two that are not meant for programs.
WITHOUT_MEMBERS = [
    "dequantize", "index", "int_repr", "q_per_channel_axis", "q_per_channel_scales",
    "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme", "slice_inverse",
]  # fmt: skip
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
    """What a module lists; where it lists nothing, what it defines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(f"torch.{name}")
    if hasattr(module, "__all__"):
        return list(dict.fromkeys(module.__all__))
    found = {n: v for n, v in vars(module).items() if not n.startswith("_") and callable(v)}
    own = (f"torch.{name}", "torch._C", "None")
    return [n for n, v in found.items() if str(getattr(v, "__module__", None)).startswith(own)]


def left_out(module):
    return [name for parts in WITHOUT.values() for name in parts.get(module, ())]


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_of_a_module_exist(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = importlib.import_module(f"rushlight.{module}")
        missing = [n for n in public(module) if not hasattr(ours, n)]
    assert sorted(missing) == sorted(left_out(module))


def test_all_members_of_tensors_exist():
    theirs = [n for n in dir(torch.Tensor) if not n.startswith("_")]
    missing = [n for n in theirs if not hasattr(rushlight.Tensor, n)]
    assert missing == WITHOUT_MEMBERS


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
