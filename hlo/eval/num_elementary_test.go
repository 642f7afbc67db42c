package eval

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// elementaryGolden is testdata/elementary_golden.json, made by the script
// beside it.
func elementaryGolden(t *testing.T) map[string][][]float64 {
	t.Helper()
	data, err := os.ReadFile("testdata/elementary_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string][][]string
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	g := map[string][][]float64{}
	for name, rows := range raw {
		for _, row := range rows {
			var r []float64
			for _, s := range row {
				v, err := strconv.ParseFloat(s, 64)
				if err != nil {
					t.Fatal(err)
				}
				r = append(r, v)
			}
			g[name] = append(g[name], r)
		}
	}
	return g
}

// The double-double functions are within wideCentreError of the true values.
func TestElementaryFunctionsAgainstGolden(t *testing.T) {
	seen := 0
	for name, rows := range elementaryGolden(t) {
		op, ok := hlo.OpcodeByName(name)
		if !ok {
			t.Fatalf("no opcode %q", name)
		}
		for _, row := range rows {
			seen++
			want := dd{row[len(row)-2], row[len(row)-1]}
			var got dd
			switch op {
			case hlo.OpPower:
				got = ddPow(ddF(row[0]), ddF(row[1]))
			case hlo.OpAtan2:
				got = ddAtan2(ddF(row[0]), ddF(row[1]))
			default:
				got = functions[op].wide(ddF(row[0]))
			}
			if d := math.Abs(got.sub(want).float()); !(d <= math.Abs(want.hi)*wideCentreError) {
				t.Errorf("%s%v: off by %.3g relative (got %v)", name, row[:len(row)-2], d/math.Abs(want.hi), got)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d golden rows", seen)
	}
}

// For float32 arguments the float64 functions are within centreError of the
// double-double ones (which the golden table checks).
func TestNarrowFunctions(t *testing.T) {
	var args []float64
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		v := float64(math.Float32frombits(r.Uint32()))
		if finite(v) {
			args = append(args, v)
		}
		args = append(args, float64(float32(r.NormFloat64()*4)), float64(float32(r.Float64()*2-1)), float64(float32(1-math.Ldexp(r.Float64(), -r.IntN(24)))))
	}
	for k := range 20000 {
		args = append(args, float64(float32(float64(k)*math.Pi/2)))
	}
	args = append(args, 16367173*0x1p72) // nearest to a multiple of pi/2 among float32
	for i, fn := range functions {
		if fn == nil {
			continue
		}
		op := hlo.Opcode(i)
		worst, at := 0.0, 0.0
		for _, x := range args {
			if x < fn.lo || x > fn.hi {
				continue
			}
			y, w := fn.float(x), fn.wide(ddF(x))
			if !finite(y) || math.Abs(y) < 0x1p-1000 || math.Abs(y) > 0x1p200 {
				continue
			}
			if d := math.Abs(dd{y, 0}.sub(w).float()) / math.Abs(y); d > worst {
				worst, at = d, x
			}
		}
		if worst > centreError {
			t.Errorf("%v(%v) is off by %.3g relative", op, at, worst)
		}
	}
}
