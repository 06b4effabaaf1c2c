import pytest

from undertow.errors import CaptureError
from undertow.frontend.ttir import MOp, MType, Successor, parse_module, parse_type, walk
from undertow.ir import Loc

from .text import module


def read(line: str, at: int = 0) -> MOp:
    (func,) = parse_module(module(line))
    return func.region.blocks[0].ops[at]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32", MType("f32")),
        ("tensor<64x2xbf16>", MType("bf16", (64, 2))),
        ("!tt.ptr<f32>", MType("f32", (), True)),
        ("!tt.ptr<f32, 3>", MType("f32", (), True)),
        ("tensor<128x!tt.ptr<i8>>", MType("i8", (128,), True)),
        ("tensor<4xf8E4M3FN>", MType("f8E4M3FN", (4,))),
        ("!tt.ptr<tensor<16xf32>>", MType("!tt.ptr<tensor<16xf32>>")),
        ("!tt.tensordesc<tensor<16xf32>>", MType("!tt.tensordesc<tensor<16xf32>>")),
    ],
)
def test_types(text: str, expected: MType) -> None:
    assert parse_type(text) == expected


def test_a_type_is_printed_as_it_was_read() -> None:
    for text in ("f32", "tensor<64x2xbf16>", "!tt.ptr<f32>", "tensor<8x!tt.ptr<i8>>"):
        assert str(parse_type(text)) == text


def test_an_op_with_attributes_and_types() -> None:
    op = read("%r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>")
    assert (op.name, op.results, op.operands) == ("tt.make_range", ("%r",), ())
    assert op.attrs == {"end": "128 : i32", "start": "0 : i32"}
    assert op.type == MType("i32", (128,))
    assert op.loc == Loc("k.py", 7, 5)


def test_predicates_are_words() -> None:
    op = read("%r = arith.cmpi slt, %n, %n : i32")
    assert (op.words, op.operands) == (("slt",), ("%n", "%n"))


def test_keywords_and_modifiers_are_attributes() -> None:
    op = read("%r = arith.addf %a, %a fastmath<fast> : f32")
    assert (op.words, op.attrs) == ((), {"fastmath": "fast"})
    op = read(
        "%r = tt.load %x_ptr cacheModifier = ca evictionPolicy = evict_last"
        " : !tt.ptr<f32>"
    )
    assert op.attrs == {"cacheModifier": "ca", "evictionPolicy": "evict_last"}
    assert op.operands == ("%x_ptr",)


@pytest.mark.parametrize(
    ("line", "given", "made"),
    [
        ("%r = tt.splat %n : i32 -> tensor<8xi32>", ["i32"], ["tensor<8xi32>"]),
        ("%r = arith.sitofp %n : i32 to f32", ["i32"], ["f32"]),
        ("%r = arith.select %c, %a, %a : i1, f32", ["i1", "f32"], []),
        ("%r = x.y %a, %a : (f32, f32) -> (f32, i32)", ["f32", "f32"], ["f32", "i32"]),
        ("%r = tt.addptr %x_ptr, %n : !tt.ptr<f32>, i32", ["!tt.ptr<f32>", "i32"], []),
    ],
)
def test_operand_and_result_types(line: str, given: list[str], made: list[str]) -> None:
    op = read(line)
    assert [str(t) for t in op.operand_types] == given
    assert [str(t) for t in op.result_types] == made


def test_several_results() -> None:
    assert read("%o, %p = tt.split %a : f32 -> f32").results == ("%o", "%p")
    op = read("%o:2 = x.y %a : f32")
    assert op.results == ("%o#0", "%o#1")
    assert read("%o:2 = x.y %a : f32\n%p = x.z %o#1 : f32", 1).operands == ("%o#1",)


def test_strings_hide_what_stands_in_them() -> None:
    op = read('tt.print " %x: {a} loc(b), \\"c\\"" {hex = false} : %a : f32 loc(#loc1)')
    assert op.operands == ("%a",)
    assert op.attrs == {"hex": "false"}
    op = read('%r = tt.extern_elementwise %a {symbol = "__nv_tanhf"} : (f32) -> f32')
    assert op.attrs["symbol"] == '"__nv_tanhf"'


