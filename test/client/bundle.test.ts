import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { libraryOptions } from "../../scripts/bundle.js"

const root = fileURLToPath(new URL("../..", import.meta.url))
/** The adapters of agent frameworks, each with what a program imports. */
const adapters = {
  adk: "governPlugin",
  "ai-sdk": "governTools",
  "claude-agent": "governHooks",
  langchain: "governMiddleware",
  mastra: "governTools",
  "openai-agents": "governAgents",
  strands: "governIntervention"
}
const entries = {
  adk: path.join(root, "src", "adapters", "adk.ts"),
  "ai-sdk": path.join(root, "src", "adapters", "aiSdk.ts"),
  "claude-agent": path.join(root, "src", "adapters", "claudeAgent.ts"),
  api: path.join(root, "src", "api", "index.ts"),
  client: path.join(root, "src", "client", "index.ts"),
  connect: path.join(root, "src", "client", "connect", "index.ts"),
  "openai-agents": path.join(root, "src", "adapters", "openaiAgents.ts"),
  langchain: path.join(root, "src", "adapters", "langchain.ts"),
  mastra: path.join(root, "src", "adapters", "mastra.ts"),
  strands: path.join(root, "src", "adapters", "strands.ts"),
  testing: path.join(root, "src", "testing", "index.ts"),
  webhook: path.join(root, "src", "webhook", "index.ts")
}

/** Builds the library entry points into a package of their own, as they are published. */
const buildPackage = async (directory: string) => {
  const published = path.join(directory, "node_modules", "countersign")
  mkdirSync(published, { recursive: true })
  copyFileSync(path.join(root, "package.json"), path.join(published, "package.json"))
  await build({
    ...libraryOptions(entries),
    outdir: path.join(published, "dist"),
    packages: "external"
  })
  for (const dependency of ["effect", "eventsource-parser", "uuid"]) {
    symlinkSync(path.join(root, "node_modules", dependency), path.join(directory, "node_modules", dependency))
  }
}

/** The size of a program's bundle, minified and compressed. */
const bundledSize = async (directory: string, program: string): Promise<number> => {
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: directory },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false
  })
  return gzipSync(outputFiles[0]?.contents ?? "").length
}

describe("a bundle of the published client", () => {
  let directory = ""
  beforeAll(async () => {
    directory = mkdtempSync(path.join(tmpdir(), "countersign-bundle-"))
    await buildPackage(directory)
  }, 120_000)
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  it("holds little more than connect", async () => {
    const connect = `import { connect, isProblem, ServiceUnreachable } from "countersign/client"
        console.log(connect, isProblem, ServiceUnreachable)`
    const size = await bundledSize(directory, connect)
    assert.isAbove(size, 5_000)
    assert.isBelow(size, 30_000)
    const guard = `import { isProblem } from "countersign/client"; console.log(isProblem)`
    assert.isBelow(await bundledSize(directory, guard), 3_000)
  })

  it.each(Object.entries(adapters))("holds little of the client for the adapter %s", async (name, govern) => {
    const program = `import { ${govern} } from "countersign/${name}"; console.log(${govern})`
    const size = await bundledSize(directory, program)
    assert.isAbove(size, 1_000)
    assert.isBelow(size, 10_000)
  })
})
