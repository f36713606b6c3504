"""Customers of the shop: they come until it closes. Standard library only."""

import http.client
import itertools
import os
import pathlib
import random
import sys
import threading
import time

CUSTOMERS = 8
REQUESTS = [
    ("POST", "/checkout/{basket}"),
    ("GET", "/products"),
    ("GET", "/recommendations"),
    ("GET", "/report"),
]


def port():
    path = pathlib.Path(os.environ["SHOP_PORT"])
    for _ in range(600):
        if path.exists():
            return int(path.read_text())
        time.sleep(0.05)
    sys.exit("load: the shop did not open within 30 s")


failures = []


def customer(number, port):
    dice = random.Random(number)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for visit in itertools.count():
        method, path = REQUESTS[(number + visit) % len(REQUESTS)]
        # The shop's spans get a parent in another process.
        parent = f"00-{dice.getrandbits(128):032x}-{dice.getrandbits(64):016x}-01"
        path = path.format(basket=dice.randint(1, 1000))
        try:
            connection.request(method, path, headers={"traceparent": parent})
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            return  # closed
        if response.status != 200:
            failures.append(f"{method} {path}: {response.status}")
            return
        time.sleep(dice.uniform(0, 0.08))


def main():
    number = port()
    customers = [threading.Thread(target=customer, args=(n, number)) for n in range(CUSTOMERS)]
    for thread in customers:
        thread.start()
    for thread in customers:
        thread.join()
    if failures:
        sys.exit(f"load: {failures}")


main()
