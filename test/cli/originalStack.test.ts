import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { pathToFileURL } from "node:url"
import { originalStack } from "../../src/cli/originalStack.ts"

describe("originalStack", () => {
  it("positions in a bundle with a source map become positions in the sources", async () => {
    const directory = realpathSync(mkdtempSync(path.join(tmpdir(), "countersign-map-")))
    try {
      const source = path.join(directory, "source.ts")
      writeFileSync(
        source,
        `interface Unused { readonly a: string }\n\nexport const trace = new Error("here").stack\n`
      )
      const outfile = path.join(directory, "out", "bundle.js")
      await build({
        entryPoints: [source],
        outfile,
        bundle: true,
        format: "esm",
        sourcemap: "linked",
        sourcesContent: false
      })
      const { trace }: { readonly trace: string } = await import(
        /* @vite-ignore */ pathToFileURL(outfile).href
      )
      const bundled = trace.includes("bundle.js") ? trace : `at ${pathToFileURL(outfile).href}:2:13`
      assert.include(originalStack(bundled), `${pathToFileURL(source).href}:3:`)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  it("positions in files without a source map, and all other text, stay as they are", () => {
    const text =
      "Error: https://example.com/a.js:1:2\n    at f (file:///nowhere/b.js:3:4)\n    at node:fs:5:6"
    assert.strictEqual(originalStack(text), text)
  })
})
