"""The older name of a function of ``torch.hub``."""

from rushlight.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> object:
    from rushlight import hub

    if name == "tqdm":
        return hub.tqdm
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils.model_zoo", name)
