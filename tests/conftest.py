"""What all tests share. The comparison with PyTorch runs only where PyTorch is installed."""

import importlib.util

HAS_TORCH = importlib.util.find_spec("torch") is not None

collect_ignore = [] if HAS_TORCH else ["oracle"]


def pytest_report_header():
    if HAS_TORCH:
        return "oracle: PyTorch is installed, tests/oracle compares with it"
    return "oracle: PyTorch is not installed, tests/oracle is left out (extra: oracle)"
