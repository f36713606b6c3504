"""What profiling costs: programs bare and under profilers, side by side in one run.

Bare runs stand between all others, and each run is compared with the bare ones
before and after it, so what the machine does meanwhile cancels out.
"""

import argparse
import math
import os
import statistics
import sys
import time

import columns
import runner
import stats


def main():
    args = arguments()
    peers = [c for c in columns.peers(args.spanflame, sys.executable) if args.only in c.name]
    if args.control:
        peers.append(columns.CONTROL)
    for peer in peers:
        if peer.prefix and not os.access(peer.prefix[0], os.X_OK):
            sys.exit(f"bench: {peer.prefix[0]} is missing: make build")
    bench = runner.Runner(sys.executable, args.seconds)
    begin, others = time.monotonic(), runner.others()
    results = []
    for program in args.programs.split(","):
        bare, runs = measure(bench, program, peers, args.rounds)
        results.append((program, bare, runs))
    took = time.monotonic() - begin
    print_table(results, peers)
    print(
        f"\n[95 % interval]; n.m.: not measurable, it holds 1.\n"
        f"{args.rounds} rounds of {args.seconds:g} s windows, {os.cpu_count()} cores, {took:.0f} s in all; "
        f"meanwhile other programs used {(runner.others() - others) / took:.0%} of a core."
    )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spanflame", default="bin/spanflame")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("BENCH_ROUNDS", "8")))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("BENCH_SECONDS", "1.5")))
    parser.add_argument("--programs", default=",".join(runner.PROGRAMS))
    parser.add_argument("--only", default="", metavar="TEXT", help="only columns with TEXT in their name")
    parser.add_argument("--control", action="store_true", help="a column that is bare too: it has to be n.m.")
    args = parser.parse_args()
    if args.rounds < 6:
        print("bench: under 6 rounds there is no 95 % interval", file=sys.stderr)
    return args


def measure(bench, program, peers, rounds):
    """Returns the bare runs, and for each peer its runs with the two bare neighbours."""
    print(f"bench: {runner.PROGRAMS[program]}", end="", file=sys.stderr, flush=True)
    bare, runs = [bench.run(program, columns.BARE)], {peer.name: [] for peer in peers}
    for r in range(rounds):
        for i in range(len(peers)):
            peer = peers[(i + r) % len(peers)]  # no one always comes first
            run = bench.run(program, peer)
            bare.append(bench.run(program, columns.BARE))
            runs[peer.name].append((run, bare[-2], bare[-1]))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return bare, runs


def compare(triples, of):
    return stats.ratio([math.log(of(run)) - (math.log(of(a)) + math.log(of(b))) / 2 for run, a, b in triples])


def print_table(results, peers):
    row = "{:<20} {:<15} {:<30} {:<30} {:<12}".format
    print(row("program", "profiler", "throughput / bare", "target CPU per unit / bare", "own CPU").rstrip())
    for program, bare, runs in results:
        median = statistics.median(run.cpu_per_unit for run in bare)
        rate = statistics.median(run.throughput for run in bare)
        print(row(runner.PROGRAMS[program], "bare", f"1 ({rate:.0f} units/s)", f"1 ({median * 1e6:.0f} µs)", "-"))
        # A bare target's teardown comes after its report, and is no profiler's.
        teardown = statistics.median(run.rest for run in bare)
        for peer in peers:
            triples = runs[peer.name]
            own = "in target"
            if peer.outside:
                share = statistics.median((run.rest - teardown) / run.seconds for run, _, _ in triples)
                own = f"{share:.1%}"
            throughput = compare(triples, lambda run: run.throughput)
            cpu = compare(triples, lambda run: run.cpu_per_unit)
            print(row("", peer.name, str(throughput), str(cpu), own))


if __name__ == "__main__":
    try:
        main()
    except runner.Failed as e:
        sys.exit(f"bench: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
