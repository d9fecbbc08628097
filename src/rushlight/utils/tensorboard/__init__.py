"""Event files for TensorBoard, written without it and without TensorFlow."""

from rushlight.utils.tensorboard.writer import FileWriter as FileWriter
from rushlight.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
