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
        writer.add_video("v", None)


def test_points_for_the_projector(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(
            torch.arange(6.0).reshape(3, 2),
            metadata=[["a", 1], ["b\tc", 2], ["d", 3]],
            label_img=torch.rand(3, 1, 4, 5),
            global_step=7,
            tag="all words",
            metadata_header=["word", "number"],
        )
        writer.add_embedding(torch.ones(2, 2))
        with pytest.raises(AssertionError, match="labels"):
            writer.add_embedding(torch.ones(2, 2), metadata=["a"])
        with pytest.raises(AssertionError, match="2D"):
            writer.add_embedding(torch.ones(2))
    folder = tmp_path / "00007" / "all%20words"
    assert (folder / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (folder / "metadata.tsv").read_text().splitlines()[2] == "b c\t2"
    assert (folder / "sprite.png").read_bytes().startswith(b"\x89PNG")
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2
    assert 'tensor_path: "00007/all%20words/tensors.tsv"' in config


def test_the_graph_of_a_model(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, torch.ones(2, 3))
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(model)
    body = records(tmp_path)[1]
    for name in (b"Sequential/0/weight_", b"Sequential/0/linear_", b"Sequential/1/relu_"):
        assert name in body


def test_tensorboard_itself_reads_the_files(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed",
        exc_type=ImportError,
    )
    with SummaryWriter(tmp_path) as writer:
        for step in range(4):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_histogram("h", torch.arange(10.0), 3)
        writer.add_image("picture", torch.rand(3, 4, 4), 1)
        writer.add_graph(torch.nn.Linear(2, 3), torch.ones(1, 2))
    found = reader.EventAccumulator(str(tmp_path), size_guidance={})
    found.Reload()
    assert [(e.step, e.value) for e in found.Scalars("loss")][:2] == [(0, 1.0), (1, 0.5)]
    assert found.Histograms("h")[0].histogram_value.num == 10
    assert found.Images("picture")[0].width == 4
    names = [node.name for node in found.Graph().node]
    assert names == ["Linear/weight_0", "Linear/bias_1", "Linear/linear_2"]
    shape = found.Graph().node[2].attr["_output_shapes"].list.shape[0]
    assert [d.size for d in shape.dim] == [1, 3]
