package eval

func divideBudget(f *floatType) float64 {
	if f.wide {
		return 1.5
	}
	return 2.5
}
