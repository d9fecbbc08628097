"""Models from a folder with a ``hubconf.py``, and state dicts from an address.

>>> import rushlight as torch
>>> torch.hub.get_dir().endswith("hub")
True
"""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import urlparse

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

_hub_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the part of a file name that is its hash


def get_dir() -> str:
    """The folder in which files are kept: ``$TORCH_HOME/hub``.

    >>> import rushlight as torch
    >>> torch.hub.get_dir().endswith("hub")
    True
    """
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Chooses the folder in which files are kept.

    >>> import rushlight as torch
    >>> before = torch.hub.get_dir()
    >>> torch.hub.set_dir("/tmp/models")
    >>> torch.hub.get_dir()
    '/tmp/models'
    >>> torch.hub.set_dir(before)
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def _refuse(repo: str) -> NoReturn:
    raise RuntimeError(
        f"torch.hub: rushlight does not run code straight from GitHub ({repo!r}): clone the "
        "repository and give its folder, with source='local'"
    )


def _hubconf(repo_or_dir: Any, source: str) -> ModuleType:
    """The module ``hubconf.py`` of a folder, freshly executed."""
    from importlib.util import module_from_spec, spec_from_file_location

    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(
            f'Unknown source: "{source}". Allowed values: "github" | "local".',
        )
    if source == "github":
        _refuse(repo_or_dir)
    folder = os.path.expanduser(repo_or_dir)
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"torch.hub: no hubconf.py in {folder!r}")
    spec = spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"torch.hub: {path} is not a Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, folder)  # hubconf imports its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [each for each in getattr(module, "dependencies", ()) if not _is_installed(each)]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    return name in sys.modules or find_spec(name) is not None


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None) if isinstance(name, str) else None
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(
    github: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
    *,
    source: str = "local",
) -> Any:
    """The functions that the ``hubconf.py`` of a folder offers.

    >>> import rushlight as torch, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text("def tiny(): return 1")
    ...     torch.hub.list(folder), torch.hub.load(folder, "tiny", source="local")
    (['tiny'], 1)
    """
    module = _hubconf(github, source)
    return [n for n, f in vars(module).items() if callable(f) and not n.startswith("_")]


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    *,
    source: str = "local",
) -> str | None:
    """The docstring of a function that a folder offers.

    >>> import rushlight as torch, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text("def one():\\n    '''A one.'''")
    ...     torch.hub.help(folder, "one")
    'A one.'
    """
    doc: str | None = _entry(_hubconf(github, source), model).__doc__
    return doc


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a function of the ``hubconf.py`` in a folder; ``source`` must be "local".

    >>> import rushlight as torch
    >>> torch.hub.load("pytorch/vision", "resnet18")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.hub: rushlight does not run code straight from GitHub ...
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Writes what is at an address to a file; its SHA-256 must begin with ``hash_prefix``.

    >>> import rushlight as torch, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, b = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
    ...     _ = a.write_text("text")
    ...     torch.hub.download_url_to_file(a.as_uri(), str(b))
    ...     b.read_text()
    'text'
    """
    import hashlib
    import shutil
    import tempfile
    from urllib.request import Request, urlopen

    from rushlight._terminal import Progress

    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    # Beside its place, so that nobody sees half a file.
    with (
        tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", delete=False) as part,
        urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as answer,
    ):
        try:
            total = int(answer.headers.get("Content-Length") or 0)
            with Progress(total, os.path.basename(dst), unit="bytes") as shown:
                while block := answer.read(1 << 17):
                    part.write(block)
                    digest.update(block)
                    if progress and total:
                        shown.update(part.tell())
            part.close()
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(
                    f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
                )
            shutil.move(part.name, dst)
        finally:
            if os.path.exists(part.name):
                os.unlink(part.name)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What a file at an address holds; it is kept in ``model_dir`` and downloaded once.

    >>> import rushlight as torch, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "weights.pt")
    ...     torch.save({"w": torch.ones(2)}, path)
    ...     torch.hub.load_state_dict_from_url(path.as_uri(), folder + "/kept")
    {'w': tensor([1., 1.])}
    """
    from rushlight.serialization import load as read

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        marked = HASH_REGEX.search(name) if check_hash else None
        if progress:
            sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        download_url_to_file(url, path, marked.group(1) if marked else None, progress)
    return read(path, map_location=map_location, weights_only=weights_only)


class _Bar:
    """The part of ``tqdm`` that downloads use, where that is not installed."""

    def __init__(self, total: int | None = None, disable: bool = False, **options: Any) -> None:
        from rushlight._terminal import Progress

        self.total, self.disable, self.n = total, disable, 0
        self._shown = Progress(total or 0, unit="bytes")

    def update(self, n: int) -> None:
        self.n += n
        if self.total and not self.disable:
            self._shown.update(self.n)

    def close(self) -> None:
        self._shown.close()

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        try:
            from tqdm import tqdm
        except ImportError:
            return _Bar
        return tqdm
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.hub", name)
