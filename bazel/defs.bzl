"""Rules that run passgate on builds and cases that Bazel knows.

    load("@passgate//bazel:defs.bzl", "pass_gate_suite", "passgate", "xla_pass_gate_test")

    xla_pass_gate_test(
        name = "simplifier_gate",
        base = "@xla_release//:pjrt_c_api_cpu_plugin.so",
        cases = glob(["testdata/*.case"]),
        head = "//xla/pjrt/c:pjrt_c_api_cpu_plugin.so",
        passes = ["algsimp"],
        shard_count = 4,
    )

    passgate(
        name = "passgate",
        base = "@xla_release//:pjrt_c_api_cpu_plugin.so",
        cases = glob(["testdata/*.case"]),
        head = "//xla/pjrt/c:pjrt_c_api_cpu_plugin.so",
    )

The rules use nothing but what Bazel 4.2 and its successors share.
"""

SettingInfo = provider("The value of a build setting.", fields = {"value": "a string"})

def _string_setting_impl(ctx):
    return SettingInfo(value = ctx.build_setting_value)

string_setting = rule(
    implementation = _string_setting_impl,
    build_setting = config.string(flag = True),
    doc = "A string on the command line: --@passgate//bazel/settings:budget=10m.",
)

def _quote(s):
    return "'" + s.replace("'", "'\\''") + "'"

_ATTRS = {
    "base": attr.label(
        allow_single_file = True,
        doc = "The plugin before the change. A file: nothing is fetched.",
        mandatory = True,
    ),
    "cases": attr.label_list(
        allow_files = [".case", ".hlo"],
        doc = "The programs.",
        mandatory = True,
    ),
    "head": attr.label(
        allow_single_file = True,
        doc = "The plugin after the change.",
        mandatory = True,
    ),
    "passes": attr.string_list(
        doc = "Passes in focus: the test fails if none of them changes a program, of whatever shard.",
    ),
    "_budget": attr.label(default = "//bazel/settings:budget"),
    "_passgate": attr.label(
        allow_single_file = True,
        cfg = "target",
        default = "//bazel/settings:passgate",
    ),
    "_seed": attr.label(default = "//bazel/settings:seed"),
}

def _runfiles(ctx):
    files = [ctx.file.base, ctx.file.head, ctx.file._passgate] + ctx.files.cases
    return ctx.runfiles(files = files).merge(ctx.attr._passgate[DefaultInfo].default_runfiles)

def _flags(ctx, at):
    """The flags of a command; at is put before the name of each file."""
    flags = ["--base=" + at + _quote(ctx.file.base.short_path), "--head=" + at + _quote(ctx.file.head.short_path)]
    flags += ["--cases=" + at + _quote(f.short_path) for f in ctx.files.cases]
    flags.append("--seed=" + _quote(ctx.attr._seed[SettingInfo].value))
    flags.append("--budget=" + _quote(ctx.attr._budget[SettingInfo].value))
    if ctx.attr.passes:
        flags.append("--passes=" + _quote(",".join(ctx.attr.passes)))
    return flags

def _xla_pass_gate_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    lines = ["#!/usr/bin/env bash", "exec " + " \\\n  ".join(
        ["./" + _quote(ctx.file._passgate.short_path), "bazel-test"] + _flags(ctx, "./") + ['"$@"'],
    ), ""]
    ctx.actions.write(script, "\n".join(lines), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = _runfiles(ctx))]

xla_pass_gate_test = rule(
    implementation = _xla_pass_gate_test_impl,
    attrs = _ATTRS,
    doc = """Replays cases on two builds and on the reference; fails on new miscompiles.

The test follows Bazel's conventions: `shard_count` shares out the cases (a shard
whose own cases the passes in focus leave alone compiles the others' until one is
changed; where none is, all shards with cases fail as not exercised),
`--test_filter` picks cases by name, test.xml has one test case for each case, and
the reports (report.html, findings) are in the test's undeclared outputs. Before
the timeout strikes it stops and reports what it has. A machine that cannot judge
is an infrastructure failure.""",
    test = True,
)

def _passgate_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    lines = [
        "#!/usr/bin/env bash",
        "# Files lie in the runfiles, where `bazel run` starts; results belong where",
        "# the user is.",
        "at=$PWD",
        'tool="$at"/' + _quote(ctx.file._passgate.short_path),
        'cd "${BUILD_WORKING_DIRECTORY:-$PWD}" || exit 3',
        'if [ "${1:-}" = check ]; then',
        "  shift",
        "  set -- check " + " \\\n    ".join(_flags(ctx, '"$at"/')) + ' "$@"',
        "fi",
        'exec "$tool" "$@"',
        "",
    ]
    ctx.actions.write(script, "\n".join(lines), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = _runfiles(ctx))]

passgate = rule(
    implementation = _passgate_impl,
    attrs = _ATTRS,
    doc = """passgate for a pass author: `bazel run //:passgate -- check --passes algsimp`.

`check` gets the builds and cases of the rule; further flags follow. Every other
command is passgate's own.""",
    executable = True,
)

def pass_gate_suite(name, passes, base, head, cases, **kwargs):
    """One xla_pass_gate_test for each pass, and a test suite of all.

    Args:
      name: name of the suite; the tests are NAME_PASS.
      passes: names of passes.
      base: the plugin before the change.
      head: the plugin after the change.
      cases: the programs.
      **kwargs: further attributes of every test.
    """
    tests = []
    for p in passes:
        test = name + "_" + "".join([c if c.isalnum() else "_" for c in p.elems()])
        xla_pass_gate_test(
            name = test,
            base = base,
            cases = cases,
            head = head,
            passes = [p],
            **kwargs
        )
        tests.append(":" + test)
    native.test_suite(
        name = name,
        tests = tests,
    )
