import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** The rows of the table of promises: what is promised, where it is kept, what holds it. */
const promises = readFileSync(at("SECURITY.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (?:promise|-)/i.test(line))
  .map((line) => line.split("|").slice(1, -1))

/** What stands in backquotes and is a path. */
const pathsIn = (cell = ""): ReadonlyArray<string> =>
  [...cell.matchAll(/`([^`\s]+)`/g)].map(([, path = ""]) => path)

const exists = (path: string): boolean =>
  [path, `${path}.ts`, `${path}.test.ts`].some((name) => existsSync(at(name)))

describe("SECURITY.md", () => {
  it("names for each promise where it is kept and a test that holds it, and all of them are there", () => {
    assert.isAbove(promises.length, 10)
    for (const [promise, kept, held] of promises) {
      const tests = pathsIn(held)
      assert.isNotEmpty(tests, promise)
      for (const test of tests) assert.isTrue(exists(test), test)
      for (const path of pathsIn(kept)) {
        if (path.includes("/")) assert.isTrue(exists(path), path)
      }
    }
  })
})
