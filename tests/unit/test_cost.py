"""The arithmetic of `titen cost`, against values worked out by hand."""

import json

import pytest
from click.testing import CliRunner

from vps.cli.root import cli
from vps.cost import PRICES_AS_OF, Line, Workload, estimate
from vps.cost_extraction import (
    CHAT_MODELS,
    CHAT_PRICES_AS_OF,
    DEFAULT_CHAT_MODEL,
    ExtractionTokens,
    estimate_tokens,
    usd_per_thousand,
)


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


def test_a_thousand_extractions_by_hand() -> None:
    tokens = ExtractionTokens(2_000, 200)
    assert usd_per_thousand(tokens, "@cf/qwen/qwen3-30b-a3b-fp8") == pytest.approx(2 * 0.051 + 0.2 * 0.335, rel=0.01)
    assert usd_per_thousand(tokens, DEFAULT_CHAT_MODEL) == pytest.approx(2 * 0.293 + 0.2 * 2.253, rel=0.01)


@pytest.mark.parametrize(
    ("model", "usd_read", "usd_written"),
    [
        ("@cf/ibm-granite/granite-4.0-h-micro", 0.017, 0.112),
        ("@cf/qwen/qwen3-30b-a3b-fp8", 0.051, 0.335),
        ("@cf/meta/llama-3.1-8b-instruct-fp8-fast", 0.045, 0.384),
        ("@cf/zai-org/glm-4.7-flash", 0.060, 0.400),
        ("@cf/google/gemma-4-26b-a4b-it", 0.100, 0.300),
        ("@cf/meta/llama-3.1-8b-instruct-fp8", 0.152, 0.287),
        ("@cf/openai/gpt-oss-20b", 0.200, 0.300),
        ("@cf/meta/llama-4-scout-17b-16e-instruct", 0.270, 0.850),
        ("@cf/openai/gpt-oss-120b", 0.350, 0.750),
        ("@cf/mistralai/mistral-small-3.1-24b-instruct", 0.351, 0.555),
        ("@cf/aisingapore/gemma-sea-lion-v4-27b-it", 0.351, 0.555),
        ("@cf/meta/llama-3.3-70b-instruct-fp8-fast", 0.293, 2.253),
    ],
)
def test_neurons_give_the_price_in_tokens_that_cloudflare_shows_beside_them(
    model: str, usd_read: float, usd_written: float
) -> None:
    assert usd_per_thousand(ExtractionTokens(1_000, 0), model) == pytest.approx(usd_read, abs=0.001)
    assert usd_per_thousand(ExtractionTokens(0, 1_000), model) == pytest.approx(usd_written, abs=0.001)
    assert len(CHAT_MODELS) == 12


def test_an_extraction_reads_the_instructions_and_the_conversation() -> None:
    short, long = estimate_tokens(0, 200), estimate_tokens(3_000, 200)
    assert short.input_tokens > 500
    assert long.input_tokens == short.input_tokens + 1_000
    assert long.output_tokens == short.output_tokens == 310


def test_extractions_share_the_free_neurons_with_embeddings() -> None:
    measured = ExtractionTokens(2_000, 200)
    work = Workload(1_000, 0, 0, 300, extractions_per_day=1_000, extraction_tokens=measured)
    found = lines(work)
    neurons = 100_000 * 1_075 / 1e6 + 1_000 * (2_000 * 26_668 + 200 * 204_805) / 1e6
    assert found["Workers AI neurons a day"].used == pytest.approx(neurons)
    assert found["Workers AI neurons a day"].usd == pytest.approx((neurons - 10_000) / 1_000 * 0.011 * 30)
    assert found["requests a day"].used == 1_000 + 1_000 + 288
    assert "Workers AI neurons a day" in estimate(work).over_free


def test_the_command_tells_the_cost_of_a_thousand_extractions_and_takes_measured_tokens() -> None:
    shown = CliRunner().invoke(cli, ["cost", "--input-tokens", "2000", "--output-tokens", "200"])
    assert shown.exit_code == 0
    assert "reads 2,000 tokens and writes 200 (as given)" in shown.output
    assert f"of chat models as of {CHAT_PRICES_AS_OF}" in shown.output
    assert f"{DEFAULT_CHAT_MODEL}" in shown.output
    document = json.loads(CliRunner().invoke(cli, ["cost", "--extractions", "10", "--json"]).output)["extraction"]
    tokens = ExtractionTokens(document["input_tokens"], document["output_tokens"])
    assert document["measured"] is False
    for model, usd in document["usd_per_thousand"].items():
        assert usd == pytest.approx(usd_per_thousand(tokens, model), abs=0.0001)


def test_half_a_measurement_is_refused() -> None:
    shown = CliRunner().invoke(cli, ["cost", "--input-tokens", "2000"])
    assert shown.exit_code == 2
    assert "--output-tokens" in shown.output
