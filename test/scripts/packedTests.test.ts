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
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { buildLibraries } from "../../scripts/libraries.ts"
import { writePackages } from "../../scripts/package/writePackages.ts"

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

/** Packs a package as `npm publish` does and unpacks it into a project. */
const installTarball = (folder: string, temporary: string, modules: string) => {
  const tarball = run("npm", ["pack", "--silent", "--pack-destination", temporary], folder).trim()
  run("tar", ["-xzf", path.join(temporary, tarball), "-C", modules], temporary)
  // A tarball has its files in a folder of this name.
  run("mv", ["package", path.basename(folder)], modules)
}

/** Installs `countersign` and the libraries of `countersign-server`, without the command and the console. */
const installPackages = async (temporary: string, modules: string) => {
  const dist = path.join(temporary, "dist")
  // The gate checks the types by a step of its own.
  const { metafile: library } = await buildLibraries(dist, { check: false })
  const folders = writePackages(path.join(temporary, "packages"), { dist, library })
  for (const folder of folders) installTarball(folder, temporary, modules)
}

/** Bytes of the files in a folder. */
const sizeOf = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(path.join(entry.parentPath, entry.name)).size, 0)

const Imports = Schema.fromJsonString(
  Schema.Struct({ light: Schema.Int, all: Schema.Int, isSame: Schema.Boolean, code: Schema.String })
)

const Exports = Schema.fromJsonString(
  Schema.Struct({ exports: Schema.Record(Schema.String, Schema.Unknown) })
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
  const countersign = connect({ url: "http://127.0.0.1:9", key: "csk_a", retries: 0 })
  const code = await countersign.tasks.list().then(
    () => "answered",
    (error) => isProblem(error, "SERVICE_UNREACHABLE") && client.isProblem(error) && error.code
  )
  console.log(JSON.stringify({ light, all: loaded, isSame: connect === client.connect, code }))
`

describe("the packed packages", () => {
  let temporary: string
  let project: string

  beforeAll(async () => {
    temporary = mkdtempSync(path.join(tmpdir(), "countersign-packed-"))
    project = path.join(temporary, "project")
    const modules = path.join(project, "node_modules")
    mkdirSync(modules, { recursive: true })
    linkPackages(modules)
    await installPackages(temporary, modules)
  }, 300_000)

  afterAll(() => rmSync(temporary, { recursive: true, force: true }))

  it(
    "an import of connect loads nothing of Effect, and is the connect of the client",
    { timeout: 120_000 },
    () => {
      writeFileSync(path.join(project, "imports.mjs"), importsOfConnect)
      const printed = run(process.execPath, ["imports.mjs"], project)
      const { all, code, isSame, light } = Schema.decodeUnknownSync(Imports)(printed)
      assert.strictEqual(light, 0)
      assert.isAbove(all, 60)
      assert.deepStrictEqual([isSame, code], [true, "SERVICE_UNREACHABLE"])
    }
  )

  it("every package has a README of its own, whose links lead out of it", () => {
    for (const name of ["countersign", "countersign-server"]) {
      const text = readFileSync(path.join(project, "node_modules", name, "README.md"), "utf8")
      assert.match(text, new RegExp(`^# ${name}\n`))
      assert.notMatch(text, /\]\((?!https:)/)
    }
  })

  it("the client's package is small, and needs nothing of the server's", { timeout: 120_000 }, () => {
    const client = path.join(project, "node_modules", "countersign")
    assert.isBelow(sizeOf(client), 4_500_000)
    const alone = path.join(temporary, "alone")
    const modules = path.join(alone, "node_modules")
    mkdirSync(modules, { recursive: true })
    for (const name of ["effect", "eventsource-parser", "uuid"])
      symlinkSync(path.join(root, "node_modules", name), path.join(modules, name))
    cpSync(client, path.join(modules, "countersign"), { recursive: true })
    const { exports } = Schema.decodeUnknownSync(Exports)(
      readFileSync(path.join(client, "package.json"), "utf8")
    )
    const names = Object.keys(exports).filter(
      (name) => !/^\.\/(?:dist\/|server$|testing$)|\.json$/.test(name)
    )
    assert.strictEqual(exports["./package.json"], "./package.json")
    assert.includeMembers(names, ["./api", "./client", "./connect", "./feedback", "./webhook"])
    writeFileSync(
      path.join(alone, "all.mjs"),
      names.map((name) => `await import("countersign/${name.slice(2)}")\n`).join("")
    )
    run(process.execPath, ["all.mjs"], alone)
    writeFileSync(path.join(alone, "server.mjs"), 'await import("countersign/testing")')
    const missing = spawnSync(process.execPath, ["server.mjs"], { cwd: alone, encoding: "utf8" })
    assert.include(missing.stderr, "Cannot find package 'countersign-server'")
  })

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
