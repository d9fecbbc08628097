"""Writing what a training run shows: numbers, histograms, pictures, texts, for TensorBoard."""

from __future__ import annotations

import os
import socket
import time

import rushlight as torch
from rushlight.utils.tensorboard import _events, _pictures

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["FileWriter", "SummaryWriter"]

_count = 0  # of the files of this process: two may be opened in one second


class FileWriter:
    """An event file; what is written reaches the disk after ``flush_secs`` seconds at the latest.

    >>> import tempfile
    >>> from rushlight.utils.tensorboard import FileWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = FileWriter(folder)
    ...     writer.get_logdir() == folder
    ...     writer.close()
    True
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        global _count
        self._folder = os.fspath(log_dir)
        os.makedirs(self._folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        path = os.path.join(self._folder, f"{name}.{_count}{filename_suffix}")
        _count += 1
        self._file: Any = open(path, "wb")  # noqa: SIM115
        self._waiting = 0
        self._most, self._seconds = max_queue, flush_secs
        self._flushed = time.monotonic()
        self._file.write(_events.record(_events.event(time.time(), version="brain.Event:2")))
        self._file.flush()

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self._folder

    def add_graph(self, graph: bytes) -> None:
        """Writes a graph."""
        self._file.write(_events.record(_events.event(time.time(), graph=graph)))

    def add_summary(self, summary: bytes, global_step: int | None, walltime: float | None) -> None:
        """Writes a summary."""
        when = time.time() if walltime is None else walltime
        data = _events.event(when, int(global_step or 0), summary)
        self._file.write(_events.record(data))
        self._waiting += 1
        if self._waiting >= self._most or time.monotonic() - self._flushed > self._seconds:
            self.flush()

    def flush(self) -> None:
        """Has what was written reach the disk."""
        if not self._file.closed:
            self._file.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


def _vector(values: Any) -> Any:
    """Numbers of any kind as a vector of doubles, without a graph."""
    if not isinstance(values, torch.Tensor):
        values = torch.as_tensor(values)
    return values.detach().flatten().to(torch.float64)


def _number(value: Any, tag: str) -> float:
    found = _vector(value)
    if found.numel() != 1:
        raise AssertionError(
            f"add_scalar: the value of {tag!r} should have one element, got {found.numel()}"
        )
    return float(found.item())


def _bytes(picture: Any) -> Any:
    """Values of 0 to 1, or bytes, as bytes."""
    if picture.dtype is torch.uint8:
        return picture
    return (picture.detach().float() * 255).clamp(0, 255).to(torch.uint8)


class SummaryWriter:
    """Writes event files that TensorBoard shows, to ``log_dir`` or a folder below ``runs``.

    >>> import tempfile
    >>> from rushlight.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SummaryWriter(folder) as writer:
    ...         for step in range(3):
    ...             writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            stamp = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{stamp}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None or self.all_writers is None:
            options = (self.max_queue, self.flush_secs, self.filename_suffix)
            self.file_writer = FileWriter(self.log_dir, *options)
            self.all_writers = {self.log_dir: self.file_writer}
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self.log_dir

    def _add(self, summary: bytes, global_step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number of a step."""
        self._add(_events.scalar(tag, _number(scalar_value, tag)), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers of a step, in one chart: each has a file in a folder of its own."""
        self._get_file_writer()
        writers: Any = self.all_writers
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in writers:
                options = (self.max_queue, self.flush_secs, self.filename_suffix)
                writers[folder] = FileWriter(folder, *options)
            summary = _events.scalar(main_tag, _number(value, tag))
            writers[folder].add_summary(summary, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How the values are spread; ``bins`` is a number or the edges, else edges that widen."""
        numbers = _vector(values)
        if numbers.numel() == 0:
            raise ValueError("The input has no element.")
        least, most = float(numbers.min()), float(numbers.max())
        if isinstance(bins, str):
            edges = torch.tensor(_edges(), dtype=torch.float64)
        elif isinstance(bins, int):
            low, high = (least, most) if least < most else (least - 0.5, most + 0.5)
            edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
        else:
            edges = _vector(bins)
        inside = numbers[(numbers >= edges[0]) & (numbers <= edges[-1])]
        places = torch.bucketize(inside, edges[1:-1].contiguous(), right=True)
        counts = torch.bincount(places, minlength=len(edges) - 1)
        kept = counts.nonzero().flatten()
        if len(kept):
            first, last = int(kept[0]), int(kept[-1])
            limits = [float(edges[first]), *edges[first + 1 : last + 2].tolist()]
            heights = [0.0, *map(float, counts[first : last + 1].tolist())]
        else:
            limits, heights = [float(edges[-1])], [0.0]
        squares = float(numbers.dot(numbers))
        facts = (least, most, numbers.numel(), float(numbers.sum()), squares)
        self._add(_events.histogram(tag, *facts, limits, heights), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that is counted already."""
        limits, counts = _vector(bucket_limits).tolist(), _vector(bucket_counts).tolist()
        if len(limits) != len(counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        facts = (float(min), float(max), float(num), float(sum), float(sum_squares))
        self._add(_events.histogram(tag, *facts, limits, counts), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: numbers from 0 to 1, or bytes."""
        given = img_tensor if isinstance(img_tensor, torch.Tensor) else torch.as_tensor(img_tensor)
        pixels = _pictures.rows_columns_channels(_bytes(given), dataformats)
        data = _pictures.png(pixels)
        height, width, channels = pixels.shape
        self._add(_events.image(tag, height, width, channels, data), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several, as pictures."""
        import io

        for each in figure if isinstance(figure, list) else [figure]:
            file = io.BytesIO()
            each.savefig(file, format="png")
            width, height = (int(n) for n in each.get_size_inches() * each.dpi)
            summary = _events.image(tag, height, width, 4, file.getvalue())
            self._add(summary, global_step, walltime)
            if close:
                from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]

                pyplot.close(each)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound: numbers from -1 to 1."""
        sound = _vector(snd_tensor)
        data = _pictures.wav(sound, sample_rate)
        summary = _events.audio(tag, sample_rate, 1, sound.numel(), data)
        self._add(summary, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text, which may be Markdown."""
        content = _events.whole(1, 0)
        summary = _events.tensor_of_text(f"{tag}/text_summary", [text_string], "text", content)
        self._add(summary, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """The precision and recall of predictions between 0 and 1, by threshold."""
        truth, guess = _vector(labels), _vector(predictions)
        weight = torch.ones_like(truth) if weights is None else _vector(weights)
        count = min(num_thresholds, 127)
        places = (guess * (count - 1)).floor().to(torch.int64)
        zeros = torch.zeros(count, dtype=torch.float64)
        true = zeros.index_add(0, places, weight * truth).flip(0).cumsum(0).flip(0)
        false = zeros.index_add(0, places, weight * (1 - truth)).flip(0).cumsum(0).flip(0)
        misses, rejected = true[0] - true, false[0] - false
        tiny = 1e-7
        precision = true / (true + false).clamp(min=tiny)
        recall = true / (true + misses).clamp(min=tiny)
        rows = torch.stack([true, false, rejected, misses, precision, recall])
        content = _events.whole(2, count)
        summary = _events.tensor_of_numbers(
            tag, rows.flatten().tolist(), (6, count), "pr_curves", content
        )
        self._add(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """The settings of a run and what it reached, to compare runs by."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as inner:
            for summary in _events.hyperparameters(hparam_dict, list(metric_dict), time.time()):
                inner._add(summary, None, None)
            for name, value in metric_dict.items():
                inner.add_scalar(name, value, global_step)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of a model's forward pass on an input, operations inside their modules.

        It is the graph that is recorded for derivatives: parameters and what is made of them.
        """
        if input_to_model is None:
            raise ValueError("add_graph: give the model's input, as input_to_model")
        from rushlight.graphview._nodes import nodes_of

        inputs = input_to_model if isinstance(input_to_model, (tuple, list)) else [input_to_model]
        nodes = nodes_of(model, inputs)
        if verbose:
            for name, op, sources, _ in nodes:
                print(f"{name} = {op}({', '.join(sources)})")
        self._get_file_writer().add_graph(_events.graph(nodes))

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points (a row each) for the projector, with labels and small pictures of them."""
        from rushlight.utils.tensorboard import _projector

        points = torch.as_tensor(mat).detach()
        if points.dim() != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        if label_img is not None and len(label_img) != len(points):
            raise AssertionError("#images should equal with #data points")
        step = str(global_step or 0).zfill(5)
        below = f"{step}/{_file_name(tag)}"
        folder = os.path.join(self.log_dir, below)
        os.makedirs(folder, exist_ok=True)
        _projector.write_points(folder, points)
        if metadata is not None:
            _projector.write_labels(folder, metadata, metadata_header)
        sheet = None
        if label_img is not None:
            _projector.write_sheet(folder, label_img)
            sheet = (int(label_img.shape[3]), int(label_img.shape[2]))
        path = os.path.join(self.log_dir, "projector_config.pbtxt")
        with open(path, "a", encoding="utf-8") as file:
            file.write(_projector.entry(tag, step, below, metadata is not None, sheet))

    def flush(self) -> None:
        """Has what was written reach the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Ends the files; writing again starts new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("add_mesh", "add_video", "add_onnx_graph"):
            raise AttributeError(
                f"SummaryWriter.{name}: rushlight writes numbers, histograms, pictures, sounds, "
                "texts, curves, graphs, points and settings; use the tensorboardX package for the "
                "rest"
            )
        raise AttributeError(f"'SummaryWriter' object has no attribute '{name}'")


def _file_name(tag: str) -> str:
    """A tag as the name of a folder."""
    return "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):02x}" for c in tag)


def _edges() -> list[float]:
    """Edges of bins that grow by a tenth, on both sides of 0."""
    found, edge = [], 1e-12
    while edge < 1e20:
        found.append(edge)
        edge *= 1.1
    return [-x for x in reversed(found)] + [0.0] + found
