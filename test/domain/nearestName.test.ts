import { assert, describe, it } from "@effect/vitest"
import { nearestName } from "../../src/domain/nearestName.ts"

const members = ["arguments", "expires_at", "allowed_networks", "status", "correction", "self_review", "name"]

const meant: ReadonlyArray<readonly [text: string, name: string | undefined]> = [
  ["corrections", "correction"],
  ["state", "status"],
  ["expiresAt", "expires_at"],
  ["Expires-At", "expires_at"],
  ["selfReview", "self_review"],
  ["networks", "allowed_networks"],
  ["task_name", "name"],
  ["args", "arguments"],
  ["quota", undefined],
  ["id", undefined],
  ["x".repeat(100_000), undefined]
]

describe("nearestName", () => {
  it.each(meant)("%.20s probably stands for %s", (text, name) => {
    assert.strictEqual(nearestName(text, members), name)
  })
})
