"""Runs through several export windows, one function after the other."""

import truth


def _stage():
    return truth.burn(700_000_000)


table = {}
for i in range(5):
    name = f"stage_{i}"
    table[name] = {"cpu": truth.named(_stage, name)()}
truth.write(functions=table)
