"""Division of a server's memory; tests/faults tests that the server respects it."""

import os
import sys

import pytest

from t2t_keras.server import memory_budget

MB = 1 << 20


@pytest.fixture
def limit_file(monkeypatch, tmp_path):
    """File with a container's memory limit; the process uses 700 MiB."""
    monkeypatch.setattr(memory_budget, "_resident", lambda: 700 * MB)
    monkeypatch.setattr(
        memory_budget, "_CONTAINER", (tmp_path / "no", tmp_path / "max")
    )
    return tmp_path / "max"


def test_memory_is_divided_into_graphs_bodies_requests_and_tensors(limit_file):
    # A quarter of 3,300 MiB is for graphs and 20 times 16 MiB to parse one body; an
    # eighth of the remaining 2,155 MiB is for requests.
    budget = memory_budget.divide_memory(4000, 16 * MB, 64 * MB)
    assert budget.requests // MB == 269
    assert budget.tensors // MB == 1885
    # Requests have at least the size of a request and its response, as tensors and as
    # sent; graphs have at least 512 MiB.
    budget = memory_budget.divide_memory(2000, 16 * MB, 64 * MB)
    assert budget.requests == 160 * MB
    assert budget.tensors == (2000 - 700 - 512 - 320 - 160) * MB


def test_too_small_limit_is_rejected_with_the_minimum(limit_file):
    minimum = 700 + 512 + 320 + 160 + 128 + 1
    with pytest.raises(ValueError, match=f"at least {minimum:,}: .* Received: 1,000"):
        memory_budget.divide_memory(1000, 16 * MB, 64 * MB)
    assert memory_budget.divide_memory(minimum, 16 * MB, 64 * MB).tensors >= 128 * MB


def test_default_is_80_percent_of_machine_or_container(limit_file):
    total = memory_budget.system_memory()
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for text, expected in (("max\n", total), (f"{3000 * MB}\n", 3000 * MB)):
        limit_file.write_text(text)
        assert memory_budget.system_memory() == min(expected, total)
    assert memory_budget.divide_memory(None, MB, MB) == memory_budget.divide_memory(
        2400, MB, MB
    )
    # A small machine may be enough for a small model, so it is not rejected.
    limit_file.write_text(f"{500 * MB}")
    assert memory_budget.divide_memory(None, MB, MB).tensors == 128 * MB


def test_available_bytes_are_the_memory_not_yet_allocated(limit_file):
    assert memory_budget.divide_memory(2000, MB, MB).available_bytes() == 1300 * MB


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
