package hlo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// golden is testdata/float_golden.json, made by testdata/float_golden.py.
func golden(t *testing.T) map[string]struct{ Decode, Encode, F64 string } {
	t.Helper()
	data, err := os.ReadFile("testdata/float_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	g := map[string]struct{ Decode, Encode, F64 string }{}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func floatTypes() (all []PrimitiveType) {
	for t := PrimitiveType(0); t.valid(); t++ {
		if t.IsFloat() {
			all = append(all, t)
		}
	}
	return all
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// The conversions of every pattern and of 393,216 float32 and float64 values
// agree with ml_dtypes.
func TestFormatsAgreeWithMlDtypes(t *testing.T) {
	g := golden(t)
	for _, pt := range floatTypes() {
		if pt == F32 || pt == F64 {
			continue
		}
		t.Run(pt.String(), func(t *testing.T) {
			want, ok := g[pt.String()]
			if !ok {
				t.Fatal("no golden data")
			}
			f := pt.Format()
			var decode []byte
			canonicalNaN := uint64(0)
			for b := uint64(0); b < 1<<pt.Bits(); b++ {
				v := f.FromBits(b)
				bits := math.Float32bits(float32(v))
				if v != v {
					bits = 0x7fc00000
					if canonicalNaN == 0 {
						canonicalNaN = b
					}
				}
				decode = binary.LittleEndian.AppendUint32(decode, bits)
			}
			if got := hexSum(decode); got != want.Decode {
				t.Errorf("decode: got %s, want %s", got, want.Decode)
			}
			var encode, f64 []byte
			put := func(b []byte, v float64) []byte {
				p := f.Bits(v)
				if w := f.FromBits(p); w != w {
					p = canonicalNaN
				}
				if pt.Bits() == 16 {
					return binary.LittleEndian.AppendUint16(b, uint16(p))
				}
				return append(b, byte(p))
			}
			for high := uint32(0); high < 1<<16; high++ {
				for _, low := range [...]uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
					v := float64(math.Float32frombits(high<<16 | low))
					if v != v && !f.HasNaN {
						continue
					}
					if pt == F8E8M0FNU && v != 0 && math.Abs(v) < 0x1p-126 {
						continue
					}
					encode = put(encode, v)
					if v-v == 0 {
						v = math.Float64frombits(math.Float64bits(v) + 1)
					}
					f64 = put(f64, v)
				}
			}
			if got := hexSum(encode); got != want.Encode {
				t.Errorf("encode: got %s, want %s", got, want.Encode)
			}
			if got := hexSum(f64); got != want.F64 {
				t.Errorf("encode from f64: got %s, want %s", got, want.F64)
			}
		})
	}
}

// Every pattern decodes to a value that rounds to itself and encodes to the
// same pattern, NaN payloads included.
func TestEveryPatternRoundTrips(t *testing.T) {
	for _, pt := range floatTypes() {
		f := pt.Format()
		check := func(b uint64) {
			v := f.FromBits(b)
			if v == v && (f.Round(v) != v || math.Signbit(f.Round(v)) != math.Signbit(v)) {
				t.Errorf("%v: %#x decodes to %v, which rounds to %v", pt, b, v, f.Round(v))
			}
			if got := f.Bits(v); got != b {
				t.Errorf("%v: %#x decodes to %v, which encodes to %#x", pt, b, v, got)
			}
		}
		if pt.Bits() <= 16 {
			for b := uint64(0); b < 1<<pt.Bits(); b++ {
				check(b)
			}
			continue
		}
		for i := uint64(0); i < 1<<16; i++ {
			check(i * 0x9e3779b97f4a7c15 >> (64 - pt.Bits()))
			check(i << (pt.Bits() - 16))
		}
	}
}

// Rounding gives the nearest of all values of the format: checked against a
// search through the sorted list of values.
func TestRoundIsNearestEven(t *testing.T) {
	for _, pt := range floatTypes() {
		if pt.Bits() > 16 || pt == F8E8M0FNU {
			continue
		}
		f := pt.Format()
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			b := rapid.Uint64Range(0, 1<<(pt.Bits()-1)-1).Draw(t, "pattern")
			lo := f.FromBits(b)
			hi := f.FromBits(b + 1)
			if lo != lo || hi != hi || b+1 == 1<<(pt.Bits()-1) || math.IsInf(hi, 0) || math.IsInf(lo, 0) {
				return
			}
			w := rapid.Float64Range(0, 1).Draw(t, "weight")
			x := lo + (hi-lo)*w
			want := lo
			switch mid := lo + (hi-lo)/2; {
			case x > mid, x == mid && b&1 == 1:
				want = hi
			}
			if got := f.Round(x); got != want {
				t.Fatalf("Round(%v) = %v, want %v", x, got, want)
			}
			if got := f.Round(-x); got != -want {
				t.Fatalf("Round(%v) = %v, want %v", -x, got, -want)
			}
		}))
	}
}

