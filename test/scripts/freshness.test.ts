import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { compareSources, writeStamp } from "../../scripts/freshness.js"

const withFolder = (use: (file: (name: string) => string, folder: string) => void) => {
  const folder = mkdtempSync(path.join(tmpdir(), "countersign-fresh-"))
  try {
    use((name) => path.join(folder, name), folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("compareSources", () => {
  it("a build is up to date until a source's content changes", () => {
    withFolder((file, folder) => {
      writeFileSync(file("a.ts"), "one")
      const compare = () => compareSources(folder, [file("a.ts")], file("stamp"))
      const before = compare()
      assert.isFalse(before.isFresh)
      writeStamp(file("stamp"), before)
      assert.isTrue(compare().isFresh)

      // Written again with the same content, as a checkout of another branch and back does.
      writeFileSync(file("a.ts"), "one")
      assert.isTrue(compare().isFresh)

      // The same size and the same modification time.
      const past = new Date("2026-01-01T00:00:00Z")
      utimesSync(file("a.ts"), past, past)
      assert.isTrue(compare().isFresh)
      writeFileSync(file("a.ts"), "two")
      utimesSync(file("a.ts"), past, past)
      assert.isFalse(compare().isFresh)
    })
  })

  it("a source that is added, removed or renamed makes a build stale", () => {
    withFolder((file, folder) => {
      writeFileSync(file("a.ts"), "one")
      writeFileSync(file("b.ts"), "one")
      writeStamp(file("stamp"), compareSources(folder, [file("a.ts")], file("stamp")))
      assert.isFalse(compareSources(folder, [file("b.ts")], file("stamp")).isFresh)
      assert.isFalse(compareSources(folder, [file("a.ts"), file("b.ts")], file("stamp")).isFresh)
      assert.isTrue(compareSources(folder, [file("a.ts")], file("stamp")).isFresh)
    })
  })
})
