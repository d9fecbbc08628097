"""Public names of torch.fx exist here; what is left out is stated, with the reason."""

import importlib
import inspect
import warnings

import pytest
import torch.fx

import rushlight.fx

MODULES = [
    "fx", "fx.annotate", "fx.graph", "fx.graph_module", "fx.immutable_collections",
    "fx.interpreter", "fx.node", "fx.operator_schemas", "fx.proxy", "fx.subgraph_rewriter",
    "fx.traceback", "fx.experimental.optimization", "fx.experimental.proxy_tensor",
    "fx.experimental.symbolic_shapes", "fx.passes.graph_drawer", "fx.passes.graph_manipulation",
    "fx.passes.infra.pass_base", "fx.passes.infra.pass_manager", "fx.passes.operator_support",
    "fx.passes.pass_manager", "fx.passes.shape_prop", "fx.passes.split_module",
    "fx.passes.tools_common", "fx.passes.utils.common", "fx.passes.utils.matcher_utils",
    "fx.passes.utils.source_matcher_utils",
]  # fmt: skip
# Modules without a list of names, and what libraries take from them.
PRIVATE = {
    "fx._compatibility": ["compatibility"],
    "fx._pytree": ["register_pytree_flatten_spec", "tree_flatten_spec"],
    "fx._symbolic_trace": [
        "PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "_Patcher", "is_fx_tracing",
        "is_fx_symbolic_tracing", "symbolic_trace", "wrap", "_autowrap_check",
        "_patch_wrapped_functions", "_wrapped_fns_to_patch", "_wrapped_methods_to_patch",
    ],
    "fx._lazy_graph_module": ["_make_graph_module", "_LazyGraphModule"],
    "fx.graph": ["_PyTreeCodeGen", "_PyTreeInfo", "_Namespace", "magic_methods"],
    "fx.graph_module": [
        "_CodeOnlyModule", "_copy_attr", "_assign_attr", "_get_attr", "_forward_from_src",
        "_format_import_block", "_USER_PRESERVED_ATTRIBUTES_KEY", "_EvalCacheLoader",
        "_WrappedCall", "_addindent", "_exec_with_source", "_loader", "_del_attr", "_has_attr",
    ],
    "fx.node": ["Argument", "Target", "base_types", "_get_qualified_name", "_type_repr"],
    "fx.proxy": ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Scope", "TraceError"],
    "fx.tensor_type": ["Dyn", "TensorType", "is_consistent", "is_more_precise"],
    "fx.passes.infra.partitioner": ["CapabilityBasedPartitioner", "Partition"],
    "fx.passes.utils.fuser_utils": ["fuse_by_partitions", "topo_sort", "validate_partition"],
}  # fmt: skip
# Other layouts of memory, and sizes that are not known: neither exists here.
LAYOUTS = {
    "MklSubgraph", "UnionFind", "gen_mkl_autotuner", "modules_to_mkldnn", "reset_modules",
    "use_mkl_length",
}  # fmt: skip
ABSENT = {
    "fx.experimental.optimization": LAYOUTS,
    "fx.passes.tools_common": {"FxNetAccFusionsFinder"},
}
# Of modules that are mostly about what does not exist here, only what is listed there.
PARTIAL = {"fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes"}
# Names of earlier releases that libraries still ask for.
OLDER = {
    "fx.experimental.symbolic_shapes": {
        "definitely_false", "definitely_true", "has_hint", "hint_int",
    }
}  # fmt: skip


def there(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"torch.{module}")


def here(module):
    return importlib.import_module(f"rushlight.{module}")


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_of_a_module(module):
    if module in PARTIAL:
        unknown = {n for n in here(module).__all__ if not hasattr(there(module), n)}
        assert unknown == OLDER.get(module, set())
        return
    missing = {name for name in there(module).__all__ if not hasattr(here(module), name)}
    assert missing == ABSENT.get(module, set())


@pytest.mark.parametrize("module", PRIVATE)
def test_private_names_that_libraries_use(module):
    assert [n for n in PRIVATE[module] if not hasattr(there(module), n)] == []
    assert [n for n in PRIVATE[module] if not hasattr(here(module), n)] == []


CLASSES = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "CodeGen",
    "ProxyableClassMeta", "proxy.TracerBase", "proxy.ParameterProxy", "proxy.Attribute",
]  # fmt: skip
# Symbolic sizes and private parts of the generator of code and of export.
UNNEEDED = {"Graph": {"materialize_symint", "materialize_symints"}}


def member(library, path):
    found = library.fx
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", CLASSES)
def test_methods_take_the_same_arguments(path):
    ours, theirs = member(rushlight, path), member(torch, path)
    public = [n for n in vars(theirs) if not n.startswith("_")]
    assert {n for n in public if not hasattr(ours, n)} == UNNEEDED.get(path, set())
    for name in public:
        function = getattr(theirs, name)
        if inspect.isfunction(function) and hasattr(ours, name):
            expected = list(inspect.signature(function).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == expected, name
