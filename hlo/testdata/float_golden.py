"""Writes float_golden.json: checksums of ml_dtypes' conversions.

Needs numpy and ml_dtypes (0.5 or newer). Run in this folder:

    python3 float_golden.py > float_golden.json

decode: SHA-256 of every bit pattern's value as little-endian float32, every
        NaN as 0x7fc00000.
encode: SHA-256 of the bit patterns (one byte each, two for 16-bit types) of
        the float32 values with all 65536 high halves and the low halves LOW,
        high half in the outer loop; NaN results as the pattern NAN.
f64:    the same from the finite ones of those values widened to float64 and
        moved by one unit in the last place of float64 away from zero.
"""
import hashlib
import json

import ml_dtypes
import numpy as np

LOW = [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu, "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn, "f6e2m3fn": ml_dtypes.float6_e2m3fn,
}
BITS = {"f16": 16, "bf16": 16, "f4e2m1fn": 4, "f6e3m2fn": 6, "f6e2m3fn": 6}


def main():
    high = np.arange(65536, dtype=np.uint32) << 16
    source = (high[:, None] | np.array(LOW, dtype=np.uint32)[None, :]).reshape(-1).view(np.float32)
    out = {}
    np.seterr(all="ignore")
    for name, dtype in TYPES.items():
        bits = BITS.get(name, 8)
        word = np.uint16 if bits == 16 else np.uint8
        patterns = np.arange(1 << bits, dtype=word)
        values = patterns.view(dtype).astype(np.float32)
        nan = np.isnan(values)
        values[nan] = np.uint32(0x7FC00000).view(np.float32)
        entry = {"decode": hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()}
        # f4 and f6 have no NaN; what a NaN becomes there is nobody's rule.
        finite = source[~np.isnan(source)] if not nan.any() else source
        if name == "f8e8m0fnu":  # ml_dtypes and XLA differ on f32 subnormals
            finite = finite[~((finite != 0) & (np.abs(finite) < np.float32(2.0**-126)))]
        canonical = int(patterns[nan][0]) if nan.any() else 0
        for key, src in (("encode", finite), ("f64", nudged(finite))):
            got = src.astype(dtype)
            pattern = got.view(word).copy()
            pattern[np.isnan(got.astype(np.float32))] = canonical
            entry[key] = hashlib.sha256(pattern.astype("<u%d" % word().itemsize).tobytes()).hexdigest()
        out[name] = entry
    print(json.dumps(out, indent=1, sort_keys=True))


def nudged(f):
    d = f.astype(np.float64).view(np.uint64)
    ok = ~(np.isnan(f) | np.isinf(f))
    d = np.where(ok, d + 1, d)
    return d.view(np.float64)


if __name__ == "__main__":
    main()
