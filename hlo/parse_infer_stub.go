package hlo

import "fmt"

func inferShape(in *Instruction) (*Shape, error) {
	switch in.Op {
	case OpTuple:
		t := &Shape{Type: Tuple}
		for _, o := range in.Operands {
			t.Elements = append(t.Elements, o.Shape)
		}
		return t, nil
	case OpGetTupleElement:
		s := in.Operands[0].Shape
		i := in.Attr.TupleIndex
		if !s.IsTuple() || i < 0 || i >= int64(len(s.Elements)) {
			return nil, fmt.Errorf("no element %d of %v", i, s)
		}
		return s.Elements[i], nil
	}
	if len(in.Operands) == 0 {
		return nil, fmt.Errorf("not inferable yet")
	}
	return in.Operands[0].Shape, nil
}
