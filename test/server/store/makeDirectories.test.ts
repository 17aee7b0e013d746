import { assert, describe, it } from "@effect/vitest"
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { errnoCode } from "../../../src/server/store/errnoCode.ts"
import { makeDirectories } from "../../../src/server/store/makeDirectories.ts"

const withDirectory = async (use: (directory: string) => Promise<void>) => {
  const directory = await mkdtemp(path.join(tmpdir(), "countersign-directories-"))
  try {
    await use(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

describe("makeDirectories", () => {
  it("creates missing parents and returns the outermost, or nothing if the directory exists", () =>
    withDirectory(async (directory) => {
      const inner = path.join(directory, "a/b/c")
      assert.strictEqual(await makeDirectories(inner, 0o700), path.join(directory, "a"))
      assert.strictEqual((await stat(inner)).mode & 0o777, 0o700)
      assert.isUndefined(await makeDirectories(inner, 0o700))
    }))

  it("fails below a parent that takes no entries", async () => {
    const code = await makeDirectories("/proc/countersign/data", 0o700).then(() => "none", errnoCode)
    assert.oneOf(code, ["ENOENT", "EACCES", "EROFS", "EPERM"])
  })

  it("fails where a file is in the way", () =>
    withDirectory(async (directory) => {
      const file = path.join(directory, "file")
      await writeFile(file, "")
      assert.strictEqual(await makeDirectories(file, 0o700).then(() => "none", errnoCode), "EEXIST")
      assert.strictEqual(
        await makeDirectories(path.join(file, "data"), 0o700).then(() => "none", errnoCode),
        "ENOTDIR"
      )
    }))
})
