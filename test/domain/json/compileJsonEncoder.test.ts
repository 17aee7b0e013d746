import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import { ApprovalPage } from "../../../src/api/AgentApprovals.ts"
import { AgentSessionPage } from "../../../src/api/AgentSessions.ts"
import { ApiKeyPage } from "../../../src/api/ApiKeys.ts"
import { AuditEntryPage } from "../../../src/api/AuditLog.ts"
import { ComparisonPage, ReleasePage } from "../../../src/api/Comparisons.ts"
import { DatasetPage, ExamplePage } from "../../../src/api/Datasets.ts"
import { FeedbackPage, PromotionPreview } from "../../../src/api/Feedback.ts"
import { NotificationDeliveries, NotificationEndpoints } from "../../../src/api/NotificationEndpoints.ts"
import { TaskPage } from "../../../src/api/Tasks.ts"
import { TelemetryDeliveries } from "../../../src/api/TelemetryDestinations.ts"
import { compileJsonEncoder } from "../../../src/domain/json/compileJsonEncoder.ts"
import { JsonValue } from "../../../src/domain/json/JsonValue.ts"
import { Timestamp } from "../../../src/domain/Time.ts"

/** The response of each operation that uses the compiled encoder. */
const pages: ReadonlyArray<readonly [string, Schema.Codec<unknown, unknown>]> = [
  ["tasks", TaskPage],
  ["releases", ReleasePage],
  ["comparisons", ComparisonPage],
  ["datasets", DatasetPage],
  ["examples", ExamplePage],
  ["feedback", FeedbackPage],
  ["corrections to promote", PromotionPreview],
  ["approvals", ApprovalPage],
  ["sessions", AgentSessionPage],
  ["keys", ApiKeyPage],
  ["audit entries", AuditEntryPage],
  ["webhook endpoints", NotificationEndpoints],
  ["webhook deliveries", NotificationDeliveries],
  ["span deliveries", TelemetryDeliveries]
]

describe("compileJsonEncoder", () => {
  for (const [name, page] of pages) {
    const compiled = compileJsonEncoder(page)
    const encode = Schema.encodeUnknownSync(page, { disableChecks: true })
    it.prop(`a page of ${name} is encoded as by its schema`, [page], ([value]) => {
      const text = compiled(value)
      assert.deepStrictEqual<unknown>(JSON.parse(text ?? ""), JSON.parse(JSON.stringify(encode(value))))
    })
  }

  const Item = Schema.Struct({
    at: Timestamp,
    note: Schema.optionalKey(Schema.String),
    content: JsonValue
  })
  const at = DateTime.makeUnsafe("2026-11-21T02:33:05.123Z")

  it("an absent member is left out, and members that the schema does not name are not sent", () => {
    const value = { at, content: { a: [1, "é"] }, secret: "never sent" }
    assert.strictEqual(
      compileJsonEncoder(Item)(value),
      '{"at":"2026-11-21T02:33:05.123Z","content":{"a":[1,"é"]}}'
    )
  })

  it("a value of another type than the schema's is left to the schema", () => {
    const encode = compileJsonEncoder<unknown, unknown>(Item)
    for (const value of [
      { at: "2026-11-21T02:33:05.123Z", content: 1 },
      { at, note: undefined, content: 1 },
      { at, note: 1, content: 1 },
      { at, content: () => 1 },
      { at },
      null,
      []
    ]) {
      assert.isUndefined(encode(value), JSON.stringify(value))
    }
    assert.isUndefined(compileJsonEncoder(Schema.Array(Schema.Number))([1, Number.NaN]))
  })
})
