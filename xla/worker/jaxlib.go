package worker

import _ "embed"

// jaxlibScript is the worker of jaxlib builds: the same protocol in Python.
//
//go:embed jaxlib.py
var jaxlibScript string
