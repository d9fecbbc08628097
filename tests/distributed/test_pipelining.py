"""A model in stages trains as it does in one process."""

import pytest

import rushlight as torch
from processes import needs_mpi, run
from rushlight import nn
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

pytestmark = needs_mpi
F64 = torch.float64


class Pair(nn.Module):
    """Takes and gives two tensors, one of them without a gradient."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, index):
        return torch.tanh(self.layer(x)) + index.unsqueeze(1), index + 1


class Opening(nn.Module):
    def forward(self, x, index):
        return x * 1.0, index


class Closing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x, index):
        return self.layer(x)


def stages(count):
    torch.manual_seed(0)
    inner = [Pair() for _ in range(count)]
    made = [nn.Sequential(), *inner[1:-1], Closing()]
    made[0] = inner[0]
    return [m.double() for m in made]


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def pipeline(rank, size, rows):
    torch.manual_seed(1)
    x, target = torch.randn(rows, 4, dtype=F64), torch.randn(rows, 2, dtype=F64)
    index = torch.arange(rows)
    for schedule in (ScheduleGPipe, Schedule1F1B):
        for count in (1, 3, 5):
            alone = stages(size)
            optimizer = torch.optim.Adam([p for m in alone for p in m.parameters()], lr=0.05)
            mine = stages(size)[rank]
            own = torch.optim.Adam(mine.parameters(), lr=0.05)
            run_ = schedule(PipelineStage(mine, rank, size, "cpu"), count, loss_fn=loss_of)
            for _ in range(3):
                optimizer.zero_grad()
                expected, outputs = [], []
                for a, b, c in zip(
                    *(t.tensor_split(count) for t in (x, index, target)), strict=True
                ):
                    value = (a, b)
                    for m in alone:
                        value = m(*value)
                    outputs.append(value.detach())
                    loss = loss_of(value, c)
                    (loss / count).backward()
                    expected.append(loss.detach())
                optimizer.step()
                own.zero_grad()
                losses = []
                given = (x, index) if rank == 0 else ()
                found = run_.step(
                    *given, target=target if rank == size - 1 else None, losses=losses
                )
                own.step()
                if rank == size - 1:
                    torch.testing.assert_close(
                        torch.stack(losses), torch.stack(expected), rtol=0, atol=1e-12
                    )
                    torch.testing.assert_close(found, torch.cat(outputs), rtol=0, atol=1e-12)
                else:
                    assert found is None
            for a, b in zip(mine.parameters(), alone[rank].parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    before = [p.detach().clone() for p in mine.parameters()]
    out = run_.eval(*((x, index) if rank == 0 else ()))
    assert (out is None) == (rank < size - 1)
    assert all(torch.equal(p, b) for p, b in zip(mine.parameters(), before, strict=True))


@pytest.mark.parametrize(("size", "rows"), [(2, 6), (3, 7), (4, 5)])
def test_schedules(size, rows):
    run(pipeline, size, rows)


def held(rank, size):
    """1F1B keeps few micro-batches: the first stage no more than there are stages."""
    most = 0
    stage = PipelineStage(stages(size)[rank], rank, size, "cpu")
    schedule = Schedule1F1B(stage, 8, loss_fn=loss_of)
    forward = stage.forward

    def counting(*args):
        nonlocal most
        result = forward(*args)
        most = max(most, len(stage.inputs))
        return result

    stage.forward = counting
    x = torch.randn(8, 4, dtype=F64)
    given = (x, torch.arange(8)) if rank == 0 else ()
    schedule.step(*given, target=torch.zeros(8, 2, dtype=F64))
    assert most == size - rank
    with pytest.raises(ValueError, match="stage_index must be the rank"):
        PipelineStage(nn.ReLU(), (rank + 1) % size, size, "cpu")
    with pytest.raises(ValueError, match="num_stages must be the number of processes"):
        PipelineStage(nn.ReLU(), rank, size + 1, "cpu")


def test_1f1b_keeps_few_micro_batches():
    run(held, 2)
