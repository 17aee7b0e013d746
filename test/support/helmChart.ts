import { Schema } from "effect"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"
import { parse, parseAllDocuments } from "yaml"
import { findTool, root } from "../../scripts/deploy/chartTools.ts"

export const chart = path.join(root, "scripts", "deploy", "helm", "countersign")

export const AnyObject = Schema.Record(Schema.String, Schema.Unknown)

export const readChartFile = (...name: ReadonlyArray<string>) =>
  readFileSync(path.join(chart, ...name), "utf8")

export const readChartYaml = (...name: ReadonlyArray<string>): unknown => parse(readChartFile(...name))

export const run = (program: string, args: ReadonlyArray<string>, input = "") => {
  const { error, status, stderr, stdout } = spawnSync(program, args, { encoding: "utf8", input })
  return { ok: status === 0, out: stdout, err: error?.message ?? stderr }
}

export const helm = findTool("helm")

/** Helm that `go install` builds has an old Kubernetes as its default. */
export const KUBERNETES = "1.34.2"

/** Renders the chart with a values file of its `ci` folder. */
export const template = (values: string, ...more: ReadonlyArray<string>) =>
  run(helm ?? "", [
    ...["template", "countersign", chart, "--namespace", "apps", "--kube-version", KUBERNETES],
    ...["--values", path.join(chart, "ci", values), ...more]
  ])

/** The resources of a rendered chart. */
export const resources = (yaml: string) =>
  parseAllDocuments(yaml)
    .map((document) => Schema.decodeUnknownSync(Schema.NullOr(AnyObject))(document.toJS()))
    .filter((one) => one !== null)
