"""Needs nothing installed: burns, and tells what the interpreter looks like."""

import sys

BEFORE = sorted(sys.modules)

import os  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import truth  # noqa: E402


def spin():
    return truth.burn(int(float(sys.argv[1]) * 1e9) if len(sys.argv) > 1 else 400_000_000)


if __name__ == "__main__":
    used = spin()
    status = open("/proc/self/status").read()
    truth.write(
        functions={"spin": {"cpu": used}},
        modules=BEFORE,
        path=sys.path[1:],
        environ=dict(os.environ),
        cwd=os.getcwd(),
        argv=sys.argv,
        signals=[line for line in status.splitlines() if line.startswith(("SigCgt", "SigIgn", "SigBlk", "Threads"))],
        traced=[line for line in status.splitlines() if line.startswith("TracerPid")],
    )
