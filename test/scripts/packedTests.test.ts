import { assert, describe, it } from "@effect/vitest"
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
const RUN = ["fake-egress.test.ts", "test-clock.test.ts"]

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
  await buildLibraries(path.join(source, "dist"))
  run("npm", ["pack", "--pack-destination", temporary], source)
  const tarball = readdirSync(temporary).find((name) => name.endsWith(".tgz"))
  if (tarball === undefined) assert.fail("npm pack wrote no tarball")
  run("tar", ["-xzf", path.join(temporary, tarball), "-C", modules], temporary)
  // A tarball has its files in a folder of this name.
  run("mv", ["package", "countersign"], modules)
}

describe("the packed package", () => {
  it(
    "tests that compose layers compile and pass against the packed tarball",
    { timeout: 300_000 },
    async () => {
      const temporary = mkdtempSync(path.join(tmpdir(), "countersign-packed-"))
      try {
        const project = path.join(temporary, "project")
        const modules = path.join(project, "node_modules")
        mkdirSync(modules, { recursive: true })
        linkPackages(modules)
        await installPackage(temporary, modules)

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
      } finally {
        rmSync(temporary, { recursive: true, force: true })
      }
    }
  )
})
