import { assert, describe, it } from "@effect/vitest"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { removeSourceMaps } from "../../scripts/setup.js"

describe("the set-up of a checkout", () => {
  it("removes the source maps of packages, and keeps what other programs keep in the same folder", () => {
    const modules = mkdtempSync(path.join(tmpdir(), "countersign-setup-"))
    try {
      const ofPackage = path.join(modules, "undici", "index.js.map")
      const ofCache = path.join(modules, ".cache", "vite", "deps", "react.js.map")
      for (const file of [ofPackage, ofCache]) {
        mkdirSync(path.dirname(file), { recursive: true })
        writeFileSync(file, "{}")
      }
      removeSourceMaps(modules)
      assert.isFalse(existsSync(ofPackage))
      assert.isTrue(existsSync(ofCache))
    } finally {
      rmSync(modules, { recursive: true })
    }
  })
})
