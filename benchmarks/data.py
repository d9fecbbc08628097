"""DataLoader and checkpoint files, against PyTorch: time per batch, and per file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import harness
from harness import Bench, Case, Row

SAMPLES = 2048


def over_tensors(batch: int, shuffle: bool, split: bool = False) -> Callable[[Any], dict[str, Any]]:
    """One pass over a TensorDataset of 64 features and a label."""

    def names(library: Any) -> dict[str, Any]:
        data = library.utils.data
        dataset = data.TensorDataset(
            library.zeros(SAMPLES, 64), library.zeros(SAMPLES, dtype=library.int64)
        )
        if split:
            dataset = data.random_split(dataset, [SAMPLES, 0])[0]
        loader = data.DataLoader(dataset, batch_size=batch, shuffle=shuffle)
        return {"loader": loader}

    return names


def _samples(library: Any, width: int) -> Any:
    class Samples(library.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.rows = library.zeros(SAMPLES, width)

        def __len__(self) -> int:
            return SAMPLES

        def __getitem__(self, index: int) -> Any:
            return self.rows[index], index % 10

    return Samples()


def over_samples(batch: int, width: int, workers: int = 0) -> Callable[[Any], dict[str, Any]]:
    """One pass over a dataset that gives a row and a number."""

    def names(library: Any) -> dict[str, Any]:
        loader = library.utils.data.DataLoader(
            _samples(library, width),
            batch_size=batch,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return {"loader": loader}

    return names


def start_up(library: Any) -> dict[str, Any]:
    dataset = _samples(library, 8)
    loader = library.utils.data.DataLoader(dataset, batch_size=SAMPLES // 2, num_workers=2)
    return {"loader": loader}


def model_state(library: Any) -> dict[str, Any]:
    """A state dict of many small tensors, in memory."""
    import io

    state = {f"layers.{i}.weight": library.zeros(32, 32) for i in range(200)}
    file = io.BytesIO()
    library.save(state, file)

    def save() -> None:
        library.save(state, io.BytesIO())

    def load() -> None:
        file.seek(0)
        library.load(file)

    return {"save": save, "load": load}


def one_tensor(folder: str) -> Callable[[Any], dict[str, Any]]:
    """A tensor of 256 MiB in a file."""

    def names(library: Any) -> dict[str, Any]:
        tensor = library.ones(2**26)
        path = os.path.join(folder, f"{library.__name__}.pt")
        library.save(tensor, path)
        return {"library": library, "tensor": tensor, "path": path}

    return names


PASS = "for _ in loader: pass"


def rows(bench: Bench) -> Iterable[Row]:
    batches = SAMPLES // 32
    small = (
        Case("TensorDataset, batch 32", over_tensors(32, False), PASS, 10, batches),
        Case("TensorDataset, batch 32, shuffled", over_tensors(32, True), PASS, 10, batches),
        Case("the same through random_split", over_tensors(32, True, True), PASS, 10, batches),
        Case("TensorDataset, batch 256", over_tensors(256, True), PASS, 10, SAMPLES // 256),
        Case("own Dataset, batch 32", over_samples(32, 64), PASS, 2, batches),
        Case("2 workers, batches of 17 KB", over_samples(32, 128, 2), PASS, 1.5, batches),
        Case("2 workers, batches of 2 MB", over_samples(32, 16384, 2), PASS, 1, batches),
        Case("2 workers: start, 2 batches, end", start_up, PASS),
        Case("save 200 small tensors to memory", model_state, "save()", 1),
        Case("load 200 small tensors from memory", model_state, "load()", 1),
    )
    yield from bench.compare_all(small)
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        large = one_tensor(folder)
        yield from bench.compare_all(
            (
                Case("save 256 MiB to a file", large, "library.save(tensor, path)"),
                Case("load 256 MiB from a file", large, "library.load(path)"),
                Case("load 256 MiB, mmap", large, "library.load(path, mmap=True)"),
            )
        )


if __name__ == "__main__":
    harness.main(rows, "Data loading and files")
