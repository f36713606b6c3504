"""Prints every code object of some modules with its line table.

A line each: first line, table in hex, length of the bytecode, and the runs of
the truth as START:LINE, where START is a byte offset and LINE 0 for none.
"""

import argparse
import ast
import dis
import json
import sys
import tokenize
import types

# Statements far apart and far down, backwards jumps, calls over many lines,
# cleanup that has no line.
GAPS = "\n" * 70000 + "def far(a):\n" + "\n" * 300 + "    b = [\n" + "\n" * 140 + "        a,\n        a + 1]\n"
GAPS += "    with a as c:\n        for d in c:\n            try:\n                b(d,\n" + "\n" * 129
GAPS += "                  c,\n                  *b)\n            except ValueError as e:\n                del e\n"
GAPS += "    return (a and\n" + "\n" * 260 + "            b)\n"


def truth(code):
    if hasattr(code, "co_lines"):
        for start, _, line in code.co_lines():
            yield start, line or 0
    else:
        yield 0, code.co_firstlineno
        yield from dis.findlinestarts(code)


def show(code):
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    runs = " ".join("%d:%d" % run for run in truth(code))
    print(code.co_firstlineno, table.hex() or "-", len(code.co_code), runs)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            show(const)


print(*sys.version_info[:2])
show(compile(GAPS, "gaps", "exec"))
for module in argparse, ast, dis, json.decoder, tokenize, types:
    with open(module.__file__, "rb") as file:
        show(compile(file.read(), module.__file__, "exec"))
