"""A server under abuse for minutes (`make test-faults`): its memory does not grow.

T2T_ABUSE_MINUTES sets the duration; default 2.
"""

import json
import os
import sys
import time
from pathlib import Path

import abuse
import exported
import pytest
import served

MINUTES = float(os.environ.get("T2T_ABUSE_MINUTES", "2"))
PREDICT = "/v1/models/words:predict"

pytestmark = pytest.mark.faults


def resident_mb(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def round_of_abuse(server, seed):
    """Sends 200 malformed requests, large requests, and disconnects."""
    for case in abuse.rest_cases("words", 120, seed):
        assert abuse.send_rest(server, case)[0] in case.right, case
    with server.channel() as channel:
        for case in abuse.grpc_cases("words", 80, seed):
            assert abuse.send_grpc(channel, case) in case.right, case
        for _ in range(10):
            request = served.predict_request("words", text=["the 7"] * 8)
            served.prediction(channel).Predict.future(request).cancel()
    large = abuse.RestCase(PREDICT, b"a" * 60_000, (413,))
    assert abuse.send_rest(server, large)[0] == 413
    content = abuse.post(PREDICT, json.dumps(abuse.GOOD).encode())
    for size in range(0, len(content), 8):
        abuse.vanish(server, content[:size])
    assert server.get(PREDICT, abuse.GOOD)[0] == 200


def test_memory_does_not_grow(tmp_path):
    exported.export(tmp_path / "words" / "1", *exported.toy())
    with served.server(
        "--model_name=words",
        f"--model_base_path={tmp_path / 'words'}",
        "--request_timeout_s=3",
        "--max_request_bytes=50000",
    ) as server:
        ends = time.monotonic() + MINUTES * 60
        rounds, sizes = 0, []
        while time.monotonic() < ends or rounds < 20:
            round_of_abuse(server, seed=rounds)
            rounds += 1
            sizes.append(resident_mb(server))
        status, _ = server.get(PREDICT, abuse.GOOD)
        assert status == 200
        assert server.stop() == 0
    # One-time allocations, such as thread stacks, are done after a tenth.
    first, last = sizes[len(sizes) // 10], sizes[-1]
    print(
        f"\n{rounds} rounds of 200 malformed requests in {MINUTES:g} minutes: "
        f"{first:.0f} MB after a tenth of them, {last:.0f} MB at the end, "
        f"at most {max(sizes):.0f} MB"
    )
    assert last < 1.05 * first


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
