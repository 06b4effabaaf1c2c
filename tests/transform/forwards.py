"""Forward kernels in IR text, for tests of the transformations."""

from __future__ import annotations

from undertow.ir import Kernel, parse, verify

LANES = """
  %pid = program_id() <axis=0> : i32
  %8 = const() <value=8> : i32
  %start = mul(%pid, %8) : i32
  %lane = range() <end=8, start=0> : i32[8]
  %wide = broadcast(%start) : i32[8]
  %offs = add(%wide, %lane) : i32[8]
  %n8 = broadcast(%n) : i32[8]
  %mask = cmp(%offs, %n8) <predicate='slt'> : i1[8]
  %zero = const() <value=0.0> : f32[8]
"""
"""``offs = pid * 8 + arange(8)`` and ``mask = offs < n``."""

ROW = """
  %pid = program_id() <axis=0> : i32
  %lane = range() <end=8, start=0> : i32[8]
  %n8 = broadcast(%n) : i32[8]
  %mask = cmp(%lane, %n8) <predicate='slt'> : i1[8]
  %row = mul(%pid, %s) : i32
  %zero = const() <value=0.0> : f32[8]
"""
"""One row a program: ``row = pid * s`` and ``mask = arange(8) < n``."""

TILE = """
  %pid = program_id() <axis=0> : i32
  %4 = const() <value=4> : i32
  %start = mul(%pid, %4) : i32
  %rlane = range() <end=4, start=0> : i32[4]
  %rstart = broadcast(%start) : i32[4]
  %rows = add(%rstart, %rlane) : i32[4]
  %cols = range() <end=8, start=0> : i32[8]
  %m4 = broadcast(%m) : i32[4]
  %n8 = broadcast(%n) : i32[8]
  %rmask = cmp(%rows, %m4) <predicate='slt'> : i1[4]
  %cmask = cmp(%cols, %n8) <predicate='slt'> : i1[8]
  %rmask1 = expand_dims(%rmask) <axis=1> : i1[4,1]
  %cmask1 = expand_dims(%cmask) <axis=0> : i1[1,8]
  %rmask2 = broadcast(%rmask1) : i1[4,8]
  %cmask2 = broadcast(%cmask1) : i1[4,8]
  %mask = and(%rmask2, %cmask2) : i1[4,8]
  %s4 = broadcast(%s) : i32[4]
  %rfirst = mul(%rows, %s4) : i32[4]
  %rfirst1 = expand_dims(%rfirst) <axis=1> : i32[4,1]
  %rfirst2 = broadcast(%rfirst1) : i32[4,8]
  %cols1 = expand_dims(%cols) <axis=0> : i32[1,8]
  %cols2 = broadcast(%cols1) : i32[4,8]
  %offs = add(%rfirst2, %cols2) : i32[4,8]
  %zero = const() <value=0.0> : f32[4,8]
"""
"""Four rows a program: ``offs = (rows * s)[:, None] + cols[None, :]``."""


def forward(body: str, floats: str = "x y") -> Kernel:
    """A kernel with pointers to f32 named ``x_ptr`` … and arguments m, n, s."""
    pointers = "".join(f"%{name}_ptr: ptr<f32>, " for name in floats.split())
    text = f"kernel k_fwd({pointers}%i_ptr: ptr<i32>, %m: i32, %n: i32, %s: i32) {{"
    return verify(parse(f"{text}{body}}}\n"))
