import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { guarantees } from "./support/guarantees/guarantees.ts"
import { type TestOutcome, unproven } from "./support/guarantees/unproven.ts"

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** The rows of the table of guarantees: the promise, its implementation, its tests. */
const promises = readFileSync(at("docs/guarantees.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (?:promise|-)/i.test(line))
  .map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim())
  )

/** Paths in backquotes. */
const pathsIn = (cell = ""): ReadonlyArray<string> =>
  [...cell.matchAll(/`([^`\s]+\/[^`\s]+)`/g)].map(([, path = ""]) => path)

const exists = (path: string): boolean => [path, `${path}.ts`].some((name) => existsSync(at(name)))

describe("docs/guarantees.md", () => {
  it("names an existing implementation and test for each guarantee", () => {
    assert.isAbove(promises.length, 10)
    for (const [promise, implementation, testedBy] of promises) {
      for (const path of pathsIn(implementation)) assert.isTrue(exists(path), path)
      assert.isNotEmpty(pathsIn(testedBy), promise)
      for (const path of pathsIn(testedBy)) assert.isTrue(exists(path) || exists(`${path}.test.ts`), path)
    }
  })

  it("each guarantee has proofs, tests that the run requires to pass, and each proof a guarantee", () => {
    for (const [promise = ""] of promises) {
      const matching = guarantees.filter((guarantee) => promise.startsWith(guarantee.promise))
      assert.lengthOf(matching, 1, `The guarantee "${promise}" needs an entry in test/support/guarantees`)
      assert.isNotEmpty(matching[0]?.proofs, promise)
    }
    for (const { promise } of guarantees) {
      assert.isTrue(
        promises.some(([text = ""]) => text.startsWith(promise)),
        `docs/guarantees.md has no guarantee "${promise}"`
      )
    }
  })
})

describe("unproven", () => {
  const claims = [
    {
      promise: "It holds",
      proofs: [
        { file: "test/a", test: "group > it holds" },
        { file: "test/b", test: "for * requests" }
      ]
    },
    { promise: "Root leaves", proofs: [{ file: "test/c", test: "as root > *", needs: "root" as const }] }
  ]
  const passed = (name: string): TestOutcome => ({ name, state: "passed" })
  const results = (changes: Record<string, ReadonlyArray<TestOutcome> | undefined> = {}) =>
    new Map(
      Object.entries({
        "test/a.test.ts": [passed("group > it holds"), passed("group > other")],
        "test/b.test.ts": [passed("for 20 requests")],
        "test/c.test.ts": [passed("as root > leaves")],
        ...changes
      }).flatMap(([file, outcomes]) => (outcomes === undefined ? [] : [[file, outcomes] as const]))
    )
  const run = { isComplete: true, isRoot: true }

  it("is empty if every proof passed", () => {
    assert.isEmpty(unproven(claims, results(), run))
  })

  it("names a proof that was removed, renamed, skipped or failed", () => {
    const faulty: ReadonlyArray<readonly [Record<string, ReadonlyArray<TestOutcome> | undefined>, RegExp]> = [
      [{ "test/a.test.ts": undefined }, /"It holds…": test\/a: .* did not run/],
      [{ "test/a.test.ts": [passed("group > it held")] }, /is missing or was renamed/],
      [
        { "test/b.test.ts": [passed("for 20 requests"), { name: "for 30 requests", state: "skipped" }] },
        /skipped/
      ],
      [{ "test/b.test.ts": [{ name: "for 20 requests", state: "failed" }] }, /failed/],
      [{ "test/c.test.ts": [{ name: "as root > leaves", state: "skipped" }] }, /skipped/],
      [{ "test/c.test.ts": [] }, /is missing/]
    ]
    for (const [changes, expected] of faulty) {
      const faults = unproven(claims, results(changes), run)
      assert.lengthOf(faults, 1)
      assert.match(faults[0] ?? "", expected)
    }
  })

  it("does not require other files in a run of some, nor what the machine cannot run", () => {
    assert.isEmpty(unproven(claims, results({ "test/b.test.ts": undefined }), { ...run, isComplete: false }))
    const skipped = { "test/c.test.ts": [{ name: "as root > leaves", state: "skipped" as const }] }
    assert.isEmpty(unproven(claims, results(skipped), { ...run, isRoot: false }))
  })
})
