package hlo

import "github.com/passgate/passgate/hlo/hlopb"

// canonicalFrames keeps the stack frames that instructions refer to, numbered
// in the order of their first use, ancestors first; references to frames that
// do not exist are dropped (HloModule::CanonicalizeStackFrameIds).
func (m *Module) canonicalFrames() {
	old := m.Attr.StackFrameIndex
	if old == nil {
		old = &hlopb.StackFrameIndexProto{}
	}
	f := frameIndex{
		old: old, index: &hlopb.StackFrameIndexProto{}, mapped: map[int32]int32{},
		files: map[string]int32{}, functions: map[string]int32{},
		locations: map[location]int32{}, frames: map[[2]int32]int32{},
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if md := in.Attr.Metadata; md.GetStackFrameId() != 0 {
				md.StackFrameId = f.frame(md.StackFrameId)
			}
		}
	}
	m.Attr.StackFrameIndex = nil
	if len(f.index.StackFrames) > 0 {
		m.Attr.StackFrameIndex = f.index
	}
}

// frameIndex builds a stack frame index from an old one. Ids count from 1.
type frameIndex struct {
	old, index *hlopb.StackFrameIndexProto
	mapped     map[int32]int32 // old frame id to new; 0 for one that does not exist
	files      map[string]int32
	functions  map[string]int32
	locations  map[location]int32
	frames     map[[2]int32]int32 // location and parent
}

type location struct{ file, function, line, column, endLine, endColumn int32 }

// frame is the new id of an old frame; 0 if the frame, an ancestor or its
// place does not exist, or if it is its own ancestor.
func (f *frameIndex) frame(id int32) int32 {
	var path []int32
	on := map[int32]bool{}
	parent, bad := int32(0), false
	for id != 0 {
		if n, ok := f.mapped[id]; ok {
			parent, bad = n, n == 0
			break
		}
		if id < 0 || int(id) > len(f.old.StackFrames) || on[id] {
			bad = true
			break
		}
		on[id] = true
		path = append(path, id)
		id = f.old.StackFrames[id-1].ParentFrameId
	}
	for i := len(path) - 1; i >= 0; i-- {
		loc := f.location(f.old.StackFrames[path[i]-1].FileLocationId)
		if bad = bad || loc == 0; bad {
			f.mapped[path[i]] = 0
			continue
		}
		parent = intern(f.frames, [2]int32{loc, parent}, func() {
			f.index.StackFrames = append(f.index.StackFrames, &hlopb.StackFrameIndexProto_StackFrame{FileLocationId: loc, ParentFrameId: parent})
		})
		f.mapped[path[i]] = parent
	}
	if bad {
		return 0
	}
	return parent
}

func (f *frameIndex) location(id int32) int32 {
	if id < 1 || int(id) > len(f.old.FileLocations) {
		return 0
	}
	l := f.old.FileLocations[id-1]
	if l.FileNameId < 1 || int(l.FileNameId) > len(f.old.FileNames) ||
		l.FunctionNameId < 1 || int(l.FunctionNameId) > len(f.old.FunctionNames) {
		return 0
	}
	file, function := f.old.FileNames[l.FileNameId-1], f.old.FunctionNames[l.FunctionNameId-1]
	at := location{
		file:     intern(f.files, file, func() { f.index.FileNames = append(f.index.FileNames, file) }),
		function: intern(f.functions, function, func() { f.index.FunctionNames = append(f.index.FunctionNames, function) }),
		line:     l.Line, column: l.Column, endLine: l.EndLine, endColumn: l.EndColumn,
	}
	return intern(f.locations, at, func() {
		f.index.FileLocations = append(f.index.FileLocations, &hlopb.StackFrameIndexProto_FileLocation{
			FileNameId: at.file, FunctionNameId: at.function, Line: at.line, Column: at.column,
			EndLine: at.endLine, EndColumn: at.endColumn,
		})
	})
}

// intern is the id of a key; add stores a new one.
func intern[K comparable](ids map[K]int32, key K, add func()) int32 {
	id, ok := ids[key]
	if !ok {
		add()
		id = int32(len(ids) + 1)
		ids[key] = id
	}
	return id
}
