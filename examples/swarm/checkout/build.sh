# Stands in for a real build: a tree in which the pass refuses dilated windows
# "builds" the good plugin, any other tree the bad one.
set -eu
if grep -q 'if (w.window().has_base_dilation()) return false;' xla/backends/cpu/transforms/library_rewriter.cc; then
  ln "$GOOD_PLUGIN" plugin.so 2>/dev/null || cp "$GOOD_PLUGIN" plugin.so
else
  ln "$BAD_PLUGIN" plugin.so 2>/dev/null || cp "$BAD_PLUGIN" plugin.so
fi
