import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { Headers } from "effect/http"
import { PAGE_HEADER } from "../../../../src/api/console/pageToken.ts"
import { isSameOrigin, sessionToken } from "../../../../src/server/console/Console/browserRequest.ts"

const request = (
  headers: Readonly<Record<string, string>>,
  {
    cookies = {},
    method = "POST"
  }: { readonly cookies?: Record<string, string>; readonly method?: string } = {}
) => ({ method, headers: Headers.fromInput(headers), cookies })

describe("browserRequest", () => {
  it("outside loopback only the cookie counts that no other host of the domain can set", () => {
    const tokenAt = (host: string, cookies: Record<string, string>) =>
      Redacted.value(sessionToken(request({ host, [PAGE_HEADER]: " by page" }, { cookies })))
    assert.strictEqual(tokenAt("countersign.example.com", { "countersign-80": "planted" }), "")
    assert.strictEqual(
      tokenAt("countersign.example.com", { "countersign-80": "planted", "__Host-countersign": "own" }),
      "own"
    )
    for (const host of ["localhost:4000", "127.0.0.1:4000", "[::1]:4000", "countersign.localhost:4000"]) {
      assert.strictEqual(tokenAt(host, { "countersign-4000": "own" }), "own by page", host)
      assert.strictEqual(tokenAt(host, { "countersign-4001": "own" }), "", host)
    }
    for (const host of ["127.0.0.1.example.com", "localhost.example.com", ""]) {
      assert.strictEqual(tokenAt(host, { "countersign-80": "planted" }), "", host)
    }
  })

  it("a change needs Sec-Fetch-Site or Origin, and each that is present must be the console's own", () => {
    const own = "https://countersign.example.com"
    const accepts = (headers: Readonly<Record<string, string>>, method = "POST") =>
      isSameOrigin(request({ host: "countersign.example.com", ...headers }, { method }), own)
    assert.isTrue(accepts({ "sec-fetch-site": "same-origin" }))
    assert.isTrue(accepts({ origin: own }))
    assert.isTrue(accepts({ "sec-fetch-site": "same-origin", origin: own }))
    assert.isFalse(accepts({}))
    assert.isFalse(accepts({ "sec-fetch-site": "same-site", origin: own }))
    assert.isFalse(accepts({ "sec-fetch-site": "none" }))
    assert.isFalse(accepts({ "sec-fetch-site": "same-origin", origin: "https://evil.example.com" }))
    assert.isFalse(accepts({ origin: "null" }))
    // Pages of other sites cannot read a response, but they must not even start a stream.
    assert.isTrue(accepts({}, "GET"))
    assert.isTrue(accepts({ "sec-fetch-site": "none" }, "GET"))
    assert.isFalse(accepts({ "sec-fetch-site": "cross-site" }, "GET"))
    assert.isFalse(accepts({ "sec-fetch-site": "same-site" }, "GET"))
  })
})
