"""Event files: records with right checksums, which hold what was written."""

import struct

import pytest

import rushlight as torch
from rushlight.utils.tensorboard import SummaryWriter, _events


def records(folder):
    """The messages of the only file, their checksums tried."""
    (path,) = folder.glob("events.out.tfevents.*")
    data = path.read_bytes()
    found = []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        head, body, tail = data[8:12], data[12 : 12 + size], data[12 + size : 16 + size]
        assert struct.unpack("<I", head)[0] == _events.masked_crc(struct.pack("<Q", size))
        assert struct.unpack("<I", tail)[0] == _events.masked_crc(body)
        found.append(body)
        data = data[16 + size :]
    return found


def test_the_checksum_is_castagnolis():
    value = _events.masked_crc(b"123456789")
    plain = (value - 0xA282EAD8) & 0xFFFFFFFF
    assert (plain << 15 | plain >> 17) & 0xFFFFFFFF == 0xE3069283


def test_numbers(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(300):
            writer.add_scalar("loss", torch.tensor(0.5, requires_grad=True), step)
    opening, *rest = records(tmp_path)
    assert b"brain.Event:2" in opening
    assert len(rest) == 300
    assert b"loss" in rest[0]
    assert struct.pack("<f", 0.5) in rest[0]
    with pytest.raises(AssertionError, match="one element"):
        writer.add_scalar("two", torch.ones(2))


def test_every_kind_is_written(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", torch.randn(100))
        writer.add_histogram("h", torch.full((3,), 2.0), bins=4)
        writer.add_image("i", torch.rand(3, 4, 5))
        writer.add_image("grey", torch.zeros(4, 5, dtype=torch.uint8), dataformats="HW")
        writer.add_images("is", torch.rand(9, 1, 4, 5))
        writer.add_text("t", "text")
        writer.add_audio("a", torch.sin(torch.arange(100.0)))
        writer.add_pr_curve("p", torch.tensor([0, 1]), torch.tensor([0.2, 0.9]))
    assert len(records(tmp_path)) == 9
    with pytest.raises(ValueError, match="input format are different"):
        writer.add_image("i", torch.rand(3, 4, 5), dataformats="HW")
    with pytest.raises(ValueError, match="no element"):
        writer.add_histogram("h", torch.empty(0))


def test_settings_and_groups_have_folders_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 0)
        writer.add_hparams({"lr": 0.1, "deep": True, "name": "x"}, {"loss": 0.5}, run_name="run")
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {"both_a", "both_b", "run"}
    assert any(b"_hparams_/session_start_info" in body for body in records(tmp_path / "run"))


def test_what_is_left_out_says_so(tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(AttributeError, match="tensorboardX"):
        writer.add_graph(None)
