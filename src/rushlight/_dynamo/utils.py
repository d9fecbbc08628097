"""What libraries ask before they compile."""


def is_compile_supported(device_type: str) -> bool:
    """False: nothing is compiled."""
    return False
