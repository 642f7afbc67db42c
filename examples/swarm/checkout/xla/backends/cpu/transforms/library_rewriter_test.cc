// A stand-in, written for this example, for the unit test of a pass.

TEST_F(LibraryRewriterTest, ReduceWindowBecomesAFusion) {
  Check(R"(
HloModule plain_window

min {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] minimum(a, b)
}

ENTRY e {
  x = f32[72,64] parameter(0)
  top = f32[] constant(inf)
  ROOT r = f32[36,64] reduce-window(x, top), window={size=2x1 stride=2x1}, to_apply=min
})");
}
