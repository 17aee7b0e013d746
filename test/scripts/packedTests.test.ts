import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { type SpawnSyncReturns, spawnSync } from "node:child_process"
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { buildLibraries } from "../../scripts/libraries.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** The examples that run. The others only compile here: the check of the documents runs all of them from the sources. */
const RUN = ["fake-egress.test.ts", "test-clock.test.ts", "time-travel.test.ts"]

const ok = ({ status, stderr, stdout }: SpawnSyncReturns<string>): string => {
  assert.strictEqual(status, 0, stdout + stderr)
  return stdout
}

const run = (command: string, args: ReadonlyArray<string>, cwd: string) =>
  ok(
    spawnSync(command, args, {
      cwd,
      encoding: "utf8",
      env: { ...process.env, VITEST: undefined, NO_COLOR: "1", FORCE_COLOR: undefined }
    })
  )

/** Links the packages of this checkout into a project, except the one under test. */
const linkPackages = (modules: string) => {
  for (const name of readdirSync(path.join(root, "node_modules"))) {
    if (!name.startsWith(".")) symlinkSync(path.join(root, "node_modules", name), path.join(modules, name))
  }
}

/** Packs the libraries as `npm pack` does, without the command and the console; returns the unpacked package. */
const installPackage = async (temporary: string, modules: string) => {
  const source = path.join(temporary, "source")
  mkdirSync(source)
  const manifest: object = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"))
  writeFileSync(path.join(source, "package.json"), JSON.stringify({ ...manifest, scripts: {}, bin: {} }))
  // The gate checks the types by a step of its own.
  await buildLibraries(path.join(source, "dist"), { check: false })
  run("npm", ["pack", "--pack-destination", temporary], source)
  const tarball = readdirSync(temporary).find((name) => name.endsWith(".tgz"))
  if (tarball === undefined) assert.fail("npm pack wrote no tarball")
  run("tar", ["-xzf", path.join(temporary, tarball), "-C", modules], temporary)
  // A tarball has its files in a folder of this name.
  run("mv", ["package", "countersign"], modules)
}

const Imports = Schema.fromJsonString(
  Schema.Struct({ light: Schema.Int, all: Schema.Int, isSame: Schema.Boolean, code: Schema.String })
)

/** Imports `countersign/connect`, then the whole client; prints how many modules of Effect each loads. */
const importsOfConnect = `
  import { registerHooks } from "node:module"
  let loaded = 0
  registerHooks({
    load: (url, context, next) => {
      if (url.includes("/node_modules/effect/")) loaded++
      return next(url, context)
    }
  })
  const { connect, isProblem } = await import("countersign/connect")
  const light = loaded
  const client = await import("countersign/client")
  const { Redacted } = await import("effect")
  const countersign = connect({ url: "http://127.0.0.1:9", key: Redacted.make("csk_a"), retries: 0 })
  const code = await countersign.tasks.list().then(
    () => "answered",
    (error) => isProblem(error, "SERVICE_UNREACHABLE") && client.isProblem(error) && error.code
  )
  console.log(JSON.stringify({ light, all: loaded, isSame: connect === client.connect, code }))
`

describe("the packed package", () => {
  let temporary: string
  let project: string

  beforeAll(async () => {
    temporary = mkdtempSync(path.join(tmpdir(), "countersign-packed-"))
    project = path.join(temporary, "project")
    const modules = path.join(project, "node_modules")
    mkdirSync(modules, { recursive: true })
    linkPackages(modules)
    await installPackage(temporary, modules)
  }, 300_000)

  afterAll(() => rmSync(temporary, { recursive: true, force: true }))

  it(
    "an import of connect loads a fraction of Effect, and is the connect of the client",
    { timeout: 120_000 },
    () => {
      writeFileSync(path.join(project, "imports.mjs"), importsOfConnect)
      const printed = run(process.execPath, ["imports.mjs"], project)
      const { all, code, isSame, light } = Schema.decodeUnknownSync(Imports)(printed)
      assert.isBelow(light, 60)
      assert.isAbove(all, 2 * light)
      assert.deepStrictEqual([isSame, code], [true, "SERVICE_UNREACHABLE"])
    }
  )

  it("tests that compose layers compile and pass against the packed tarball", { timeout: 300_000 }, () => {
    const tests = readdirSync(path.join(root, "examples")).filter((name) => name.endsWith(".test.ts"))
    assert.includeMembers(tests, RUN)
    for (const name of tests) cpSync(path.join(root, "examples", name), path.join(project, name))
    writeFileSync(path.join(project, "package.json"), JSON.stringify({ type: "module" }))
    writeFileSync(
      path.join(project, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          module: "nodenext",
          target: "es2024",
          types: ["node"]
        },
        include: ["*.ts"]
      })
    )
    run(
      process.execPath,
      [path.join(root, "node_modules", "typescript", "bin", "tsc"), "-p", project],
      project
    )
    const vitest = path.join(root, "node_modules", "vitest", "vitest.mjs")
    const output = run(
      process.execPath,
      [vitest, "run", "--root", project, "--no-file-parallelism", "--testTimeout=60000", ...RUN],
      project
    )
    assert.match(output, new RegExp(`Test Files\\s+${RUN.length} passed`))
  })
})
