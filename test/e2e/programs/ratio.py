"""Burns 3:1 in two functions while a second thread sleeps."""

import sys
import time

import truth


def major(ns):
    return truth.burn(ns)


def minor(ns):
    return truth.burn(ns)


def sleeper(stop):
    time.sleep(stop)


def main():
    seconds = float(sys.argv[1])
    thread = truth.Thread(target=sleeper, args=(seconds,), name="sleeper")
    thread.start()
    cpu = truth.Tally()
    rounds = int(seconds * 1000 / 200)
    for _ in range(rounds):
        cpu.add("major", major(150_000_000))
        cpu.add("minor", minor(50_000_000))
    thread.join()
    truth.write(functions={k: {"cpu": v} for k, v in cpu.items()}, threads=truth.threads([thread]))


main()
