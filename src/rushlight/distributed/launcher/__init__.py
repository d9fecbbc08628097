"""Launchers that programs call: left out; ``rushlight launch`` and ``spawn`` start processes."""

from rushlight.distributed._single import absent as _absent

globals().update(_absent(__name__, ["LaunchConfig", "elastic_launch", "launch_agent"]))
