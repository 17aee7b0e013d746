import { assert, describe, it } from "@effect/vitest"
import { preferredEncoding } from "../../../src/server/http/preferredEncoding.ts"

describe("preferredEncoding", () => {
  it.each([
    ["", "identity"],
    ["gzip, deflate, br", "br"],
    ["gzip", "gzip"],
    ["x-gzip", "gzip"],
    ["GZIP;Q=1.0", "gzip"],
    ["br;q=0, gzip", "gzip"],
    ["br;q=0.000 , gzip;q=0", "identity"],
    ["br;q=0.2, gzip;q=0.9", "gzip"],
    ["br; q=0.9 ,gzip; q=0.2", "br"],
    ["gzip;q=0.5, br;q=0.5", "br"],
    ["*", "br"],
    ["*;q=0", "identity"],
    ["br;q=0, *", "gzip"],
    ["identity;q=1, br;q=0.5, gzip;q=0.5", "identity"],
    ["identity;q=0.5, br", "br"],
    ["identity, gzip", "gzip"],
    ["zstd, deflate", "identity"],
    ["br;q=2, gzip", "gzip"],
    ["br;q=", "identity"],
    ["brr, gzipp", "identity"],
    [`${"a,".repeat(10_000)}br`, "identity"]
  ])("of `%.40s` it is %s", (accepted, expected) => {
    assert.strictEqual(preferredEncoding(accepted), expected)
  })

  it("is a coding that is available", () => {
    assert.strictEqual(preferredEncoding("br, gzip", ["gzip"]), "gzip")
    assert.strictEqual(preferredEncoding("br, gzip", []), "identity")
  })
})
