import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** What generating needs. */
const NEEDED = [
  ...["src/api", "src/domain", "scripts/client", "package.json", "package-lock.json"],
  ...["freshness.js", "generate.ts", "lock.js", "setup.js"].map((name) => `scripts/${name}`)
]

const OPERATIONS = "src/client/connect/generated/Operations.ts"
const TABLE = "src/client/connect/generated/operationTable.ts"
const RULES_SCHEMA = "approval-rules.schema.json"

/** A checkout that was not set up, but for its dependencies. */
const withCheckout = (use: (checkout: string) => void) => {
  const checkout = mkdtempSync(path.join(tmpdir(), "countersign-generate-"))
  try {
    for (const name of NEEDED) cpSync(path.join(root, name), path.join(checkout, name), { recursive: true })
    symlinkSync(path.join(root, "node_modules"), path.join(checkout, "node_modules"))
    use(checkout)
  } finally {
    rmSync(checkout, { recursive: true, force: true })
  }
}

/** Runs this step of set-up; returns its message if it failed. */
const generate = (checkout: string): string | undefined => {
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "--eval", `import { generate } from "./scripts/setup.js"; generate()`],
    { cwd: checkout, encoding: "utf8" }
  )
  return status === 0 ? undefined : stderr
}

describe("set-up", () => {
  it("generates the client's operations and the rules schema again only after the contract has changed", () => {
    withCheckout((checkout) => {
      const read = (name: string) => readFileSync(path.join(checkout, name), "utf8")
      const write = (name: string, text: string) => writeFileSync(path.join(checkout, name), text)
      const present = (name: string) => readFileSync(path.join(root, name), "utf8")

      assert.isUndefined(generate(checkout))
      for (const name of [OPERATIONS, TABLE, RULES_SCHEMA]) assert.isTrue(read(name) === present(name), name)

      write(TABLE, "// kept")
      assert.isUndefined(generate(checkout))
      assert.isTrue(read(TABLE) === "// kept", "the contract is the same")

      // Git removes it when it leaves a commit that had it.
      rmSync(path.join(checkout, RULES_SCHEMA))
      assert.isUndefined(generate(checkout))
      assert.strictEqual(read(RULES_SCHEMA), present(RULES_SCHEMA))

      const group = "src/api/ApiKeys.ts"
      const contract = read(group)
      write(group, contract.replaceAll("API keys authenticate requests", "API keys name who asks"))
      assert.isUndefined(generate(checkout))
      assert.include(read(OPERATIONS), "API keys name who asks")

      // The contract of the last success again: its stamp must not count after a failure.
      write(group, "this is no TypeScript")
      assert.include(generate(checkout), "could not generate the files that follow from the contract: ")
      write(OPERATIONS, "// half written")
      write(group, contract.replaceAll("API keys authenticate requests", "API keys name who asks"))
      assert.isUndefined(generate(checkout))
      assert.include(read(OPERATIONS), "API keys name who asks")
    })
  })
})