def test_a_generic_op_with_a_region() -> None:
    op = read(
        """
        %r = "tt.reduce"(%a) <{axis = 1 : i32}> ({
        ^bb0(%p: f32 loc(unknown), %q: f32 loc(callsite(#loc at #loc1))):
        %s = arith.addf %p, %q : f32
        tt.reduce.return %s : f32
        }) : (tensor<2x4xf32>) -> tensor<2xf32>
        """
    )
    assert (op.operands, op.attrs) == (("%a",), {"axis": "1 : i32"})
    assert str(op.type) == "tensor<2xf32>"
    (block,) = op.regions[0].blocks
    assert [arg.name for arg in block.args] == ["%p", "%q"]
    assert [inner.name for inner in block.ops] == ["arith.addf", "tt.reduce.return"]


def test_if_with_two_regions_and_an_elided_yield() -> None:
    op = read(
        """
        scf.if %c {
        tt.store %x_ptr, %a : !tt.ptr<f32>
        } else {
        tt.store %y_ptr, %a : !tt.ptr<f32>
        }
        """
    )
    names = [[o.name for o in region.blocks[0].ops] for region in op.regions]
    assert names == [["tt.store", "scf.yield"]] * 2


def test_loops_are_read_so_that_they_can_be_refused() -> None:
    op = read(
        """
        %s = scf.for %i = %n to %n step %n iter_args(%t = %a) -> (f32)  : i32 {
        scf.yield %t : f32
        } {tt.num_stages = 3 : i32}
        """
    )
    assert op.operands == ("%n", "%n", "%n", "%a")
    assert op.attrs == {"tt.num_stages": "3 : i32"}
    op = read(
        """
        %s = scf.while (%t = %a) : (f32) -> f32 {
        scf.condition(%c) %t : f32
        } do {
        ^bb0(%u: f32 loc(unknown)):
        scf.yield %u : f32
        }
        """
    )
    assert op.operands == ("%a",)
    assert [len(region.blocks) for region in op.regions] == [1, 1]


def test_branches_and_labels() -> None:
    (func,) = parse_module(
        module(
            """
            cf.cond_br %c, ^bb1, ^bb2(%a, %n : f32, i32)
            ^bb1:  // pred: ^bb0
            cf.br ^bb2(%a, %n : f32, i32)
            ^bb2(%p: f32 loc(unknown), %q: i32 loc(unknown)):  // 2 preds: ^bb0, ^bb1
            tt.return
            """
        )
    )
    entry, first, second = func.region.blocks
    assert entry.ops[0].successors == (
        Successor("^bb1", ()),
        Successor("^bb2", ("%a", "%n")),
    )
    assert entry.ops[0].operands == ("%c", "%a", "%n")
    assert first.label == "^bb1"
    assert [str(arg.type) for arg in second.args] == ["f32", "i32"]


def test_arguments_may_have_attributes() -> None:
    text = module(
        "%r = tt.load %z : !tt.ptr<f32>", z="!tt.ptr<f32> {tt.divisibility = 16 : i32}"
    )
    (func,) = parse_module(text)
    assert (func.args[-1].name, str(func.args[-1].type)) == ("%z", "!tt.ptr<f32>")
    assert func.args[-1].loc.name == "z"


def test_the_walk_is_that_of_mlir() -> None:
    funcs = parse_module(module("scf.if %c {\ntt.store %x_ptr, %a : !tt.ptr<f32>\n}"))
    assert list(walk(funcs)) == [
        ("tt.store", 2),
        ("scf.yield", 0),
        ("scf.if", 1),
        ("tt.return", 0),
        ("tt.func", 0),
        ("builtin.module", 0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"),
        ("func {", "expected `module`"),
        (module("%r = x.y").replace("%r = x.y loc(#loc1)", "%r = x.y"), "a location"),
        (module("?? = what").replace("??", "!!"), "expected an op"),
        (module("^bb0 extra:\ntt.return"), "expected the label of a block"),
        (module("tt.return").replace("tt.func", "tt.fun"), "expected a function"),
        (module("tt.return") + "more\n", "after the module"),
        (module("tt.return").replace("  } loc(#loc)\n", ""), "ends too early"),
        (module("%r = tt.load %x_ptr {a : !tt.ptr<f32>"), "a bracket stays open"),
    ],
)  # fmt: skip
def test_unreadable_text_is_an_error(text: str, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        parse_module(text)
