import { assert, describe, it } from "@effect/vitest"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { removeSourceMaps } from "../../scripts/setup.js"

describe("the set-up of a checkout", () => {
  it("removes the source maps of packages and keeps those of the bundled service, which stack traces need", () => {
    const modules = mkdtempSync(path.join(tmpdir(), "countersign-setup-"))
    try {
      const ofPackage = path.join(modules, "undici", "index.js.map")
      const ofBundle = path.join(
        modules,
        ".cache",
        "countersign",
        "bundles",
        "0123456789abcdef",
        "main.js.map"
      )
      for (const file of [ofPackage, ofBundle]) {
        mkdirSync(path.dirname(file), { recursive: true })
        writeFileSync(file, "{}")
      }
      removeSourceMaps(modules)
      assert.isFalse(existsSync(ofPackage))
      assert.isTrue(existsSync(ofBundle))
    } finally {
      rmSync(modules, { recursive: true })
    }
  })
})
