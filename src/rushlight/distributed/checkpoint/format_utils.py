"""Checkpoints of ``torch.save`` as those of several processes; the way back is left out."""

from __future__ import annotations

from rushlight.distributed._single import absent as _absent

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_NAMES = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save"]

globals().update(_absent(__name__, _NAMES))


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Writes what a file of ``torch.save`` holds to a folder, for any number of processes.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight.distributed.checkpoint.format_utils import torch_save_to_dcp
    >>> folder = tempfile.mkdtemp()
    >>> torch.save({"x": torch.ones(1)}, f"{folder}/x.pt")
    >>> torch_save_to_dcp(f"{folder}/x.pt", f"{folder}/parts")
    """
    import rushlight
    from rushlight.distributed.checkpoint.state_dict_saver import save

    save(rushlight.load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
