"""Customers of programs/web.py on the port given, until it closes."""

import http.client
import json
import sys
import threading

CUSTOMERS = 8
BASKET = json.dumps([{"name": f"item {n}", "price": n * 37 % 101, "count": 10 + n} for n in range(20)]).encode()


def customer(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        while True:
            connection.request("POST", "/basket", BASKET, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                sys.exit(f"load: status {response.status}")
    except (OSError, http.client.HTTPException):
        pass  # closed


for _ in range(CUSTOMERS):
    threading.Thread(target=customer, args=(int(sys.argv[1]),)).start()
