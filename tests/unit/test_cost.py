"""The arithmetic of `titen cost`, against values worked out by hand."""

import json

import pytest
from click.testing import CliRunner

from vps.cli.root import cli
from vps.cost import PRICES_AS_OF, Line, Workload, estimate


def lines(workload: Workload) -> dict[str, Line]:
    return {line.what: line for line in estimate(workload).lines}


def test_a_small_workload_fits_free_and_costs_the_base_on_paid() -> None:
    found = estimate(Workload(100, 200, 4_000))
    assert found.over_free == ()
    assert found.paid_usd == 5.0


def test_free_ends_at_4882_vectors() -> None:
    assert not lines(Workload(0, 0, 4_882))["Vectorize dimensions stored"].is_over_free
    assert lines(Workload(0, 0, 4_883))["Vectorize dimensions stored"].is_over_free


def test_each_line_by_hand() -> None:
    found = lines(Workload(1_000, 5_000, 100_000, characters_per_memory=300, characters_per_question=60))
    assert found["requests a day"].used == 1_000 + 5_000 + 288
    assert found["D1 rows read a day"].used == 40_000 + 1_500_000 + 2_880
    assert found["D1 rows written a day"].used == 30_000
    assert found["D1 bytes stored"].used == 100_000 * (9_500 + 900)
    assert found["Vectorize dimensions stored"].used == 102_400_000
    assert found["Vectorize dimensions stored"].usd == pytest.approx(92_400_000 / 100_000_000 * 0.05)
    assert found["Vectorize dimensions queried a month"].used == (150_000 + 100_000) * 1_024
    assert found["Vectorize dimensions queried a month"].usd == pytest.approx((256_000_000 - 50_000_000) / 1e6 * 0.01)
    assert found["Workers AI neurons a day"].used == pytest.approx((1_000 * 100 + 5_000 * 20) * 1_075 / 1e6)
    assert estimate(Workload(1_000, 5_000, 100_000, 300, 60)).paid_usd == pytest.approx(5 + 0.0462 + 2.06, abs=0.01)


def test_what_is_above_paid_is_charged() -> None:
    found = lines(Workload(100_000, 400_000, 1_000_000, 300, 60))
    assert found["requests a day"].usd == pytest.approx((500_288 * 30 - 10_000_000) / 1e6 * 0.30)
    assert found["CPU-ms a request"].usd == pytest.approx((500_288 * 30 * 10 - 30_000_000) / 1e6 * 0.02)
    assert found["D1 rows written a day"].usd == pytest.approx((3_000_000 * 30 - 50_000_000) / 1e6)
    assert found["D1 bytes stored"].usd == pytest.approx((10.4 - 5) * 0.75)
    neurons = (100_000 * 100 + 400_000 * 20) * 1_075 / 1e6
    assert found["Workers AI neurons a day"].usd == pytest.approx((neurons - 10_000) / 1_000 * 0.011 * 30)


def test_nothing_used_costs_the_base_alone() -> None:
    assert estimate(Workload(0, 0, 0)).paid_usd == 5.0


def test_the_command_states_formulas_and_the_date_of_prices() -> None:
    shown = CliRunner().invoke(cli, ["cost", "--writes", "1000", "--recalls", "5000", "--stored", "100000"])
    assert shown.exit_code == 0
    assert "stored x 1024" in shown.output
    assert f"Prices as of {PRICES_AS_OF}" in shown.output
    assert "not enough for" in shown.output
    document = json.loads(CliRunner().invoke(cli, ["cost", "--json"]).output)
    assert document["prices_as_of"] == PRICES_AS_OF
    assert {line["what"] for line in document["lines"]} == set(lines(Workload(1, 1, 1)))
