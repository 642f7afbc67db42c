# Answers for tools/peer: XLA's own parser, over pipes.
# In: per text one byte, P (send the proto) or V (the verdict is enough), and a
# frame (4-byte big-endian length, data) with the text.
# Out: first a frame with the version; then per text one byte, A (accepted) or
# R (refused), and a frame with the serialized HloModuleProto (empty after V) or
# the message.
import os
import struct
import sys

out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what XLA prints must not run into the answers


def send(tag, data):
    out.write(tag + struct.pack(">I", len(data)) + data)
    out.flush()


import jaxlib.version

try:
    from jaxlib import _hlo as hlo  # 0.11 and newer
except ImportError:
    from jaxlib import xla_client

    hlo = xla_client._xla

send(b"", ("jaxlib " + jaxlib.version.__version__).encode())
while header := sys.stdin.buffer.read(5):
    want, size = struct.unpack(">cI", header)
    text = sys.stdin.buffer.read(size)
    try:
        module = hlo.hlo_module_from_text(text.decode())
        send(b"A", module.as_serialized_hlo_module_proto() if want == b"P" else b"")
    except Exception as e:  # whatever XLA raises is its answer
        send(b"R", str(e).encode(errors="replace"))
