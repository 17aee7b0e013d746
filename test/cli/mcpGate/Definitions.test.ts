import { afterEach, assert, describe, it, onTestFinished, vi } from "vitest"
import { mkdtempSync, rmSync } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { openDefinitions } from "../../../src/cli/mcpGate/Definitions.ts"

afterEach(() => vi.restoreAllMocks())

describe("the definitions of a server's tools", () => {
  it("are accepted without a question if two first lists are read at the same time", async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "countersign-definitions-"))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    const asked: Array<string> = []
    const definitions = await openDefinitions({
      directory,
      acceptsChanges: false,
      ask: async ({ tool }) => void asked.push(tool),
      onChange: () => undefined,
      log: () => undefined
    })
    // The first list's text is written after the second list was read.
    const probe = await open(path.join(directory, "probe"), "w")
    const prototype: Pick<FileHandle, "writeFile"> = Object.getPrototypeOf(probe)
    await probe.close()
    const writeFile = prototype.writeFile
    let second: Promise<unknown> | undefined
    vi.spyOn(prototype, "writeFile").mockImplementationOnce(async function (this: FileHandle, ...args) {
      second = definitions.examine([{ name: "refund" }])
      await second
      return Reflect.apply(writeFile, this, args)
    })
    await definitions.examine([{ name: "refund" }])
    await second
    assert.deepStrictEqual(asked, [])
    assert.strictEqual(definitions.find("refund")?.state, "accepted")
  })
})
