import json
import math

import pytest
from spanflame import wire


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**64, 1.5, 1e300, "", 'é\u2028\x00"\\', [], [1, ["a"]], {}, {"a": {"b": [None]}}],
)
def test_encode_is_json(value):
    assert json.loads(wire.encode(value)) == value


def test_encode_what_json_has_no_word_for():
    assert wire.encode([math.nan, math.inf, -math.inf]) == "[null,null,null]"
    assert wire.encode("\udcff") == '"\\udcff"'  # a byte of a command line that is not UTF-8
    with pytest.raises(TypeError):
        wire.encode({"a": b""})


@pytest.mark.parametrize("text", ["", "1", "[]", "{", '{"a":1}x', '{"a":}', "[" * 10000, "NaN"])
def test_decode_refuses(text):
    with pytest.raises((ValueError, StopIteration, RecursionError)):
        wire.decode(text)


def test_decode():
    assert wire.decode('{"a":[1,2.5,"x",true,null]}') == {"a": [1, 2.5, "x", True, None]}
