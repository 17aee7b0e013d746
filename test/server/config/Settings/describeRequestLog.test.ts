import { assert, describe, it } from "@effect/vitest"
import {
  describeRequestLog,
  hiddenRequestLog
} from "../../../../src/server/config/Settings/describeRequestLog.ts"

describe("the description of the log of requests", () => {
  it("says whether requests are logged and which variable changes it", () => {
    const log = { requests: true, sampleRatio: 1 }
    assert.strictEqual(
      describeRequestLog(log, "Info"),
      "logged; to log none, set COUNTERSIGN_LOG_REQUESTS=false"
    )
    assert.strictEqual(
      describeRequestLog({ ...log, sampleRatio: 0.01 }, "Debug"),
      "logged (a share of 0.01); to log none, set COUNTERSIGN_LOG_REQUESTS=false"
    )
    assert.strictEqual(
      describeRequestLog(log, "Warn"),
      "not logged at the level warn; to log them, set COUNTERSIGN_LOG_LEVEL=info"
    )
    for (const level of ["Info", "Warn"] as const) {
      assert.strictEqual(
        describeRequestLog({ ...log, requests: false }, level),
        "not logged; to log them, set COUNTERSIGN_LOG_REQUESTS=true"
      )
    }
  })

  it("is a warning if the level hides requests that are to be logged", () => {
    const log = { requests: true, isRequestsSet: true }
    for (const level of ["Warn", "Error", "Fatal", "None"] as const) {
      const warning = hiddenRequestLog(log, level) ?? ""
      assert.match(warning, new RegExp(`^COUNTERSIGN_LOG_REQUESTS=true .* ${level.toLowerCase()} hides: set`))
      assert.include(warning, "COUNTERSIGN_LOG_LEVEL=info")
      assert.isUndefined(hiddenRequestLog({ ...log, isRequestsSet: false }, level))
      assert.isUndefined(hiddenRequestLog({ ...log, requests: false }, level))
    }
    for (const level of ["All", "Trace", "Debug", "Info"] as const) {
      assert.isUndefined(hiddenRequestLog(log, level))
    }
  })
})
