import pytest

from undertow.errors import CaptureError
from undertow.frontend.location import Locations, unquote
from undertow.ir import UNKNOWN, Loc

DEFINITIONS = [
    '#loc = loc("/a/k.py":3:1)',
    "#loc1 = loc(unknown)",
    '#loc2 = loc("/t/standard.py":191:40)',
    '#loc3 = loc("m"(#loc4))',
    '#loc4 = loc("/a/k.py":17:9)',
    "#loc5 = loc(callsite(#loc2 at #loc3))",
    '#loc6 = loc("inner"(#loc2))',
    "#loc7 = loc(callsite(#loc6 at #loc4))",
    "#loc8 = loc(callsite(#loc1 at #loc7))",
    '#loc9 = loc("b"(#loc3))',
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unknown", UNKNOWN),
        ("#loc1", UNKNOWN),
        ('"f.py":2:5', Loc("f.py", 2, 5)),
        ('"f.py":2:5 to :9', Loc("f.py", 2, 5)),
        ('"f.py":2:5 to 3:9', Loc("f.py", 2, 5)),
        ("#loc4", Loc("/a/k.py", 17, 9)),
        ("#loc3", Loc("/a/k.py", 17, 9, "m")),
        ("#loc5", Loc("/a/k.py", 17, 9, "m")),
        # The user's statement has no variable: the helper's serves.
        ("#loc7", Loc("/a/k.py", 17, 9, "inner")),
        ("#loc8", Loc("/a/k.py", 17, 9, "inner")),
        ("#loc9", Loc("/a/k.py", 17, 9, "b")),
        ("callsite(#loc1 at #loc3)", Loc("/a/k.py", 17, 9, "m")),
        ("callsite(#loc4 at #loc1)", Loc("/a/k.py", 17, 9)),
        ('"x_ptr"(#loc)', Loc("/a/k.py", 3, 1, "x_ptr")),
        ('"x_ptr"', Loc(name="x_ptr")),
        ("fused[#loc1, #loc4]", Loc("/a/k.py", 17, 9)),
        ('fused<"why">[#loc4, #loc2]', Loc("/a/k.py", 17, 9)),
    ],
)
def test_the_place_is_the_outermost_frame(text: str, expected: Loc) -> None:
    assert Locations(DEFINITIONS).resolve(text) == expected


def test_columns_start_at_1_where_triton_counts_from_0() -> None:
    old = Locations(['#loc = loc("/a/k.py":3:0)', '#loc1 = loc("/a/k.py":4:8)'])
    assert old.resolve("#loc") == Loc("/a/k.py", 3, 1)
    assert old.resolve("#loc1") == Loc("/a/k.py", 4, 9)


@pytest.mark.parametrize(
    "text", ["#loc99", "elsewhere", '"a":1:2 and more', "fused[#loc1"]
)
def test_an_unreadable_location_is_an_error(text: str) -> None:
    with pytest.raises(CaptureError, match="in the TTIR"):
        Locations(DEFINITIONS).resolve(text)


def test_strings_are_unescaped() -> None:
    assert unquote(r'"a\22b\\c\0A"') == 'a"b\\c\n'
