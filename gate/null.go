package gate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/statistics"
)

// variant is a legal variation of a build: options that change how it
// computes, and not what. A build leaves out options that it does not have.
type variant struct {
	name    string
	options map[string]string
}

// variants are the legal variations of base that stand in for head in the null
// (DESIGN section 5). Option names are those of xla/xla.proto, DebugOptions.
var variants = []variant{
	{"again", nil},
	{"one thread", map[string]string{"xla_cpu_multi_thread_eigen": "false", "xla_cpu_parallel_codegen_split_count": "1"}},
	{"narrow vectors", map[string]string{"xla_cpu_prefer_vector_width": "128", "xla_cpu_max_isa": "SSE4_2"}},
	{"code generator at level 1", map[string]string{"xla_backend_optimization_level": "1"}},
	{"no libraries", map[string]string{"xla_cpu_use_onednn": "false", "xla_cpu_use_xnnpack": "false", "xla_cpu_experimental_onednn_fusion_type": "",
		"xla_cpu_experimental_xnn_fusion_type": "", "xla_cpu_experimental_ynn_fusion_type": ""}},
}

// nullInstructions bounds the programs of the null sample, so that it stays a
// small part of a run.
const nullInstructions = 300

// nullSample chooses the cases of the null, n at most: those whose names hash
// lowest with the seed, among the programs that are small enough. It depends on
// nothing that the run sees.
func nullSample(cases []*fuzz.Case, seed uint64, n int) map[string]bool {
	type ranked struct {
		name string
		rank uint64
	}
	var all []ranked
	for _, c := range cases {
		if c.Module == nil || c.Module.NumInstructions() > nullInstructions {
			continue
		}
		h := fnv.New64a()
		h.Write(binary.LittleEndian.AppendUint64(nil, seed))
		h.Write([]byte(c.Name))
		all = append(all, ranked{c.Name, h.Sum64()})
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name)) })
	out := map[string]bool{}
	for _, r := range all[:min(n, len(all))] {
		out[r.name] = true
	}
	return out
}

// nullAnswer is what the judge says of one variant of base on one case.
type nullAnswer struct {
	variant string
	same    bool // the build has none of the variant's options
	cells   int64
	alarms  []string
	samples map[sampleKey]*sample
	lost    bool
}

// null judges legal variants of base against base, by the same judge. The
// answers of the run itself say what base does; a case that base gets wrong
// says nothing about false alarms.
func (k *caseRun) null(ctx context.Context, answers []answer) []nullAnswer {
	for _, a := range answers[:len(k.asked)] {
		if a.base != Right && a.base != Undecided {
			return nil
		}
	}
	from := sources(k.c.Module)
	run := func(v variant) ([]side, []string) {
		r := k.request(ComparisonFlags)
		r.Repeat, r.RepeatFor = 1, 0
		if r.Options == nil {
			r.Options = map[string]string{}
		}
		maps.Copy(r.Options, v.options)
		for _, a := range k.asked {
			r.Inputs = append(r.Inputs, a.arguments)
		}
		return k.pooled(k.run.cfg.Base).execute(ctx, r)
	}
	base := k.strict[0]
	var out []nullAnswer
	for _, v := range variants {
		head, dropped := run(v)
		n := nullAnswer{variant: v.name, samples: map[sampleKey]*sample{}}
		n.same = len(v.options) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(v.options)), func(o string) bool { return !slices.Contains(dropped, o) })
		for s, a := range k.asked {
			if base[s].behaviour == Infrastructure || head[s].behaviour == Infrastructure {
				n.lost = true
				continue
			}
			got := judge(question{stream: a.Name, flags: ComparisonFlags, reference: a.reference(ComparisonFlags), base: base[s], head: head[s],
				want: a.want, tolerance: a.tolerance, firm: k.run.firm, sources: from})
			if got.judged == 0 && len(got.observations) == 0 {
				continue
			}
			n.cells++
			for key, s := range got.samples {
				if n.samples[key] == nil {
					n.samples[key] = &sample{}
				}
				n.samples[key].merge(s)
			}
			for _, o := range got.observations {
				if o.status == New && o.baseRight {
					n.alarms = append(n.alarms, fmt.Sprintf("%s, %s inputs, %s: %s", k.c.Name, a.Name, v.name, o.class))
					break
				}
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// NullVariant is one legal variation of base in the calibration.
type NullVariant struct {
	Name   string `json:"name"`
	Cells  int64  `json:"cells"`
	Alarms int64  `json:"alarms"`
	// Same says that the build has none of the variant's options: it is base
	// again.
	Same bool `json:"same,omitempty"`
}

// calibrate fills in the null: base against base and against legal variants of
// itself, on a sample of the cases, and the whole run where base and head are
// the same build. There every new finding is a false alarm. A cell is a judged
// input stream; the rate is alarms per cell, with the exact (Clopper-Pearson)
// 95 % interval. The chance that a pull request without fault is blocked by a
// run of this size is 1 - (1 - rate)^(judged streams).
func calibrate(res *Result, parts []CasePart) {
	n := &res.Statistics.Null
	n.Interval = [2]float64{0, 1}
	n.Variants, n.Alarmed = []NullVariant{}, []string{}
	streams := int64(0)
	for _, c := range res.Cases {
		for _, s := range c.Streams {
			if s.Judged > 0 {
				streams++
			}
		}
	}
	res.Statistics.Streams = streams
	at := map[string]int{}
	for _, k := range parts {
		if len(k.Null) > 0 {
			n.Cases++
		}
		for _, a := range k.Null {
			i, ok := at[a.Variant]
			if !ok {
				i = len(n.Variants)
				at[a.Variant] = i
				n.Variants = append(n.Variants, NullVariant{Name: a.Variant, Same: true})
			}
			v := &n.Variants[i]
			v.Same = v.Same && a.Same
			v.Cells += a.Cells
			v.Alarms += int64(len(a.Alarms))
			n.Cells += a.Cells
			n.Alarms += int64(len(a.Alarms))
			n.Alarmed = append(n.Alarmed, a.Alarms...)
		}
	}
	if res.Base.ID == res.Head.ID {
		alarms := int64(0)
		for _, f := range res.Findings {
			if f.Status == New {
				alarms++
				n.Alarmed = append(n.Alarmed, fmt.Sprintf("%s, %s inputs, head: %s", f.Case, f.Stream, f.Class))
			}
		}
		n.Cells += streams
		n.Alarms += min(alarms, streams)
	}
	if n.Cells == 0 {
		return
	}
	n.Rate = float64(n.Alarms) / float64(n.Cells)
	n.Interval = statistics.Proportion(n.Alarms, n.Cells)
	blocks := func(rate float64) float64 { return 1000 * -math.Expm1(float64(streams)*math.Log1p(-rate)) }
	expected := blocks(n.Rate)
	res.Statistics.ExpectedFalseBlocks = &expected
	res.Statistics.ExpectedInterval = &[2]float64{blocks(n.Interval[0]), blocks(n.Interval[1])}
}

// sayNull adds the lines of the calibration to the reasons.
func sayNull(res *Result, say func(string, ...any)) {
	n := &res.Statistics.Null
	if n.Alarms > 0 {
		say("calibration: %d of %d judged streams of legal variants of base raise a false alarm", n.Alarms, n.Cells)
	}
	for _, c := range n.Excluded {
		say("accuracy of %s is not judged: legal variants of base lose accuracy there as well", c)
	}
}
