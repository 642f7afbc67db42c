// A stand-in, written for this example, for the source of a pass: the example's
// build command looks at one line of it.

// Whether the library computes this window.
bool Supported(const ReduceWindow& w) {
  if (!IsPlainReduction(w.to_apply())) return false;
  return true;
}
