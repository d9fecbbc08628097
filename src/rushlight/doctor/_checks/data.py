"""Data: its order, its randomness, and what training and evaluation share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import _C
from rushlight.doctor import _workers
from rushlight.doctor._check import Check
from rushlight.doctor._trackers import Optimizers

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Batch, Step
    from rushlight.doctor._finding import Place


class _Loader:
    """What is known of a DataLoader that the program uses."""

    def __init__(self, loader: Any, place: Place | None) -> None:
        self.loader, self.place = loader, place
        self.epochs = self.batches = self.trained = 0
        self.first_epoch: list[tuple[float, float, int]] = []  # mean, variance, samples


class UnshuffledTrainingData(Check):
    """Training batches come in the order of the data, and batches differ by that order."""

    name = "unshuffled-training-data"
    severity = "serious"
    example = "DataLoader(sorted_dataset, batch_size=32)"
    fix = "DataLoader(dataset, shuffle=True)"

    def start(self) -> None:
        self.loaders: dict[int, _Loader] = {}
        self.current: _Loader | None = None

    def on_epoch(self, loader: Any, place: Place | None) -> None:
        known = self.loaders.setdefault(id(loader), _Loader(loader, place))
        known.epochs += 1

    def on_batch(self, batch: Batch) -> None:
        known = self.current = self.loaders.get(id(batch.loader))
        if known is None:
            return
        known.batches += 1
        if known.epochs == 1 and len(known.first_epoch) < 512:
            values = _one_per_sample(batch.data)
            if values is not None:
                variance = values.var(correction=0).item()
                known.first_epoch.append((values.mean().item(), variance, values.numel()))

    def on_gap(self) -> None:
        self.current = None

    def on_step(self, step: Step) -> None:
        if self.current is not None:
            self.current.trained += 1
            self.current = None

    def on_finish(self) -> None:
        for known in self.loaders.values():
            if known.trained < 2 or not _in_order(known.loader):
                continue
            ratio = _between_by_within(known.first_epoch)
            # By chance it is about 1; few batches leave more to chance.
            if ratio > (8 if len(known.first_epoch) >= 8 else 30):
                means = [mean for mean, _, _ in known.first_epoch]
                self.report(
                    "the loader that training uses does not shuffle, and the data is sorted: "
                    "batches differ far more than by chance",
                    known.place,
                    variance_between_batches_by_chance=round(ratio, 1),
                    smallest_batch_mean=min(means),
                    largest_batch_mean=max(means),
                    batches=len(means),
                    epochs=known.epochs,
                )


def _in_order(loader: Any) -> bool:
    """Whether a loader takes the samples one after the other."""
    from rushlight.utils.data import BatchSampler, SequentialSampler

    batches = loader.batch_sampler
    sampler = loader.sampler if batches is None else getattr(batches, "sampler", None)
    plain = batches is None or type(batches) is BatchSampler
    return plain and type(sampler) is SequentialSampler


def _parts(data: Any) -> list[Any]:
    """What a batch consists of: inputs first, labels last, as a rule."""
    if isinstance(data, Mapping):
        return list(data.values())
    return list(data) if isinstance(data, (list, tuple)) else [data]


def _one_per_sample(data: Any) -> Any:
    """A number for each sample of a batch: its label, or the mean of its elements."""
    tensors = [
        t for t in _parts(data) if isinstance(t, _C.Tensor) and t.dim() >= 1 and t.shape[0] >= 2
    ]
    if not tensors or tensors[-1].is_complex() or tensors[-1].numel() > 1_000_000:
        return None
    last = tensors[-1].detach().double()
    return last.reshape(last.shape[0], -1).mean(1)


def _between_by_within(batches: list[tuple[float, float, int]]) -> float:
    """How much the means of batches vary, by how much they would in a random order."""
    batches = [b for b in batches if b[2] == batches[0][2]]
    if len(batches) < 3:
        return 0.0
    means = [mean for mean, _, _ in batches]
    centre = sum(means) / len(means)
    between = sum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    within = sum(variance for _, variance, _ in batches) / len(batches)
    within = max(within, 1e-3 * between)  # sorted labels leave nothing within a batch
    return batches[0][2] * between / within if within > 0 else 0.0


class SameRandomnessInWorkers(Check):
    """Workers of a DataLoader draw the same random numbers: augmentations repeat."""

    name = "same-randomness-in-workers"
    severity = "serious"
    example = "worker_init_fn=lambda worker: random.seed(0)"
    fix = (
        "seed by worker: use get_worker_info().seed, or make the generator in worker_init_fn; "
        "leave the seeds that DataLoader sets as they are"
    )

    def start(self) -> None:
        self.place: Place | None = None

    def on_epoch(self, loader: Any, place: Place | None) -> None:
        if loader.num_workers >= 2 and self.place is None:
            self.place = place

    def on_finish(self) -> None:
        by_state: dict[tuple[str, str], set[int]] = {}
        drawn: dict[str, set[int]] = {}
        for use in _workers.uses():
            by_state.setdefault((use.stream, use.state), set()).add(use.worker)
            drawn.setdefault(use.stream, set()).add(use.worker)
        for (stream, _), equal in by_state.items():
            if len(equal) >= 2:
                self.report(
                    f"{len(equal)} workers draw the same numbers from {stream}",
                    self.place,
                    stream=stream,
                    workers_with_equal_state=len(equal),
                    workers_that_draw=len(drawn[stream]),
                )
                return


class EvaluationDataInTraining(Check):
    """Samples of an evaluation's dataset were trained on: its figures are too good."""

    name = "evaluation-data-in-training"
    severity = "serious"
    example = "Subset(data, range(70)), Subset(data, range(60, 96))"
    fix = "split the data once, before anything else, and keep duplicates on one side"

    ROWS = 200_000  # that are remembered
    SHARE = 0.05

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.trained: set[Any] = set()
        self.trained_on: dict[int, Any] = {}  # datasets
        self.evaluated: dict[int, tuple[Any, Place | None, set[Any]]] = {}
        self.pending: list[tuple[Any, Place | None, list[Any]]] = []
        self.weights: dict[tuple[int, Any], Any] = {}

    def on_batch(self, batch: Batch) -> None:
        self._settle()
        if len(self.trained) > self.ROWS:
            return
        value = next((t for t in _parts(batch.data) if isinstance(t, _C.Tensor)), None)
        if value is None or value.dim() < 2 or value.is_complex() or value.numel() > 4_000_000:
            return
        width = value[0].numel()
        # Short rows of whole numbers are equal by chance.
        if value.shape[0] and width >= (4 if value.is_floating_point() else 16):
            rows = self._hashes(value, width)
            self.pending.append((batch.loader.dataset, batch.place, rows))

    def _hashes(self, value: Any, width: int) -> list[Any]:
        key = width, value.device
        if key not in self.weights:
            angles = rushlight.arange(2 * width, dtype=_C.float64, device=value.device)
            self.weights[key] = (angles * 1.618).sin().view(width, 2)
        rows = value.detach().reshape(value.shape[0], width).double()
        # Products of matrices round by their shape: a sum of each row does not.
        sums = [(rows * self.weights[key][:, i]).sum(1).tolist() for i in (0, 1)]
        return list(zip(*sums, strict=True))

    def on_backward(self, event: Backward) -> None:
        for dataset, _, rows in self.pending:
            self.trained.update(rows)
            self.trained_on[id(dataset)] = dataset
        self.pending.clear()

    def on_gap(self) -> None:
        self.pending.clear()

    def _settle(self) -> None:
        """Batches that no pass followed were evaluated."""
        for dataset, place, rows in self.pending:
            entry = self.evaluated.setdefault(id(dataset), (dataset, place, set()))
            if len(entry[2]) < self.ROWS:
                entry[2].update(rows)
        self.pending.clear()

    def on_optimizer(self, optimizer: Any, place: Place | None) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if not any(id(p) in self.optimizers.known for p in parameters):
            self.on_finish()  # another model, of a fold say, which has seen nothing yet
            self.trained.clear()
            self.trained_on.clear()
            self.evaluated.clear()

    def on_finish(self) -> None:
        self._settle()
        for key, (_, place, rows) in self.evaluated.items():
            both = rows & self.trained
            # To evaluate on the very dataset of training is meant.
            if key in self.trained_on or len(both) < max(2, self.SHARE * len(rows)):
                continue
            self.report(
                f"{len(both)} of {len(rows)} samples of this evaluation were trained on",
                place,
                shared_samples=len(both),
                evaluated_samples=len(rows),
                trained_samples=len(self.trained),
                share=f"{len(both) / len(rows):.1%}",
            )
