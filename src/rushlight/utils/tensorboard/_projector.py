"""Points for TensorBoard's projector: tables of text, a sheet of small pictures, a list of them."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def _row(values: Any) -> str:
    cells = values if isinstance(values, (list, tuple)) else [values]
    return "\t".join(str(cell).replace("\t", " ").replace("\n", " ") for cell in cells)


def write_points(folder: str, points: Any) -> None:
    """``tensors.tsv``: a line for each point."""
    with open(os.path.join(folder, "tensors.tsv"), "w", encoding="utf-8") as file:
        for point in points.tolist():
            file.write("\t".join(map(str, point)) + "\n")


def write_labels(folder: str, labels: Sequence[Any], header: Sequence[str] | None) -> None:
    """``metadata.tsv``: a line for each point, and a header when there are columns."""
    with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8") as file:
        if header:
            file.write(_row(list(header)) + "\n")
        for label in labels:
            file.write(_row(label) + "\n")


def write_sheet(folder: str, pictures: Any) -> None:
    """``sprite.png``: pictures (N, C, H, W) of values between 0 and 1, row by row in a square."""
    import rushlight as torch
    from rushlight.utils.tensorboard._pictures import png

    count, channels, height, width = pictures.shape
    side = math.ceil(math.sqrt(count))
    empty = torch.zeros(side * side - count, channels, height, width)
    grid = torch.cat([pictures.detach().float(), empty]).reshape(
        side, side, channels, height, width
    )
    sheet = grid.permute(0, 3, 1, 4, 2).reshape(side * height, side * width, channels)
    pixels = (sheet * 255).clamp(0, 255).to(torch.uint8)
    with open(os.path.join(folder, "sprite.png"), "wb") as file:
        file.write(png(pixels))


def entry(tag: str, step: str, below: str, labels: bool, sheet: tuple[int, int] | None) -> str:
    """What ``projector_config.pbtxt`` says of a set of points."""
    lines = [
        "embeddings {",
        f'tensor_name: "{tag}:{step}"',
        f'tensor_path: "{below}/tensors.tsv"',
    ]
    if labels:
        lines.append(f'metadata_path: "{below}/metadata.tsv"')
    if sheet is not None:
        lines += [
            "sprite {",
            f'image_path: "{below}/sprite.png"',
            f"single_image_dim: {sheet[0]}",
            f"single_image_dim: {sheet[1]}",
            "}",
        ]
    return "\n".join([*lines, "}"]) + "\n"
