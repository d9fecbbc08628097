"""What all tests share. The comparison with PyTorch runs only where PyTorch is installed."""

import importlib.util
import signal

HAS_TORCH = importlib.util.find_spec("torch") is not None

collect_ignore = [] if HAS_TORCH else ["oracle"]


def pytest_configure():
    """Jobs in the background of a shell ignore Ctrl-C, which some tests press."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    if HAS_TORCH:
        return "oracle: PyTorch is installed, tests/oracle compares with it"
    return "oracle: PyTorch is not installed, tests/oracle is left out (extra: oracle)"
