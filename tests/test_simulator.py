"""benchmarks/simulate.py: what its model of a step says where the answer is known."""

import importlib.util
import sys
from pathlib import Path

import pytest

from rushlight._commands import bench


@pytest.fixture(scope="module")
def simulate():
    place = Path(bench.folder()) / "simulate.py"
    spec = importlib.util.spec_from_file_location("simulate", place)
    module = sys.modules["simulate"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["simulate"]


def cluster(simulate, ranks, latency=0.0, bandwidth=1e9, **options):
    link = simulate.Link(latency, bandwidth)
    return simulate.Cluster(ranks, ranks, link, link, **options)


def test_links_work_beside_the_layers(simulate):
    layers = [simulate.Layer(1.0, 2.0, 1e9)] * 3
    plan = simulate.Plan(data=2, bucket=1e9)
    found = simulate.predict(layers, plan, cluster(simulate, 2))
    # Two rounds of half of the bytes: all but those of the last bucket are hidden.
    assert found.step == pytest.approx(9.0 + 1.0)
    assert found.communication == pytest.approx(3.0)


@pytest.mark.parametrize("sharded", [False, True])
def test_cores_that_ranks_share_compute_and_move_data_in_turn(simulate, sharded):
    layers = [simulate.Layer(1.0, 2.0, 1e9)] * 3
    plan = simulate.Plan(data=4, bucket=1e9, sharded=sharded)
    found = simulate.predict(layers, plan, cluster(simulate, 4, cores=2))
    rounds = 3 if sharded else 2  # gathered twice and scattered; an all_reduce is two rounds
    assert found.step == pytest.approx(2 * 9.0 + 3 * rounds * 0.75)


def test_waits_on_a_shared_machine_are_hidden_by_what_others_compute(simulate):
    layers = [simulate.Layer(1.0, 2.0, 1e3)] * 3
    plan = simulate.Plan(data=4, bucket=1e3)
    found = simulate.predict(layers, plan, cluster(simulate, 4, latency=0.1, cores=2))
    assert found.step == pytest.approx(18.0 + 0.2, abs=1e-4)  # that of the last bucket is not


def test_a_plan_is_for_all_ranks(simulate):
    with pytest.raises(ValueError, match="the plan is for 2 ranks, the cluster has 4"):
        simulate.predict(
            [simulate.Layer(1.0, 1.0, 1.0)], simulate.Plan(data=2), cluster(simulate, 4)
        )
