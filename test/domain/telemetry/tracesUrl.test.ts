import { assert, describe, it } from "@effect/vitest"
import { tracesUrl } from "../../../src/server/telemetry/Telemetry.ts"

describe("tracesUrl", () => {
  it("sets OTLP's default path if the path is empty, and changes no other", () => {
    for (const [given, used] of [
      ["https://otlp.example.com", "https://otlp.example.com/v1/traces"],
      ["https://otlp.example.com/", "https://otlp.example.com/v1/traces"],
      ["https://otlp.example.com:4318?team=7", "https://otlp.example.com:4318/v1/traces?team=7"],
      ["https://otlp.example.com/?team=7", "https://otlp.example.com/v1/traces?team=7"],
      ["HTTPS://otlp.example.com", "HTTPS://otlp.example.com/v1/traces"],
      ["https://otlp.example.com/otlp", "https://otlp.example.com/otlp"],
      ["https://otlp.example.com/v1/traces/", "https://otlp.example.com/v1/traces/"],
      ["https://otlp.example.com//", "https://otlp.example.com//"],
      ["nonsense", "nonsense"],
      ["", ""]
    ] as const) {
      assert.strictEqual(tracesUrl(given), used)
    }
  })
})
