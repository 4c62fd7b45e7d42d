"""How a server's memory is divided; that it keeps to it is in tests/faults."""

import os
import sys

import pytest

from t2t_keras.server import memory

MB = 1 << 20


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Returns the file of a container's limit; the process takes 700 MiB."""
    monkeypatch.setattr(memory, "_resident", lambda: 700 * MB)
    monkeypatch.setattr(memory, "_CONTAINER", (tmp_path / "no", tmp_path / "max"))
    return tmp_path / "max"


def test_what_is_left_is_for_graphs_bodies_requests_and_tensors(machine):
    # Of 3,300 MiB a quarter for graphs, and 20 times 16 MiB to read one body: of 2,155
    # an eighth for requests.
    found = memory.divided(4000, 16 * MB, 64 * MB)
    assert found.requests // MB == 269
    assert found.tensors // MB == 1885
    # A request and its answer, as tensors and as they are sent, go before an eighth;
    # graphs have at least 512 MiB.
    found = memory.divided(2000, 16 * MB, 64 * MB)
    assert found.requests == 160 * MB
    assert found.tensors == (2000 - 700 - 512 - 320 - 160) * MB


def test_too_little_is_refused_with_what_would_do(machine):
    least = 700 + 512 + 320 + 160 + 128 + 1
    with pytest.raises(ValueError, match=f"at least {least:,}: .* Received: 1,000"):
        memory.divided(1000, 16 * MB, 64 * MB)
    assert memory.divided(least, 16 * MB, 64 * MB).tensors >= 128 * MB


def test_the_default_is_most_of_the_machine_or_of_its_container(machine):
    whole = memory.available()
    assert whole == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for text, expected in (("max\n", whole), (f"{3000 * MB}\n", 3000 * MB)):
        machine.write_text(text)
        assert memory.available() == min(expected, whole)
    assert memory.divided(None, MB, MB) == memory.divided(2400, MB, MB)
    # A small machine may be enough for a small model: it is not refused.
    machine.write_text(f"{500 * MB}")
    assert memory.divided(None, MB, MB).tensors == 128 * MB


def test_room_is_what_the_process_has_not_taken(machine):
    assert memory.divided(2000, MB, MB).room() == 1300 * MB


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
