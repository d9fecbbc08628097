"""Which modules are sharded: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
