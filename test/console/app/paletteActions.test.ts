import { assert, describe, it } from "@effect/vitest"
import { paletteActions } from "../../../src/console/app/paletteActions.ts"
import type { Scope } from "../../../src/domain/identity/Scope.ts"

const labelsOf = (...scopes: ReadonlyArray<Scope>) => paletteActions(scopes).map(({ label }) => label)

describe("paletteActions", () => {
  it("an action is offered to keys that open its page and may do it", () => {
    assert.deepStrictEqual(labelsOf("approvals.read", "rules.write"), [
      "New approval rule",
      "New reviewer",
      "Closed approvals"
    ])
    assert.deepStrictEqual(labelsOf("approvals.read"), ["Closed approvals"])
    assert.deepStrictEqual(labelsOf("keys.write", "tasks.write"), ["New API key", "New task"])
  })

  it("an action on a page that the key does not open is not offered", () => {
    assert.deepStrictEqual(labelsOf("rules.write", "org_config.write"), [])
  })
})
