import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { promisify } from "node:util"

const directory = new URL("../../src/webhook/", import.meta.url)

describe("countersign/webhook", () => {
  it("imports nothing but its own files", () => {
    for (const file of readdirSync(directory)) {
      const text = readFileSync(new URL(file, directory), "utf8")
      for (const [, from] of text.matchAll(/^(?! \*).*\bfrom\s+["']([^"']+)["']/gm)) {
        assert.match(from ?? "", /^\.\/[a-zA-Z]+\.ts$/, file)
      }
      assert.notMatch(text, /\bimport\s*\(\s*["'`]|\brequire\s*\(/, file)
    }
  })

  it("verifies without a global Web Crypto, as on Node 18", async () => {
    const script = `
      import { createHmac } from "node:crypto"
      delete globalThis.crypto
      if (typeof crypto !== "undefined") throw new Error("still there")
      const { verify } = await import(${JSON.stringify(new URL("index.ts", directory).href)})
      const body = '{"id":"evt_1","type":"test","org_id":"org_1","occurred_at":"2026-11-21T02:33:05.123Z","approval":null}'
      const v1 = createHmac("sha256", "whsec_x").update("1795228385." + body).digest("hex")
      const headers = { "x-svc-signature": "t=1795228385,v1=" + v1 }
      const result = await verify(body, headers, "whsec_x", { now: () => 1795228385000 })
      console.log(JSON.stringify(result.ok))
    `
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script])
    assert.strictEqual(stdout.trim(), "true")
  })
})