// The edges of every format: largest value, overflow, smallest values, ULP.
func TestFormatEdges(t *testing.T) {
	for _, c := range []struct {
		t                      PrimitiveType
		max, minNormal, minSub float64
		above                  float64 // what twice the largest value becomes
		negZero                uint64  // pattern of -0.0
	}{
		{F16, 65504, 0x1p-14, 0x1p-24, math.Inf(1), 0x8000},
		{BF16, 0x1.fep127, 0x1p-126, 0x1p-133, math.Inf(1), 0x8000},
		{F32, math.MaxFloat32, 0x1p-126, 0x1p-149, math.Inf(1), 0x80000000},
		{F8E5M2, 57344, 0x1p-14, 0x1p-16, math.Inf(1), 0x80},
		{F8E4M3, 240, 0x1p-6, 0x1p-9, math.Inf(1), 0x80},
		{F8E3M4, 15.5, 0x1p-2, 0x1p-6, math.Inf(1), 0x80},
		{F8E4M3FN, 448, 0x1p-6, 0x1p-9, math.NaN(), 0x80},
		{F8E4M3B11FNUZ, 30, 0x1p-10, 0x1p-13, math.NaN(), 0},
		{F8E4M3FNUZ, 240, 0x1p-7, 0x1p-10, math.NaN(), 0},
		{F8E5M2FNUZ, 57344, 0x1p-15, 0x1p-17, math.NaN(), 0},
		{F8E8M0FNU, 0x1p127, 0x1p-127, 0x1p-127, math.NaN(), 0xff},
		{F4E2M1FN, 6, 1, 0.5, 6, 8},
		{F6E3M2FN, 28, 0.25, 0x1p-4, 28, 32},
		{F6E2M3FN, 7.5, 1, 0x1p-3, 7.5, 32},
	} {
		f := c.t.Format()
		if f.Max() != c.max || f.MinNormal() != c.minNormal || f.MinSubnormal() != c.minSub {
			t.Errorf("%v: max %v, smallest normal %v, smallest %v; want %v, %v, %v",
				c.t, f.Max(), f.MinNormal(), f.MinSubnormal(), c.max, c.minNormal, c.minSub)
		}
		if got := f.Round(2 * c.max); got != c.above && !(got != got && c.above != c.above) {
			t.Errorf("%v: twice the largest value is %v, want %v", c.t, got, c.above)
		}
		if got := f.Bits(math.Copysign(0, -1)); got != c.negZero {
			t.Errorf("%v: -0 is %#x, want %#x", c.t, got, c.negZero)
		}
		if got, want := f.Ulp(1), math.Ldexp(1, -f.MantissaBits); got != want && f.MinSubnormal() <= want {
			t.Errorf("%v: ULP of 1 is %v, want %v", c.t, got, want)
		}
		if got := f.Ulp(0); got != c.minSub {
			t.Errorf("%v: ULP of 0 is %v, want %v", c.t, got, c.minSub)
		}
		half := c.max + f.Ulp(c.max)/2
		if got := f.Round(math.Nextafter(half, 0)); got != c.max && c.t != F8E8M0FNU {
			t.Errorf("%v: just below the overflow threshold gives %v, want %v", c.t, got, c.max)
		}
	}
}
