import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApiKey } from "../../../src/api/ApiKeys.ts"
import { Authorized } from "../../../src/api/Authorization.ts"
import { AuditActions, MAX_AUDIT_ACTORS } from "../../../src/api/console/AuditRows.ts"
import { StepId } from "../../../src/domain/Ids.ts"
import { AuditAction } from "../../../src/domain/identity/AuditEntry.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { actorStatement, AuditRows } from "../../../src/server/console/AuditRows.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

const principalOf = Effect.fnUntraced(function* (organization: string, input: Partial<NewApiKey> = {}) {
  const { key } = yield* Countersign
  return yield* (yield* ApiKeys).verify(yield* key(input, organization))
})

const reading = <A, E, R>(
  effect: Effect.Effect<A, E, R | Authorized<"approvals.admin">>,
  principal: Principal
) => Effect.provideService(effect, Authorized("approvals.admin"), principal)

/** A step that two people of finance have to approve. The first one has. */
const voted = (organization: string) =>
  Effect.gen(function* () {
    const { client } = yield* Countersign
    const admin = yield* client({ name: "Grace Hopper" }, organization)
    yield* admin.approvalRules.replace({
      payload: {
        rules: [
          {
            effect: "require_approval",
            quorum: [{ count: 2 }],
            summary_template: "Refund {/amount} € of order {/order}"
          }
        ]
      }
    })
    const ada = yield* client({ preset: "reviewer", name: "Ada" }, organization)
    const ben = yield* client({ preset: "reviewer", name: "Ben" }, organization)
    const agent = yield* client({ preset: "runtime" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    const { approval_id } = yield* agent.sessions.step({
      params: { id: session_id },
      payload: {
        step_id: StepId.make("refund-1"),
        tool: "payments.refund",
        action_class: "write",
        arguments: { amount: 120, order: 4711 }
      }
    })
    const id = approval_id ?? assert.fail("the step waits")
    yield* ada.approvals.decide({
      params: { id },
      payload: { decision: "approve", comment: "The receipt fits." }
    })
    return { admin, ben, id }
  })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("AuditRows", (it) => {
  it.effect("a decision has its tool, the rule's sentence and the comment of the person who made it", () =>
    Effect.gen(function* () {
      const rows = yield* AuditRows
      const { ben, id } = yield* voted("named")
      yield* ben.approvals.decide({
        params: { id },
        payload: { decision: "reject", comment: "Paid before." }
      })
      const admin = yield* principalOf("named")
      const { items } = yield* reading(
        rows.list({ action: ["approval.vote_recorded", "approval.rejected"] }),
        admin
      )
      assert.deepStrictEqual(
        items.map(({ action, actor, target }) => [action, actor?.name, target]),
        [
          [
            "approval.rejected",
            "Ben",
            {
              name: "payments.refund",
              summary: "Refund 120 € of order 4711",
              comment: "Paid before."
            }
          ],
          [
            "approval.vote_recorded",
            "Ada",
            {
              name: "payments.refund",
              summary: "Refund 120 € of order 4711",
              comment: "The receipt fits."
            }
          ]
        ]
      )
      const all = yield* reading(rows.list({}), admin)
      assert.isNull(all.items.find(({ action }) => action === "rules.replaced")?.target)
      assert.strictEqual(
        all.items.find(({ action, target }) => action === "key.created" && target?.name === "Ada")?.target
          ?.summary,
        null
      )
    }).pipe(Effect.orDie)
  )

  it.effect("names are read only with the scope of their records, and of the organization", () =>
    Effect.gen(function* () {
      const rows = yield* AuditRows
      yield* voted("scoped")
      const decisions = (principal: Principal) =>
        Effect.map(
          reading(rows.list({ action: ["approval.vote_recorded"] }), principal),
          ({ items }) => items
        )
      const blind = yield* principalOf("scoped", { scopes: ["approvals.admin"] })
      assert.deepStrictEqual(
        (yield* decisions(blind)).map(({ target }) => target),
        [null]
      )
      assert.deepStrictEqual(yield* decisions(yield* principalOf("others")), [])
    }).pipe(Effect.orDie)
  )

  it.effect("the people with entries are found by the index of actors, each with the newest name", () =>
    Effect.gen(function* () {
      const rows = yield* AuditRows
      const sql = yield* SqlClient.SqlClient
      const admin = yield* principalOf("people")
      const { org_id } = admin
      yield* sql`
        INSERT INTO audit_log (org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, detail)
        SELECT
          ${org_id}, 'aud_' || lpad(n::text, 8, '0'), 'console.signed_in', 'key_' || n % 3, 'key_' || n % 3,
          'Person ' || n % 3 || CASE WHEN n > 5000 THEN ' (new)' ELSE '' END, now(), '{}'
        FROM generate_series(1, 6000) AS n
      `
      yield* sql`ANALYZE audit_log`
      assert.deepStrictEqual(
        (yield* reading(rows.actors, admin)).map(({ name }) => name),
        ["Person 0 (new)", "Person 1 (new)", "Person 2 (new)"]
      )
      const plan = yield* sql<{ readonly "QUERY PLAN": string }>`
        EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${actorStatement(sql, org_id)}
      `
      const text = plan.map((row) => row["QUERY PLAN"]).join("\n")
      assert.notInclude(text, "Seq Scan on audit_log", text)
      // Another thousand people: the list ends.
      yield* sql`
        INSERT INTO audit_log (org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, detail)
        SELECT ${org_id}, 'aud_x' || n, 'console.signed_in', 'key_x' || n, 'key_x' || n, 'Many', now(), '{}'
        FROM generate_series(1, 1000) AS n
      `
      assert.strictEqual((yield* reading(rows.actors, admin)).length, MAX_AUDIT_ACTORS)
    }).pipe(Effect.orDie)
  )
})

describe("AuditActions", () => {
  const encode = Schema.encodeSync(AuditActions)
  const decode = Schema.decodeUnknownOption(AuditActions)

  it("names a whole subject once, and every list of actions survives the address", () => {
    const approvals = AuditAction.literals.filter((action) => action.startsWith("approval."))
    assert.strictEqual(encode([...approvals, "grant.revoked"]), "approval.*,grant.revoked")
    assert.isBelow(encode(AuditAction.literals).length, 1_000)
    for (const actions of [AuditAction.literals, approvals, ["key.created"] as const]) {
      assert.sameMembers([...Option.getOrThrow(decode(encode(actions)))], [...actions])
    }
  })

  it("refuses unknown names", () => {
    for (const text of ["", "nothing", "nothing.*", "key.created,", "key.created,other"]) {
      assert.isTrue(Option.isNone(decode(text)), text)
    }
  })
})
