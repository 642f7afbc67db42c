package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/passgate/passgate/gate"
)

// resultName is the file of a result in a directory of reports.
const resultName = "result.json"

// mergeShards reads the results of shards and merges them. What is not there,
// or ends too early, is a missing shard and no error: a shard that died must not
// take the verdict with it.
func mergeShards(args []string, now func() time.Time) (*gate.Result, error) {
	var files, absent []string
	for _, arg := range args {
		found, missing, err := shardFiles(arg)
		if err != nil {
			return nil, err
		}
		files, absent = append(files, found...), append(absent, missing...)
	}
	var shards []*gate.Result
	for _, name := range files {
		res, err := loadResult(name)
		if cut := (*cutError)(nil); errors.As(err, &cut) {
			absent = append(absent, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		shards = append(shards, res)
	}
	return gate.Merge(shards, absent, now())
}

// shardFiles are the results that an argument stands for: itself, the one in
// it, or those in its directories, by name.
func shardFiles(arg string) (files, absent []string, err error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, []string{arg + " does not exist"}, nil
	case err != nil:
		return nil, nil, usagef("%v", err)
	case !info.IsDir():
		return []string{arg}, nil, nil
	}
	if name := filepath.Join(arg, resultName); exists(name) {
		return []string{name}, nil, nil
	}
	entries, err := os.ReadDir(arg)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if name := filepath.Join(arg, e.Name(), resultName); exists(name) {
			files = append(files, name)
		} else {
			absent = append(absent, fmt.Sprintf("%s holds no %s", filepath.Join(arg, e.Name()), resultName))
		}
	}
	if len(files)+len(absent) == 0 {
		absent = append(absent, fmt.Sprintf("%s holds no %s", arg, resultName))
	}
	return files, absent, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
