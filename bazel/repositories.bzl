"""Repositories for a WORKSPACE: passgate itself, and builds of XLA.

    load("@passgate//bazel:repositories.bzl", "passgate_binary", "xla_build")

    passgate_binary(name = "passgate_binary")

    xla_build(
        name = "xla_base",
        spec = "xla-2026-06",
    )

They need Go (passgate_binary) and Python 3 with pip (xla_build) on the machine,
and nothing of Bazel's but what 4.2 has.
"""

def _run(ctx, what, command, environment = {}):
    result = ctx.execute(command, environment = environment, timeout = 1800)
    if result.return_code != 0:
        fail("%s: %s" % (what, result.stderr.strip()))
    return result.stdout

def _program(ctx, name):
    found = ctx.which(name)
    if not found:
        fail("%s is not in PATH" % name)
    return found

def _passgate_binary_impl(ctx):
    source = ctx.path(Label("@passgate//:go.mod")).dirname
    _run(
        ctx,
        "passgate cannot be built in %s" % source,
        [_program(ctx, "go"), "build", "-C", str(source), "-o", str(ctx.path("passgate")), "./cmd/passgate"],
        environment = {"CGO_ENABLED": "0"},
    )
    ctx.file("BUILD.bazel", 'exports_files(["passgate"])\n')

passgate_binary = repository_rule(
    implementation = _passgate_binary_impl,
    doc = """@NAME//:passgate, built by the machine's own Go from the sources in @passgate.

For a Bazel without rules_go: the default of --@passgate//bazel/settings:passgate
is the same program, built by rules_go.""",
    local = True,
)

def _xla_build_impl(ctx):
    out = _run(
        ctx,
        "build %s cannot be fetched" % ctx.attr.spec,
        [str(ctx.path(ctx.attr.passgate)), "builds", "fetch", "--json"] + ["--accept-terms=" + t for t in ctx.attr.accept_terms] + [ctx.attr.spec],
    )
    ctx.symlink(json.decode(out)["path"], "plugin.so")
    ctx.file("BUILD.bazel", 'exports_files(["plugin.so"], visibility = ["//visibility:public"])\n')

xla_build = repository_rule(
    implementation = _xla_build_impl,
    attrs = {
        "accept_terms": attr.string_list(doc = "Builds whose own terms you accept: libtpu."),
        "passgate": attr.label(
            default = "@passgate_binary//:passgate",
            doc = "The passgate that fetches.",
        ),
        "spec": attr.string(
            doc = "A build spec: `passgate builds list`.",
            mandatory = True,
        ),
    },
    doc = "@NAME//:plugin.so, the PJRT plugin of a build spec.",
    local = True,
)
