import { assert, describe, it } from "@effect/vitest"
import { Preset, presetScopes, type Scope, scopes } from "../../../src/domain/identity/Scope.ts"

/** Which presets have each scope, written out: whoever gives a preset a scope changes it here too. */
const table: Readonly<Record<Scope, ReadonlyArray<Preset>>> = {
  "feedback.write": ["admin", "reviewer", "integration"],
  "feedback.create": ["admin", "end_user_feedback"],
  "feedback.read": ["admin", "reviewer", "integration"],
  "datasets.write": ["admin"],
  "org_config.read": ["admin"],
  "org_config.write": ["admin"],
  "tasks.read": ["admin", "reviewer", "runtime"],
  "tasks.write": ["admin"],
  "tasks.run": ["admin", "runtime"],
  "runs.read": ["admin", "reviewer"],
  "datasets.read": ["admin", "reviewer"],
  "sessions.read": ["admin", "reviewer", "runtime"],
  "sessions.write": ["admin", "runtime", "hook"],
  "approvals.read": ["admin", "reviewer", "runtime"],
  // Never `runtime`: agents would approve their own steps.
  "approvals.decide": ["admin", "reviewer"],
  "approvals.admin": ["admin"],
  "rules.write": ["admin"],
  "data.delete": ["admin"],
  "keys.write": ["admin"]
}

describe("Scope", () => {
  it("each preset has the scopes of the table, and no other", () => {
    assert.sameMembers(Object.keys(table), [...scopes])
    for (const scope of scopes) {
      assert.deepStrictEqual(
        Preset.literals.filter((preset) => presetScopes(preset).includes(scope)),
        table[scope],
        scope
      )
    }
  })

  it("the reference lists the scopes of each preset", () => {
    const lines = String(Preset.ast.annotations?.["description"]).split("\n")
    assert.include(lines, "- `admin`: For full access: every scope.")
    assert.include(
      lines,
      "- `integration`: For systems that submit feedback: `feedback.write`, `feedback.read`."
    )
  })
})
