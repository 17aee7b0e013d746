import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import path from "node:path"
import { root } from "../../../scripts/deploy/chartTools.ts"
import { readDebianLock } from "../../../scripts/image/sources.ts"
import { runConfig, type Variant, variants } from "../../../scripts/image/variants.ts"

const folder = path.join(root, "scripts", "deploy")

interface Instruction {
  readonly name: string
  readonly text: string
}

/** The instructions of each stage of a Dockerfile, with what the stage begins with. */
const parseStages = (text: string) => {
  const stages = new Map<string, { readonly base: string; readonly instructions: Array<Instruction> }>()
  let current: Array<Instruction> = []
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join("\n")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
  for (const line of lines) {
    const [, name = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? assert.fail(`${line} is no instruction`)
    if (name !== "FROM") current.push({ name, text: rest })
    else {
      const [, base = "", stage = ""] =
        /^(?:--\S+ )?(\S+) AS (\S+)$/.exec(rest) ?? assert.fail(`${line} names no stage`)
      stages.set(stage, { base, instructions: (current = []) })
    }
  }
  return stages
}

const stages = parseStages(readFileSync(path.join(folder, "Dockerfile"), "utf8"))

/** The instructions that make a stage, from the first of the stages that it is based on. */
const instructionsOf = (stage: string): ReadonlyArray<Instruction> => {
  const { base, instructions } = stages.get(stage) ?? assert.fail(`the Dockerfile has no stage ${stage}`)
  return stages.has(base) ? [...instructionsOf(base), ...instructions] : instructions
}

const textsOf = (stage: string, name: string) =>
  instructionsOf(stage)
    .filter((one) => one.name === name)
    .map(({ text }) => text)
const lastOf = (stage: string, name: string) => textsOf(stage, name).at(-1) ?? ""
const list = (text: string): unknown => JSON.parse(text)

const seconds = (nanoseconds: number) => `${nanoseconds / 1e9}s`

describe("the Dockerfile", () => {
  it.each(variants)("configures %s as npm run image does", (variant: Variant) => {
    const config = runConfig(variant, { created: "", revision: undefined })
    assert.deepStrictEqual(
      textsOf(variant, "ENV").flatMap((text) => text.split(" ")),
      config.Env
    )
    assert.deepStrictEqual(list(lastOf(variant, "ENTRYPOINT")), config.Entrypoint)
    assert.deepStrictEqual(list(lastOf(variant, "CMD")), config.Cmd)
    assert.strictEqual(lastOf(variant, "USER"), config.User)
    assert.strictEqual(lastOf(variant, "WORKDIR"), config.WorkingDir)
    assert.strictEqual(lastOf(variant, "STOPSIGNAL"), config.StopSignal)
    assert.deepStrictEqual(textsOf(variant, "EXPOSE"), Object.keys(config.ExposedPorts))
    assert.deepStrictEqual(
      textsOf(variant, "VOLUME").flatMap((text) => list(text)),
      Object.keys(config.Volumes ?? {})
    )
    const { Interval, Retries, StartPeriod, Test, Timeout } = config.Healthcheck
    assert.strictEqual(
      lastOf(variant, "HEALTHCHECK"),
      `--interval=${seconds(Interval)} --timeout=${seconds(Timeout)} --start-period=${seconds(StartPeriod)} --retries=${Retries} ` +
        `CMD [${Test.slice(1)
          .map((one) => JSON.stringify(one))
          .join(", ")}]`
    )
    const labels = Object.fromEntries(
      textsOf(variant, "LABEL")
        .flatMap((text) => [...text.matchAll(/(\S+)="([^"]*)"/g)])
        .map(([, name, value]) => [name, value])
    )
    // The time and the commit are unknown to Docker.
    const { "org.opencontainers.image.created": _, ...known } = config.Labels
    assert.deepStrictEqual(labels, known)
  })

  it("builds on scratch, with the release of Debian that the packages are from, and runs as no root", () => {
    assert.strictEqual(stages.get("common")?.base, "scratch")
    assert.strictEqual(stages.get("build")?.base, `node:24-${readDebianLock().release}`)
    for (const variant of variants) {
      // Later instructions would run as this account, and none does.
      assert.strictEqual(instructionsOf(variant).at(-1)?.name, "USER")
      assert.deepStrictEqual(textsOf(variant, "RUN"), [])
      for (const text of textsOf(variant, "COPY")) assert.match(text, /^--from=build /)
    }
  })

  it("sends Docker only what the build reads, without secrets and installed packages", () => {
    const lines = readFileSync(path.join(folder, "Dockerfile.dockerignore"), "utf8").trim().split("\n")
    const [first, ...rules] = lines.filter((line) => !line.startsWith("#"))
    assert.strictEqual(first, "**")
    const kept = rules.filter((line) => line.startsWith("!")).map((line) => line.slice(1))
    for (const name of kept) assert.isTrue(existsSync(path.join(root, name)), name)
    assert.includeMembers(rules, ["**/node_modules", "**/.env*"])
    assert.deepStrictEqual(
      textsOf("build", "COPY")[0]
        ?.split(" ")
        .slice(0, -1)
        .filter((name) => !kept.includes(name)),
      []
    )
  })
})
