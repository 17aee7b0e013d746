import { assert, describe, it } from "@effect/vitest"
import { createHash, randomBytes } from "node:crypto"
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { afterAll } from "vitest"
import { copyFile, digestOf } from "../../../../../src/server/store/EmbeddedPostgres/backup/copyFile.ts"

const MEGABYTE = 1024 * 1024

const folder = mkdtempSync(path.join(tmpdir(), "countersign-copies-"))
afterAll(() => rmSync(folder, { recursive: true }))
const at = (name: string) => path.join(folder, name)
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** What a function reports of the bytes that it has read. */
const counter = () => {
  const counted = { bytes: 0 }
  return { counted, onBytes: (bytes: number) => void (counted.bytes += bytes) }
}

describe("copyFile", () => {
  it.each([0, 1, MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 3 * MEGABYTE + 7])(
    "copies, compresses and expands a file of %i bytes, and returns the checksum of the stored ones",
    async (size) => {
      const content = randomBytes(size)
      writeFileSync(at("from"), content)
      const plain = counter()
      const copied = await copyFile(at("from"), at("plain"), {
        conversion: "none",
        onBytes: plain.onBytes
      })
      assert.deepStrictEqual(copied, { digest: sha256(content), storedBytes: size, bytes: size })
      assert.strictEqual(plain.counted.bytes, size)
      assert.isTrue(readFileSync(at("plain")).equals(content))
      assert.strictEqual(statSync(at("plain")).mode & 0o777, 0o600)

      const compressed = await copyFile(at("from"), at("compressed"), { conversion: "compress" })
      const stored = readFileSync(at("compressed"))
      assert.deepStrictEqual(compressed, { digest: sha256(stored), storedBytes: stored.length, bytes: size })
      const expanded = await copyFile(at("compressed"), at("expanded"), { conversion: "expand" })
      assert.deepStrictEqual(expanded, { digest: sha256(stored), storedBytes: stored.length, bytes: size })
      assert.isTrue(readFileSync(at("expanded")).equals(content))

      const read = counter()
      assert.strictEqual(await digestOf(at("from"), { onBytes: read.onBytes }), sha256(content))
      assert.strictEqual(read.counted.bytes, size)
      for (const name of ["plain", "compressed", "expanded"]) rmSync(at(name))
    }
  )

  it("copies a file that grows meanwhile as far as it was at the beginning", async () => {
    const size = 3 * MEGABYTE + 7
    const content = randomBytes(size)
    writeFileSync(at("growing"), content)
    let reads = 0
    const copied = await copyFile(at("growing"), at("copied"), {
      conversion: "none",
      onBytes: () => {
        reads++
        // Always faster than it is read, for as long as it is read.
        if (reads < 100) appendFileSync(at("growing"), randomBytes(MEGABYTE))
      }
    })
    assert.deepStrictEqual(copied, { digest: sha256(content), storedBytes: size, bytes: size })
    assert.strictEqual(reads, 4)
    assert.isTrue(readFileSync(at("copied")).equals(content))
  })

  it("copies content in memory, never replaces a file, and stops when it is aborted", async () => {
    const content = Buffer.from("content")
    await copyFile(content, at("from memory"), { conversion: "none" })
    assert.isTrue(readFileSync(at("from memory")).equals(content))
    const isRefused = async (to: string, options: Parameters<typeof copyFile>[2]) => {
      const error = await copyFile(at("from memory"), to, options).then(
        () => undefined,
        (cause: unknown) => cause
      )
      assert.instanceOf(error, Error)
    }
    await isRefused(at("from memory"), { conversion: "none" })
    await isRefused(at("aborted"), { conversion: "none", signal: AbortSignal.abort() })
  })
})
