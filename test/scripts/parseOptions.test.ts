import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const run = (script: string, ...args: ReadonlyArray<string>) => {
  const file = fileURLToPath(new URL(`../../scripts/${script}.ts`, import.meta.url))
  const { status, stderr, stdout } = spawnSync(process.execPath, [file, ...args], { encoding: "utf8" })
  return { status, stderr, stdout }
}

describe("Options of scripts", () => {
  for (const script of ["mutants", "simulate", "chaos", "linearizability", "schemas"]) {
    it(`npm run ${script} -- --help prints the usage`, () => {
      const { status, stderr, stdout } = run(script, "--help")
      assert.strictEqual(status, 0, stderr)
      assert.include(stdout, `npm run ${script}`)
      assert.notInclude(stdout, "*")
    })
  }

  it.each([
    ["mutants", ["--nothing"], "Unknown option '--nothing'"],
    ["mutants", [], 'Name a file or a folder of src, or "sql"'],
    ["mutants", ["sql", "nothing-like-it"], "No mutant contains nothing-like-it"],
    ["mutants", ["src/nothing-like-it"], "src/nothing-like-it is no file or folder of src"],
    ["mutants", ["src/domain", "--tests", "test/nothing"], "test/nothing is no file or folder of test"],
    ["mutants", ["src/domain", "--workers", "none"], "--workers is a number, not none"],
    ["simulate", ["--seeds", "many"], "--seeds is a number, not many"],
    ["simulate", ["--plant", "nothing"], "--plant is one of lease-margin"]
  ] as const)("npm run %s -- %j prints what is wrong, and the usage", (script, args, problem) => {
    const { status, stderr } = run(script, ...args)
    assert.strictEqual(status, 2)
    assert.isTrue(stderr.startsWith(problem), stderr)
    assert.include(stderr, `npm run ${script}`)
    assert.notInclude(stderr, "    at ")
  })
})
