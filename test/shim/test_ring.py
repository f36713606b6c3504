import os
import threading

import pytest
from spanflame.ring import _HEADER, _POSITION, _SPARE, SLOTS, Ring, same_file


@pytest.fixture
def ring():
    ring = Ring()
    yield ring
    ring.handed_over()


def drops(ring):
    return int.from_bytes(ring._map[64:72], "little")


def test_size_and_seals(ring):
    assert os.fstat(ring.fd).st_size == len(ring._map) == _HEADER + SLOTS * 128
    with pytest.raises(OSError):
        os.ftruncate(ring.fd, 0)


def test_full_ring_drops_and_recovers(ring):
    for _ in range(SLOTS + 10):
        ring.write(1, b"x")
    assert drops(ring) == 10 + _SPARE
    ring._map[_POSITION : _POSITION + 8] = (100).to_bytes(8, "little")
    ring.write(1, b"x")
    assert drops(ring) == 10 + _SPARE


def test_slots_are_distinct_under_threads(ring):
    def work():
        for _ in range(200):
            ring.write(1, b"y" * 100)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sequences = [int.from_bytes(ring._map[at : at + 8], "little") for at in range(_HEADER, len(ring._map), 128)]
    assert sequences[:3200] == list(range(1, 3201))


def test_abandoned_map_does_not_close_a_reused_descriptor():
    ring = Ring()
    ring.handed_over()
    if ring._map_fd < 0:
        pytest.skip("this Python's maps keep no descriptor")
    os.close(ring._map_fd)
    reused = os.open("/dev/null", os.O_RDONLY)
    while reused != ring._map_fd:
        reused = os.dup(reused)
    ring.abandon()
    os.fstat(reused)
    assert not same_file(reused, ring._file)
