"""Writes elementary_golden.json: elementary functions at 40 digits.

Needs mpmath. Run in this folder:

    python3 elementary_golden.py > elementary_golden.json

Each row is [x, hi, lo] in C99 hexadecimal: hi+lo is the value at x to about
106 bits (two operands for power and atan2: [x, y, hi, lo]).
"""
import json
import random

import mpmath as mp

mp.mp.prec = 2400


def rows(fn, points):
    out = []
    for p in points:
        args = p if isinstance(p, tuple) else (p,)
        v = fn(*[mp.mpf(a) for a in args])
        hi = float(v)
        if hi in (float("inf"), float("-inf")) or 0 < abs(hi) < 1e-290:
            continue
        lo = float(v - mp.mpf(hi))
        out.append([a.hex() for a in args] + [hi.hex(), lo.hex()])
    return out


def signed(points):
    return [s * p for p in points for s in (1, -1)]


def main():
    r = random.Random(1)
    spread = [r.uniform(1, 2) * 2.0 ** r.randint(-60, 60) for _ in range(40)]
    tiny = [r.uniform(1, 2) * 2.0 ** -r.randint(1, 200) for _ in range(20)]
    unit = [0.0] + [r.uniform(0, 1) for _ in range(20)] + tiny + [1 - 2.0 ** -k for k in (1, 2, 5, 20, 40, 52, 53)]
    moderate = [0.0] + [r.uniform(0, 40) for _ in range(30)] + tiny + [700.0, 709.5, 0.5, 0.499999, 1.0]
    near1 = [1 + s * 2.0 ** -k for k in (1, 2, 3, 8, 9, 20, 40, 52) for s in (1, -1)]
    angles = spread + tiny + [k * 1.5707963267948966 for k in (1, 2, 3, 4, 5, 7, 1000, 123456, 2.0**21, 1e10)] + [
        1e22, 1.7e308, 6381956970095103.0 * 2.0**797, 0.78539816339744, 0.7853981633974484, 2.0**20, 2.0**20 - 1]
    positive = spread + near1 + [1e-300, 1e300, 2.0**-1022, 1.7e308]
    pairs = [(r.uniform(0, 8), r.uniform(-20, 20)) for _ in range(40)] + [
        (1 + 2.0**-30, 2.0**33), (1 - 2.0**-40, -(2.0**44)), (2.0, 0.5), (1e-10, 25.0), (10.0, 300.0), (3.0, -600.0)]
    points2 = [(r.uniform(-5, 5), r.uniform(-5, 5)) for _ in range(40)] + [
        (1e-300, 1.0), (1.0, 1e-30), (1e30, -1.0), (-1e-20, -1.0), (2.0**-700, 2.0**-701), (1e300, 1e300)]
    # logistic and erf near 1 and for negative arguments
    table = {
        "exponential": rows(mp.exp, signed(moderate)),
        "exponential-minus-one": rows(mp.expm1, signed(moderate)),
        "log": rows(mp.log, positive),
        "log-plus-one": rows(mp.log1p, positive + tiny + [-u for u in unit]),
        "sqrt": rows(mp.sqrt, positive),
        "rsqrt": rows(lambda x: 1 / mp.sqrt(x), positive),
        "cbrt": rows(lambda x: mp.sign(x) * mp.cbrt(abs(x)), signed(positive)),
        "sine": rows(mp.sin, signed(angles)),
        "cosine": rows(mp.cos, signed(angles)),
        "tan": rows(mp.tan, signed(angles)),
        "tanh": rows(mp.tanh, signed(moderate)),
        "sinh": rows(mp.sinh, signed(moderate)),
        "cosh": rows(mp.cosh, signed(moderate)),
        "asin": rows(mp.asin, signed(unit)),
        "acos": rows(mp.acos, signed(unit)),
        "asinh": rows(mp.asinh, signed(spread + tiny)),
        "acosh": rows(mp.acosh, [1 + p for p in spread + tiny[:10]] + [1 + 2.0 ** -k for k in (10, 30, 52)]),
        "atanh": rows(mp.atanh, signed([u for u in unit if u < 1])),
        "erf": rows(mp.erf, signed([r.uniform(0, 7) for _ in range(30)] + tiny)),
        "logistic": rows(lambda x: 1 / (1 + mp.exp(-x)), signed(moderate)),
        "power": rows(mp.power, pairs),
        "atan2": rows(mp.atan2, points2),
    }
    print(json.dumps(table, separators=(",", ":")).replace("]],", "]],\n"))


if __name__ == "__main__":
    main()
