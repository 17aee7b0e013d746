import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** The rows of the table of guarantees: the promise, its implementation, its tests. */
const promises = readFileSync(at("SECURITY.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (?:promise|-)/i.test(line))
  .map((line) => line.split("|").slice(1, -1))

/** Paths in backquotes. */
const pathsIn = (cell = ""): ReadonlyArray<string> =>
  [...cell.matchAll(/`([^`\s]+)`/g)].map(([, path = ""]) => path)

const exists = (path: string): boolean =>
  [path, `${path}.ts`, `${path}.test.ts`].some((name) => existsSync(at(name)))

describe("SECURITY.md", () => {
  it("names an implementation and a test for each guarantee, and all of them exist", () => {
    assert.isAbove(promises.length, 10)
    for (const [promise, implementation, heldBy] of promises) {
      const tests = pathsIn(heldBy)
      assert.isNotEmpty(tests, promise)
      for (const test of tests) assert.isTrue(exists(test), test)
      for (const path of pathsIn(implementation)) {
        if (path.includes("/")) assert.isTrue(exists(path), path)
      }
    }
  })
})
